"""Completions at a place of a query: words of the language, metrics, attributes, models, tasks and units.

Completion reads the tokens before the place and needs no whole query, so that it helps while one is being written. What
it offers is what the index has; whether the query as a whole makes sense is for the parser and the planner to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from zoolens.findings.index.index import Index
from zoolens.findings.queries.language.tokens import CLAUSES, COMPARISONS, Token, tokens_of
from zoolens.findings.queries.planning.condition_evaluator import COMMON
from zoolens.findings.queries.planning.metrics import ALIASES, DERIVED
from zoolens.inventory.catalog.names import bare

MOST: Final = 12
_TYPED: Final = re.compile(r"[\w.@:/+-]*\Z")  # what stands directly before the place
_WORDS: Final = {"ORDER": "ORDER BY", "ELSE": "ELSE NEAREST"}
_UNITS: Final = ("%", "x", "ms", "s", "kB", "MB", "GB", "M", "G", "GFLOPS")
_EXEC: Final = ("runtime=", "batch=", "device=", "precision=", "threads=", "provenance=measured")
_LISTS: Final = frozenset({"ON", "WHERE", "ORDER", "SHOW", "EXEC"})  # clauses that go on after AND or a comma


@dataclass(frozen=True)
class Completion:
    """`text` takes the place of text[start:end] of the query. `kind`: keyword, metric, attribute, model, task, data or
    unit."""

    text: str
    kind: str
    start: int
    end: int


def completions(text: str, at: int, index: Index) -> list[Completion]:
    """What may stand where the cursor is, best first: what begins with what is typed before what holds it."""
    at = max(0, min(at, len(text)))
    typed = _TYPED.search(text[:at])
    prefix = typed[0] if typed else ""
    start = at - len(prefix)
    before = [token for token in tokens_of(text[:start]) if token.kind != "end"]
    offered = dict.fromkeys(_offers(before, index))
    wanted = prefix.casefold()
    leading = [offer for offer in offered if offer[0].casefold().startswith(wanted)]
    holding = [offer for offer in offered if wanted and wanted in offer[0].casefold() and offer not in leading]
    chosen = [offer for offer in (*leading, *holding) if offer[0] != prefix][:MOST]
    return [Completion(word, kind, start, at) for word, kind in chosen]


def _offers(before: list[Token], index: Index) -> Iterator[tuple[str, str]]:
    clause = next(
        (token.keyword for token in reversed(before) if token.keyword in CLAUSES or token.keyword == "LIKE"), ""
    )
    last = before[-1] if before else None
    opened = last is not None and (
        last.keyword in (clause, "BY", "AND", "OR", "NOT", ",", "(", "REF") or last.text == "="
    )
    if not before:
        yield from (("SELECT MODELS", "keyword"), ("CORR", "keyword"), ("EXPLAIN", "keyword"))
    if last is not None and last.kind == "number":
        yield from ((unit, "unit") for unit in _UNITS)
    if clause and opened:
        yield from _values(clause, index)
    elif last is not None and last.kind == "word" and clause in ("ON", "WHERE") and last.keyword not in CLAUSES:
        yield from ((sign, "keyword") for sign in dict.fromkeys(COMPARISONS.values()))
    if not opened or last is None:
        if clause in _LISTS and clause in ("ON", "WHERE"):
            yield "AND", "keyword"
        used = {token.keyword for token in before}
        yield from ((_WORDS.get(word, word), "keyword") for word in CLAUSES if word not in used)


def _values(clause: str, index: Index) -> Iterable[tuple[str, str]]:
    """What may begin an entry of a clause."""
    if clause in ("CORR", "LIKE"):
        return ((name, "model") for name in sorted({bare(ref) for ref in index.rows.refs}))
    if clause == "ON":
        return _metrics(index)
    if clause == "ORDER":
        return _metrics(index)
    if clause == "WHERE":
        return ((name, "attribute") for name in _attributes(index))
    if clause == "SHOW":
        return (*_metrics(index), *((name, "attribute") for name in _attributes(index)))
    if clause == "TASK":
        return ((str(task), "task") for task in index.rows.attribute("task").values)
    if clause == "DATA":
        return ((_quoted(index.dataset.name), "data"),)
    if clause == "EXEC":
        return ((setting, "attribute") for setting in _EXEC)
    return ()


def _metrics(index: Index) -> list[tuple[str, str]]:
    """The names of metrics that some row has, the short ones first."""
    columns = {name.partition("@")[0] for name in index.rows.figures.names}
    aliases = [alias for alias, target in ALIASES.items() if target in columns or target in DERIVED]
    return [(name, "metric") for name in dict.fromkeys((*aliases, *sorted(columns), *DERIVED))]


def _attributes(index: Index) -> list[str]:
    return sorted({*COMMON, *index.rows.attributes})


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[\w.:/-]+", name) else "'" + name.replace("'", "''") + "'"
