"""The figures of a row: what the store observed, under the name a query calls it, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple

from zoolens.base.store.figures import FigureKind, RunFigures
from zoolens.base.store.records import Provenance, Stage
from zoolens.findings.index.tables.rows import Figure

ABOUT_DATA: Final = Stage.METRIC.of("")  # stages whose figures hold for the inputs of their run only
_RANK: Final = {Provenance.MEASURED: 0, Provenance.ESTIMATED: 1, Provenance.CLAIMED: 2, Provenance.UNAVAILABLE: 3}


Named = tuple[str, Figure]


class Naming(NamedTuple):
    """What decides under which names the figures of a run count in a row."""

    dataset: str  # what the run's dataset is called
    about_data: bool  # figures about data count as they are, besides under the name of the dataset
    trained: bool = False  # a training, whose accuracy is top1
    misjudged: bool = False  # figures about data are wrong


class _Entry(NamedTuple):
    name: str
    at: int  # of its value among the numbers
    kind: FigureKind


@lru_cache(100_000)
def figure_name(metric: str, scope: str = "") -> str:
    return f"{metric}@{scope}" if scope else metric


@lru_cache(4_096)
def _entries(kinds: tuple[FigureKind, ...], naming: Naming) -> tuple[_Entry, ...]:
    """Every name under which a figure of a run counts. Very many runs have the same figures."""
    entries = []
    for number, kind in enumerate(kinds):
        name, about_data = figure_name(kind.metric, kind.scope), kind.stage.startswith(ABOUT_DATA)
        names = []
        if about_data and naming.misjudged:
            continue
        if not about_data or naming.about_data:
            names.append(name)
        if naming.trained and name == "accuracy":
            names.append("top1")
        if about_data and "@" not in name:
            names.append(figure_name(name, naming.dataset))
        entries += [_Entry(given, 3 * number, kind) for given in names]
    return tuple(entries)


def add_figures(chosen: dict[str, Figure], found: RunFigures, naming: Naming) -> None:
    """Add the figures of a run to those that were chosen before, by the rule of `merged`. No figure is made that does
    not count: of four runs of a row most do not."""
    numbers: list[Any] = found.numbers
    for name, at, (_, _, _, unit, provenance, disturbed) in _entries(found.kinds, naming):
        known = chosen.get(name)
        if known is None or _RANK[provenance] < _RANK[known.provenance]:
            value, low, high = numbers[at : at + 3]
            chosen[name] = Figure(value, unit, provenance, low, high, None, found.run, disturbed)


def own_figures(found: RunFigures | None) -> dict[str, Figure]:
    """All figures of a run, each under its own name."""
    if found is None:
        return {}
    numbers: list[Any] = found.numbers
    each = zip(found.kinds, numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    return {
        figure_name(kind.metric, kind.scope): Figure(
            value, kind.unit, kind.provenance, low, high, None, found.run, kind.disturbed
        )
        for kind, value, low, high in each
    }


def merged(*sources: Iterable[Named]) -> dict[str, Figure]:
    """One figure a name: measured before estimated before claimed; of equals the first."""
    chosen: dict[str, Figure] = {}
    for source in sources:
        for name, figure in source:
            known = chosen.get(name)
            if known is None or _RANK[figure.provenance] < _RANK[known.provenance]:
                chosen[name] = figure
    return chosen
