"""A repeated run as a page, and the words that it shares with the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from zoolens.base.present.figures import figure, scope_words, with_interval
from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.base.store.scopes import is_of_part
from zoolens.findings.comparisons.reproduce import FigureVerdict, Reproduction

HOLDS, DRIFTS, FAILS = "✓", "~", "✗"
NOT_REPRODUCED: Final = "The answers are not reproduced; the figures marked ✗ are outside their interval."
_NO_FIGURES: Final = "The run has no figures to compare."
_COLUMNS: Final = (
    Column("", keep=9), Column("metric", keep=9), Column("scope", keep=5), Column("then", keep=7),
    Column("now", keep=8),
)  # fmt: skip


def reproduction_page(result: Reproduction) -> Page:
    """What `zoolens.reproduce` found."""
    # Timings alone say nothing about the answers, and are no good news by themselves.
    answered = any(not verdict.drifts for verdict in result.verdicts)
    return Page(
        title(result),
        verdict=(summary(result.verdicts) or _NO_FIGURES) if result.holds else NOT_REPRODUCED,
        good=result.holds and answered,
        sections=tuple(_sections(result)),
    )


def title(result: Reproduction) -> str:
    original, again = result.original, result.again
    return f"{original.ref} in {original.stack.runtime}: run {original.id[:8]} repeated as {again.id[:8]}"


def summary(verdicts: Sequence[FigureVerdict]) -> str:
    """Figures that must hold, and those of the machine, apart: a timing outside its interval is no failure."""
    lasting, drifting = ([verdict for verdict in verdicts if verdict.drifts is drifts] for drifts in (False, True))
    held, inside = (sum(verdict.inside for verdict in group) for group in (lasting, drifting))
    text = f"{held} of {len(lasting)} figures hold." if lasting else ""
    if drifting:
        text += f" Of {len(drifting)} timings and other figures of the machine {inside} fall inside their interval"
        text += "; those marked ~ drifted." if inside < len(drifting) else "."
    return text.strip()


def identical_lines(result: Reproduction) -> Iterator[str]:
    if result.identical is not None:
        yield f"{100 * result.identical:.4g} % of the answers are the same bit by bit."


def figures_table(result: Reproduction) -> Table:
    """Returns a row for each figure of the original run. Those of single classes are listed where they fail."""
    listed = [pair for pair in result.verdicts if not is_of_part(pair.then.scope) or not pair.inside]
    return Table("figures", _COLUMNS, tuple(map(_row, listed)))


def _row(pair: FigureVerdict) -> tuple[str, ...]:
    mark = HOLDS if pair.inside else DRIFTS if pair.drifts else FAILS
    now = figure(pair.now.value, pair.then.unit) if pair.now else "gone"
    return mark, pair.then.metric, scope_words(pair.then), with_interval(pair.then), now


def _sections(result: Reproduction) -> Iterator[Section]:
    told = () if result.holds else (summary(result.verdicts),)
    if said := (*identical_lines(result), *told, *result.notes):
        yield Section(paragraphs=said)
    yield Section("Figures", tables=(("", figures_table(result)),))
    if environment := tuple(f"{item.what}: {item.a} → {item.b}" for item in result.report.environment):
        yield Section("Environment", items=environment)
