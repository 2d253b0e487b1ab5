"""How interchangeable two models are, as a page: the verdict with what it rests on, then one section a dataset."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.base.present.figures import percent_down
from zoolens.base.present.pages import Page, Section, Tile
from zoolens.findings.comparisons.equivalence import Equivalence, OnData, verdict_of_equivalence
from zoolens.findings.comparisons.equivalence_words import (
    MARGIN_BOUND,
    MARGIN_BOUND_MEANING,
    agreement_line,
    agreement_words,
    data_lines,
    guarantee_line,
    margin_lines,
    refusal,
    side_lines,
    size_words,
)


def equivalence_page(report: Equivalence) -> Page:
    """What `zoolens.equiv` found."""
    return Page(
        f"{report.a} and {report.b}",
        verdict=_headline(report),
        tiles=tuple(_tiles(report)),
        sections=tuple(_sections(report)),
        judged=verdict_of_equivalence(report),
    )


def _headline(report: Equivalence) -> str:
    if not report.comparable:
        return refusal(report)
    guarantee = guarantee_line(report)
    if guarantee is not None:
        return guarantee.text
    pair = report.worst
    line = agreement_line(pair.worst, pair.bounds, report.tolerance, named=len(pair.outputs) > 1)
    return f"{line.text}, {size_words(pair)}."


def _tiles(report: Equivalence) -> Iterator[Tile]:
    if not report.comparable:
        return
    worst = report.worst.worst
    yield Tile(agreement_words(worst.agreement), worst.agreement_name(report.tolerance))
    if report.guaranteed is not None:
        yield Tile(percent_down(report.guaranteed), "at least, on inputs drawn like these")


def _sections(report: Equivalence) -> Iterator[Section]:
    for pair in report.on:
        yield _data_section(pair, report.tolerance)
    if report.arora is not None:
        yield Section(MARGIN_BOUND, (f"{MARGIN_BOUND_MEANING[0].upper()}{MARGIN_BOUND_MEANING[1:]}.",),
                      items=tuple(margin_lines(report.arora)))  # fmt: skip


def _data_section(pair: OnData, tolerance: float) -> Section:
    found = tuple(line.text.strip() for line in data_lines(pair, tolerance))
    notes = tuple(f"note: {note}" for note in pair.fit.notes)
    return Section(
        size_words(pair),
        tuple(f"{side}: {words}" for side, words in side_lines(pair)),
        warnings=tuple(f"Not compared: {reason}." for reason in pair.fit.reasons),
        items=found + notes,
    )
