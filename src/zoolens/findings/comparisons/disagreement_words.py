"""Contested inputs in words, for pages and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zoolens.base.present.figures import percent
from zoolens.base.present.tables import Column, Table
from zoolens.findings.comparisons.disagreements import Disagreements, Vote, readable
from zoolens.findings.comparisons.signatures import task_of
from zoolens.inventory.tasks.task import task_named

_LONGEST: Final = 24  # characters of a class name


@dataclass(frozen=True)
class DisagreementWords:
    """`panel`: the letter of each model, and what it is. `order`: that of the table's rows."""

    headline: str
    panel: tuple[tuple[str, str], ...]
    order: str
    table: Table


def input_words(found: Disagreements) -> DisagreementWords:
    order = "the most contested first"
    return DisagreementWords(_headline(found), tuple(_panel_lines(found)), order, _contested_table(found))


def _headline(found: Disagreements) -> str:
    share = percent(found.total / found.run.inputs, 1)
    return f"{found.total:,} of {found.run.inputs:,} inputs of {found.dataset} ({share}) get different answers"


def _letters(found: Disagreements) -> list[str]:
    return ["A", *(str(i) for i in range(1, len(found.panel)))]


def _panel_lines(found: Disagreements) -> Iterator[tuple[str, str]]:
    """Yields the letter of each model of the panel, and how often it agrees with the first."""
    graded = task_named(task_of(found.run)).graded
    agrees = "mean agreement" if graded else "agrees on"
    for letter, member in zip(_letters(found), found.panel, strict=True):
        share = "" if member.run is found.run else f"  {agrees} {percent(member.agreement, 1)}"
        yield letter, f"{member.name}  {member.run.id[:8]}{share}"


def _contested_table(found: Disagreements) -> Table:
    """Returns a row for each listed input: what it is, and what every model of the panel answers."""
    columns = [Column("input", keep=100), Column("truth", keep=99), Column("bits", "number")]
    columns += [Column(letter, keep=90 - i) for i, letter in enumerate(_letters(found))]
    rows = [
        (
            contested.input,
            _class(found, contested.label),
            f"{contested.entropy:.2f}",
            *(f"{_class(found, vote.answer)} {_score(vote)}" for vote in contested.votes),
        )
        for contested in found.inputs
    ]
    return Table("contested", tuple(columns), tuple(rows))


def _class(found: Disagreements, index: int) -> str:
    name = readable(found.class_name(index))
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _score(vote: Vote) -> str:
    return "" if vote.score is None else f"{100 * vote.score:.0f} %"
