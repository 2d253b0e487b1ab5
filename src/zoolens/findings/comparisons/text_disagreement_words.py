"""Contested texts in words, for pages and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.base.present.figures import percent
from zoolens.base.present.tables import Column, Table
from zoolens.findings.comparisons.disagreement_words import DisagreementWords
from zoolens.findings.comparisons.text_disagreements import TextDisagreements


def text_words(found: TextDisagreements) -> DisagreementWords:
    order = "the texts with the least agreement first"
    return DisagreementWords(_headline(found), tuple(_panel_lines(found)), order, _table(found))


def _headline(found: TextDisagreements) -> str:
    share = percent(found.differing / max(found.positions, 1), 1)
    texts = f"{found.run.inputs:,} text{'' if found.run.inputs == 1 else 's'}"
    return (
        f"At {found.differing:,} of {found.positions:,} positions ({share}) in {texts} of {found.dataset} not all find "
        "the same next token most likely"
    )


def _panel_lines(found: TextDisagreements) -> Iterator[tuple[str, str]]:
    """Yields the letter of each model of the panel, and how far it agrees with the first."""
    for number, member in enumerate(found.panel):
        agrees = f"  mean agreement {percent(member.agreement)}" if number else ""
        yield str(number or "A"), f"{member.name}  {member.run.id[:8]}{agrees}"


def _table(found: TextDisagreements) -> Table:
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
            percent(text.agreement),
            f"{text.divergence:.4f}",
            f"{text.differing:,} ({percent(text.differing / text.positions, 1)})",
        )
        for text in found.inputs
    ]
    return Table("contested", columns, tuple(rows))
