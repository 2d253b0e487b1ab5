"""The numbers of very many observations at once, without their details: what the index is made of.

Reading whole observations of a hundred thousand runs takes minutes; these columns have a checksum of their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from sqlalchemy import Connection, Text, cast, select

from zoolens.base.store.checksums import FIGURE, check_figure
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.records import DISTURBED, Provenance
from zoolens.base.store.schema import observations
from zoolens.base.store.scopes import RAW, Dimension

_AT_ONCE: Final = 5_000  # runs a statement
_TIMINGS: Final = ("latency_", "throughput")
# As `records.is_disturbed` tells it from details, without parsing them: older runs say "fewer than 20 undisturbed …".
_disturbed = cast(observations.c.details, Text).contains(DISTURBED)


class StoredFigure(NamedTuple):
    """The number of one observation. `disturbed`: see `records.is_disturbed`."""

    run: str
    stage: str
    metric: str
    scope: str
    value: float
    low: float | None
    high: float | None
    unit: str
    provenance: Provenance
    disturbed: bool


def load_figures(connection: Connection, runs: Collection[str]) -> dict[str, list[StoredFigure]]:
    """The figures of some runs, by run. Figures of single classes and raw timings are left out."""
    column = observations.c
    single_class, raw = column.scope.startswith(Dimension.CLASS.prefix), column.scope.endswith(RAW)
    query = (
        select(*(column[name] for name in FIGURE), column.checksum, _disturbed.label("disturbed"))
        .where(column.value.is_not(None), ~single_class, ~raw)
        .order_by(column.seq)
    )
    figures: dict[str, list[StoredFigure]] = {}
    for some in in_chunks(runs, _AT_ONCE):
        for row in connection.execute(query.where(column.run_id.in_(some))):
            values = row[: len(FIGURE)]
            check_figure(row, values)
            disturbed = bool(row.disturbed) and row.metric.startswith(_TIMINGS)
            figure = StoredFigure(
                row.run_id, row.stage, row.metric, row.scope, row.value, row.low, row.high, row.unit,
                Provenance(row.provenance), disturbed,
            )  # fmt: skip
            figures.setdefault(row.run_id, []).append(figure)
    return figures
