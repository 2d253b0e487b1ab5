"""The figures of a row: what the store observed, under the name a query calls it, and which of several counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from zoolens.base.store.figures import FigureKind, FigureKinds, RunFigures
from zoolens.base.store.records import Provenance, Stage
from zoolens.findings.index.tables.chosen_figures import Choice, ChosenFigures
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


def _entries(kinds: FigureKinds, naming: Naming) -> Iterator[_Entry]:
    """Every name under which a figure of a run counts."""
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
        for given in names:
            yield _Entry(given, 3 * number, kind)


@lru_cache(4_096)
def _choice(runs: tuple[tuple[FigureKinds, Naming], ...]) -> Choice:
    """Which figures of a row's runs count, by the rule of `merged`. Very many rows have the same choice."""
    chosen: dict[str, tuple[int, _Entry]] = {}
    for number, (kinds, naming) in enumerate(runs):
        for entry in _entries(kinds, naming):
            known = chosen.get(entry.name)
            if known is None or _RANK[entry.kind.provenance] < _RANK[known[1].kind.provenance]:
                chosen[entry.name] = number, entry
    kinds_chosen = [entry.kind for _, entry in chosen.values()]
    return Choice(
        names=tuple(chosen),
        runs=tuple(number for number, _ in chosen.values()),
        places=tuple(entry.at for _, entry in chosen.values()),
        units=tuple(kind.unit for kind in kinds_chosen),
        provenances=tuple(kind.provenance for kind in kinds_chosen),
        disturbed=tuple(kind.disturbed for kind in kinds_chosen),
    )


def chosen_figures(runs: Sequence[tuple[RunFigures, Naming]]) -> ChosenFigures:
    """The figures of a row from those of its runs."""
    choice = _choice(tuple((found.kinds, naming) for found, naming in runs))
    return ChosenFigures(choice, [found.run for found, _ in runs], [found.numbers for found, _ in runs])


def with_further(figures: Mapping[str, Figure], *sources: Iterable[Named]) -> Mapping[str, Figure]:
    """The figures of a row's runs, and what else is known of the row, by the rule of `merged`."""
    further = merged(*sources)
    if not further or not isinstance(figures, ChosenFigures):
        return merged(figures.items(), further.items()) if further else figures
    choice = figures.choice
    known = {name: choice.provenances[choice.at[name]] for name in further if name in choice.at}
    if any(_RANK[further[name].provenance] < _RANK[provenance] for name, provenance in known.items()):
        return merged(figures.items(), further.items())
    return replace(figures, further={name: figure for name, figure in further.items() if name not in known})


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
