"""A diff as rows for a page that shows both networks side by side: what stands beside what, and in words how it
differs.

The rows are the cards of the picture (`picture_cards`); a page can fold, search and read them aloud.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from zoolens.findings.graph.diff.picture_cards import Card, CardLine, PartCost, State, cards
from zoolens.findings.graph.diff.report import Diff

MOST_LINES: Final = 3000  # of all parts together


@dataclass(frozen=True)
class LineBeside:
    """One layer on each side; "" where a side has none."""

    a: str
    b: str
    state: State
    marks: tuple[int, ...]  # numbers of differences, counted from 1
    source_a: str  # what the source of A calls the layer
    source_b: str


@dataclass(frozen=True)
class PartBeside:
    """A block, equal blocks, or the layers between two blocks."""

    stage: str
    title_a: str  # "" where A has nothing here
    title_b: str
    cost_a: PartCost
    cost_b: PartCost
    state: State
    marks: tuple[int, ...]
    lines: tuple[LineBeside, ...]
    first_only: bool  # the lines are those of the first block; those of the others read differently
    left_out: int = 0  # lines that are not given because there are too many


def side_by_side(diff: Diff, most: int = MOST_LINES) -> list[PartBeside]:
    """All parts in order. Of a network with more than `most` layers, the last parts are given without their lines."""
    parts = map(_part, cards(diff))
    return list(_shortened(map(_of_one_file, parts) if diff.one_file else parts, most))


def _of_one_file(part: PartBeside) -> PartBeside:
    """Both sides are the same bytes: what is not understood is the same, too."""
    lines = tuple(replace(line, state=State.SAME) for line in part.lines)
    return replace(part, state=State.SAME, lines=lines)


def _part(card: Card) -> PartBeside:
    return PartBeside(
        card.stage,
        card.title_a,
        card.title_b,
        card.cost_a,
        card.cost_b,
        card.state,
        card.marks,
        tuple(_line(line) for line in card.lines),
        not card.uniform,
    )


def _line(line: CardLine) -> LineBeside:
    return LineBeside(line.a, line.b, line.state, line.marks, line.hint_a, line.hint_b)


def _shortened(parts: Iterable[PartBeside], most: int) -> Iterable[PartBeside]:
    given = 0
    for part in parts:
        given += len(part.lines)
        yield part if given <= most else replace(part, lines=(), left_out=len(part.lines))
