"""What a network is by structure, as a page, and the table that it shares with the terminal."""

from __future__ import annotations

from typing import Final

from zoolens.base.present.pages import Page, Section
from zoolens.base.present.tables import Column, Table
from zoolens.findings.audit.identification import Identification
from zoolens.findings.graph.signatures.nearest_networks import NEAR, NetworkMatch

_SAME_LAYERS: Final = {  # by how the padding compares
    "equal": "the same structure",
    "differs": "the same layers, other padding",
    "unknown": "the same layers; its padding at this image size is not known",
}
_COLUMNS: Final = (
    Column("network", keep=9), Column("likeness", "number", keep=8), Column("this has", keep=5, folds=True),
)  # fmt: skip


def identification_page(found: Identification) -> Page:
    """What `zoolens.identify` found: what the network is, and whether its name is right where it claims something."""
    judgement = found.judgement
    return Page(
        found.subject,
        found.sentence if judgement is not None else "",
        found.sentence if judgement is None else judgement.sentence,
        sections=(Section("Nearest networks", tables=(("", matches_table(found)),)),),
        judged=found.verdict,
    )


def matches_table(found: Identification) -> Table:
    """Returns a row for each known network that is near, the nearest first."""
    return Table("networks", _COLUMNS, tuple(map(_row, found.matches)))


def _row(match: NetworkMatch) -> tuple[str, ...]:
    if match.exact:
        words = _SAME_LAYERS[match.padding]
    else:
        words = "; ".join(match.differences) if match.similarity >= NEAR else "–"
    return match.ref, f"{100 * match.similarity:.0f} %", words
