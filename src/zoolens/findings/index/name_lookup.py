"""From the name in a query to a row: the model it means, and which of its rows.

A name is a reference (zoo:name@version or zoo:name), a bare name, the last part of one, a row's key, or any part of
one model's name; upper and lower case count only where several models differ in nothing else. A name under which the
same content was measured before finds it too, where no model has it now. Models that answered the probes come before
others of the same name, the newest version before older ones. Of several runtimes it is the one that EXEC names, else
the one that most rows are of.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.index.tables.rows import Row
from zoolens.inventory.catalog.names import ambiguous, bare, last_part, nearest, refuse_other_places

STACK: Final = (
    "runtime",
    "runtime_version",
    "device",
    "precision",
    "threads",
    "mode",
)  # keys of EXEC that are looked at
_KEY: Final = re.compile(r"[0-9a-f]{8,16}")
_DIGITS: Final = re.compile(r"\d+")


class NameLookup:
    """Finds rows by name. What is worked out from all rows is kept: they never change."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows

    def find(self, name: str, exec_: Mapping[str, Any] | None = None) -> int:
        rows = self._rows
        named = _of_one_model(rows, name, self._named(name))
        fitting = [row for row in named if _fits(rows[row], exec_ or {})]
        if not fitting:
            raise _not_in(rows, named, exec_ or {})
        return max(fitting, key=lambda row: (*_merit(rows[row], self._popular), -row))

    @cached_property
    def _popular(self) -> Counter[str | None]:
        runtime = self._rows.attribute("runtime")
        names = [None, *map(str, runtime.values)]
        codes = runtime.codes[self._rows.signed].astype(np.int64)
        counts = np.bincount(codes + 1, minlength=len(names))  # code −1: it has none
        return Counter({name: number for name, number in zip(names, counts.tolist(), strict=True) if number})

    @cached_property
    def _by_last_part(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Codes of references that rows have, and of lists of those that they had, by the last part of each."""
        now: dict[str, list[int]] = {}
        before: dict[str, list[int]] = {}
        for code, ref in enumerate(self._rows.refs):
            now.setdefault(last_part(_name(ref.lower())), []).append(code)
        for code, refs in enumerate(self._former):
            for part in {last_part(_name(ref)) for ref in refs}:
                before.setdefault(part, []).append(code)
        return now, before

    @cached_property
    def _former(self) -> list[list[str]]:
        return [[str(ref).lower() for ref in json.loads(str(refs))] for refs in self._rows.columns["also"].values]

    def _named(self, name: str) -> list[int]:
        rows, wanted = self._rows, name.strip().lower()
        if _KEY.fullmatch(wanted):
            matching = rows.columns["key"].rows_where([str(k).startswith(wanted) for k in rows.columns["key"].values])
            if matching.any():
                return self._answering(matching)
        # Whatever is spelt as wanted ends as it does, be it a name or a reference.
        parts = {last_part(wanted), last_part(_name(wanted))}
        now, before = ([code for part in parts for code in known.get(part, ())] for known in self._by_last_part)
        for spelt in _ways(wanted):
            codes = [code for code in now if spelt(rows.refs[code].lower())]
            if codes:
                return self._answering(np.isin(rows.columns["ref"].codes, codes))
        for spelt in _ways(wanted):
            codes = [code for code in before if any(spelt(ref) for ref in self._former[code])]
            if codes:
                return self._answering(np.isin(rows.columns["also"].codes, codes))
        within = rows.columns["ref"].rows_where([bool(wanted) and wanted in ref.lower() for ref in rows.refs])
        if within.any():
            return self._answering(within)
        raise _unknown(rows, name, wanted)

    def _answering(self, matching: NDArray[np.bool_]) -> list[int]:
        """Returns those of the matching rows that answered the probes; all of them if none did."""
        signed = matching & self._rows.signed
        return list(np.flatnonzero(signed if signed.any() else matching).tolist())


def bare_ref(row: Row) -> str:
    """The reference without its version: zoo:name."""
    return bare(row.ref)


def is_name_of(name: str, ref: str) -> bool:
    """Whether a name that a user wrote may stand for a reference: by any spelling but a part of it."""
    wanted = name.strip().lower()
    return any(spelt(ref.lower()) for spelt in _ways(wanted))


def _ways(wanted: str) -> Iterator[Callable[[str], bool]]:
    """How a reference may be spelt as wanted, from the strictest to the most lenient."""
    yield lambda ref: ref == wanted
    yield lambda ref: bare(ref) == wanted
    yield lambda ref: _name(ref) == wanted
    yield lambda ref: last_part(_name(ref)) == last_part(wanted)


def _unknown(rows: RowTable, name: str, wanted: str) -> UnknownName:
    known = dict.fromkeys(bare(ref) for ref in rows.refs)
    close = nearest(wanted, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else None
    if not rows:
        hint = "Nothing is indexed yet: measure models with `zoolens eval`."
    return UnknownName("indexed model", name, known, hint=hint)


def _name(ref: str) -> str:
    return bare(ref).partition(":")[2]


def _of_one_model(rows: Sequence[Row], name: str, candidates: Sequence[int]) -> list[int]:
    as_written = [row for row in candidates if any(spelt(rows[row].ref) for spelt in _ways(name.strip()))]
    candidates = as_written or candidates  # a:Net and a:net are two models
    models = {bare_ref(rows[row]) for row in candidates}
    if len(models) > 1:
        raise ambiguous(name, models)
    newest = max(_version(rows[row]) for row in candidates)
    named = [row for row in candidates if _version(rows[row]) == newest]
    here = [row for row in named if _is_at(rows[row], name)]
    named = here or named
    meant = max(named, key=lambda row: _last_met(rows[row]))
    contents: dict[tuple[str, str], set[str]] = {}
    for row in named:
        folder, file = _place(rows[row])
        place = str(folder or ""), str(file or "")
        contents.setdefault(place, set()).add(rows[row].model)
    refuse_other_places(name, rows[meant].ref, contents)
    return [row for row in named if _place(rows[row]) == _place(rows[meant])]


def _is_at(row: Row, name: str) -> bool:
    """Whether a name is the path of a row's model."""
    folder, file = _place(row)
    path = Path(name).expanduser()
    return bool(folder) and str(path.resolve().parent) == folder and file in (None, "", path.name)


def _place(row: Row) -> tuple[object, object]:
    """The folder and file of a model that was named by its path."""
    return row.attributes.get("folder"), row.attributes.get("file")


def _last_met(row: Row) -> tuple[str, str]:
    """Chooses, of models of one name in several places, the one that was evaluated last."""
    return str(row.attributes.get("evaluated", "")), str(row.attributes.get("measured", ""))


def _version(row: Row) -> tuple[int, ...]:
    return tuple(int(digits) for digits in _DIGITS.findall(row.ref.rpartition("@")[2])) if "@" in row.ref else ()


def _fits(row: Row, exec_: Mapping[str, Any]) -> bool:
    """Whether a row ran in the stack that EXEC asks for. A model that never ran fits any stack."""
    asked = ((key, value) for key, value in exec_.items() if key in STACK)
    return row.runtime is None or all(_same(row.attributes.get(key), value) for key, value in asked)


def _same(known: object, asked: object) -> bool:
    if isinstance(known, float | int) and not isinstance(known, bool):
        try:
            return float(known) == float(str(asked))
        except ValueError:
            return False
    return known is not None and str(known).lower() == str(asked).lower()


def _merit(row: Row, popular: Mapping[str | None, int]) -> tuple[bool, int, str, str]:
    return (row.signature, popular[row.runtime], row.runtime or "", str(row.attributes.get("measured", "")))


def _not_in(rows: Sequence[Row], named: Sequence[int], exec_: Mapping[str, Any]) -> ZoolensError:
    asked = ", ".join(f"{key}={exec_[key]}" for key in STACK if key in exec_)
    there = sorted({", ".join(_stack_words(rows[row])) for row in named})
    return ZoolensError(
        f"{bare_ref(rows[named[0]])} was not measured with {asked}.", hint=f"It was with {' and with '.join(there)}."
    )


def _stack_words(row: Row) -> Iterator[str]:
    for key in ("runtime", "precision", "device"):
        if key in row.attributes:
            yield f"{key}={row.attributes[key]}"
