"""How long a phone takes to fetch a model over a slow mobile connection."""

from __future__ import annotations

from zoolens.base.store.records import Provenance
from zoolens.findings.index.tables.rows import Figure, Row

BITS_PER_SECOND = 10e6


def download(row: Row) -> Figure | None:
    size = row.figures.get("file_size")
    if size is None:
        return None  # unknown: such a model satisfies no bound on it
    return Figure(size.value * 8 / BITS_PER_SECOND, "s", Provenance.ESTIMATED, source="file_size at 10 Mbit/s")
