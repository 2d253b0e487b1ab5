"""Contested inputs as a page, and the words that it shares with the terminal. `contact_sheet` has the pictures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.findings.comparisons.disagreements import Disagreements, Vote, readable
from zoolens.findings.comparisons.signatures import task_of
from zoolens.inventory.tasks.task import task_named

_LONGEST: Final = 24  # characters of a class name


def disagreement_page(found: Disagreements) -> Page:
    """What `zoolens.disagree` found."""
    return Page(
        f"{found.panel[0].name} and its nearest equivalents",
        f"{found.panel[0].name} in {found.run.stack.runtime}, and nearest to it",
        f"{headline(found)}.",
        sections=tuple(_sections(found)),
    )


def headline(found: Disagreements) -> str:
    size = found.run.inputs
    share = f"{100 * found.total / size:.1f} %"
    return f"{found.total:,} of {size:,} inputs of {found.dataset} ({share}) get different answers"


def letters(found: Disagreements) -> list[str]:
    return ["A", *(str(i) for i in range(1, len(found.panel)))]


def panel_lines(found: Disagreements) -> Iterator[tuple[str, str]]:
    """Yields the letter of each model of the panel, and how often it agrees with the first."""
    graded = task_named(task_of(found.run)).graded
    agrees = "mean agreement" if graded else "agrees on"
    for letter, member in zip(letters(found), found.panel, strict=True):
        share = "" if member.run is found.run else f"  {agrees} {100 * member.agreement:.1f} %"
        yield letter, f"{member.name}  {member.run.id[:8]}{share}"


def contested_table(found: Disagreements) -> Table:
    """Returns a row for each listed input: what it is, and what every model of the panel answers."""
    columns = [Column("input", keep=100), Column("truth", keep=99), Column("bits", "number")]
    columns += [Column(letter, keep=90 - i) for i, letter in enumerate(letters(found))]
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


def _sections(found: Disagreements) -> Iterator[Section]:
    yield Section("Panel", items=tuple(f"{letter}: {words}" for letter, words in panel_lines(found)))
    if found.inputs:
        left_out = f"{len(found.inputs):,} of {found.total:,} are listed."
        few = (left_out,) if len(found.inputs) < found.total else ()
        yield Section("The most contested first", few, tables=(("", contested_table(found)),))
    if found.notes:
        yield Section(items=tuple(f"note: {note}" for note in found.notes))
