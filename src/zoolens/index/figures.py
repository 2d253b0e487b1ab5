"""The figures of a row: what the store observed, under the name a query calls it, and which of several counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Text, cast, select

from zoolens.index.rows import Figure
from zoolens.store.checksums import FIGURE, check_figure
from zoolens.store.records import DISTURBED, Provenance
from zoolens.store.schema import observations
from zoolens.store.store import Store

ABOUT_DATA: Final = "metric:"  # stages whose figures hold for the inputs of their run only
_RANK: Final = {Provenance.MEASURED: 0, Provenance.ESTIMATED: 1, Provenance.CLAIMED: 2, Provenance.UNAVAILABLE: 3}

_AT_ONCE: Final = 5_000  # runs a statement

# As `records.is_disturbed` tells it from details, without parsing them: older runs say "fewer than 20 undisturbed …".
_disturbed = cast(observations.c.details, Text).contains(DISTURBED)
_TIMINGS: Final = ("latency_", "throughput")

Named = tuple[str, Figure]


@dataclass(frozen=True)
class Fact:
    """One stored observation. `about_data`: it holds for the inputs of its run, not for the model as such."""

    name: str
    figure: Figure
    about_data: bool


def figure_name(metric: str, scope: str = "") -> str:
    return f"{metric}@{scope}" if scope else metric


def stored_facts(store: Store, runs: Collection[str]) -> dict[str, list[Fact]]:
    """The figures of some runs, by run. Recalls of single classes and raw timings are left out."""
    column, ids = observations.c, list(runs)
    query = (
        select(*(column[name] for name in FIGURE), column.checksum, _disturbed.label("disturbed"))
        .where(column.value.is_not(None), ~column.scope.startswith("class="), ~column.scope.endswith(",raw"))
        .order_by(column.seq)
    )
    found: dict[str, list[Fact]] = {}
    for start in range(0, len(ids), _AT_ONCE):
        some = query.where(column.run_id.in_(ids[start : start + _AT_ONCE]))
        found |= store.read(lambda connection, some=some: _by_run(connection, some))  # type: ignore[misc]
    return found


def _by_run(connection: Connection, query: Any) -> dict[str, list[Fact]]:
    found: dict[str, list[Fact]] = {}
    for row in connection.execute(query):
        check_figure(row, row[: len(FIGURE)])
        disturbed = bool(row.disturbed) and row.metric.startswith(_TIMINGS)
        figure = Figure(
            row.value, row.unit, Provenance(row.provenance), row.low, row.high, source=row.run_id, disturbed=disturbed
        )
        fact = Fact(figure_name(row.metric, row.scope), figure, row.stage.startswith(ABOUT_DATA))
        found.setdefault(row.run_id, []).append(fact)
    return found


def merged(*sources: Iterable[Named]) -> dict[str, Figure]:
    """One figure a name: measured before estimated before claimed; of equals the first."""
    chosen: dict[str, Figure] = {}
    for source in sources:
        for name, figure in source:
            known = chosen.get(name)
            if known is None or _RANK[figure.provenance] < _RANK[known.provenance]:
                chosen[name] = figure
    return chosen
