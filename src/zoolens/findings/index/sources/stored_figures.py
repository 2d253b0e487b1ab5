"""The figures of a row: what the store observed, under the name a query calls it, and which of several counts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from zoolens.base.store.figures import StoredFigure
from zoolens.base.store.records import Provenance, Stage
from zoolens.base.store.store import Store
from zoolens.findings.index.tables.rows import Figure

ABOUT_DATA: Final = Stage.METRIC.of("")  # stages whose figures hold for the inputs of their run only
_RANK: Final = {Provenance.MEASURED: 0, Provenance.ESTIMATED: 1, Provenance.CLAIMED: 2, Provenance.UNAVAILABLE: 3}


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
    return {run: [_fact(figure) for figure in figures] for run, figures in store.figures(runs).items()}


def _fact(stored: StoredFigure) -> Fact:
    figure = Figure(
        stored.value, stored.unit, stored.provenance, stored.low, stored.high,
        source=stored.run, disturbed=stored.disturbed,
    )  # fmt: skip
    return Fact(figure_name(stored.metric, stored.scope), figure, stored.stage.startswith(ABOUT_DATA))


def merged(*sources: Iterable[Named]) -> dict[str, Figure]:
    """One figure a name: measured before estimated before claimed; of equals the first."""
    chosen: dict[str, Figure] = {}
    for source in sources:
        for name, figure in source:
            known = chosen.get(name)
            if known is None or _RANK[figure.provenance] < _RANK[known.provenance]:
                chosen[name] = figure
    return chosen
