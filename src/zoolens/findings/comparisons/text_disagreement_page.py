"""Contested texts as a page, and the words that it shares with the terminal. `token_sheet` has the texts themselves."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.findings.comparisons.text_disagreements import TextDisagreements


def text_disagreement_page(found: TextDisagreements) -> Page:
    """What `zoolens.disagree` found of language models."""
    return Page(
        f"{found.panel[0].name} and its nearest equivalents",
        f"{found.panel[0].name} in {found.run.stack.runtime}, and nearest to it",
        f"{text_headline(found)}.",
        sections=tuple(_sections(found)),
    )


def text_headline(found: TextDisagreements) -> str:
    share = f"{100 * found.differing / max(found.positions, 1):.1f} %"
    texts = f"{found.run.inputs:,} text{'' if found.run.inputs == 1 else 's'}"
    return (
        f"At {found.differing:,} of {found.positions:,} positions ({share}) in {texts} of {found.dataset} not all find "
        "the same next token most likely"
    )


def member_lines(found: TextDisagreements) -> Iterator[tuple[str, str]]:
    """Yields the letter of each model of the panel, and how far it agrees with the first."""
    for number, member in enumerate(found.panel):
        agrees = f"  mean agreement {100 * member.agreement:.2f} %" if number else ""
        yield str(number or "A"), f"{member.name}  {member.run.id[:8]}{agrees}"


def text_table(found: TextDisagreements) -> Table:
    """Returns a row for each listed text: how far the models agree on what follows, and at how many tokens they do
    not."""
    columns = (
        Column("input", keep=100),
        Column("tokens", "number", keep=97),
        Column("agreement", "number", keep=99),
        Column("KL, nats", "number", keep=95),
        Column("best differs", "number", keep=98),
    )
    rows = [
        (
            text.input,
            f"{text.positions:,}",
            f"{100 * text.agreement:.2f} %",
            f"{text.divergence:.4f}",
            f"{text.differing:,} ({100 * text.differing / text.positions:.1f} %)",
        )
        for text in found.inputs
    ]
    return Table("contested", columns, tuple(rows))


def _sections(found: TextDisagreements) -> Iterator[Section]:
    yield Section("Panel", items=tuple(f"{letter}: {words}" for letter, words in member_lines(found)))
    if found.inputs:
        left_out = f"{len(found.inputs):,} of {found.total:,} are listed."
        few = (left_out,) if len(found.inputs) < found.total else ()
        yield Section("The texts with the least agreement first", few, tables=(("", text_table(found)),))
    if found.notes:
        yield Section(items=tuple(f"note: {note}" for note in found.notes))
