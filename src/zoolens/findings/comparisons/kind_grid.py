"""Models × kinds of machine: one figure of every model on one dataset in one runtime, on every kind that has it.

The grid is derived from the runs of the store, so that it needs no agents: runs of several machines that were copied
into one store make one. A kind that an agent offers and on which nobody has run anything is a column of the grid too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np

from zoolens.base.store.identities import stack_identities
from zoolens.base.store.records import Observation, Run, RunKind, is_beside_work
from zoolens.base.store.run_columns import KINDS, RunColumns, RunIndex
from zoolens.base.store.scopes import batch_scope
from zoolens.findings.comparisons.conditions import effective_conditions, options_words
from zoolens.findings.comparisons.machine_kinds import MachineKind, kind_of_agent, kind_of_stack, offers
from zoolens.findings.comparisons.machine_share import METRIC as LATENCY
from zoolens.findings.measure.class_order import judged_right
from zoolens.findings.measure.run_data import judged_observation, judging_metrics, main_metric
from zoolens.inventory.fleet.agent_facts import AgentFacts

RUNS_OF_A_CELL: Final = 3  # the newest repetitions, whose intervals together are that of the cell

Quantity = Literal["quality", "latency"]
Order = Literal["name", "spread"]


@dataclass(frozen=True)
class GridWanted:
    """`dataset` is a fingerprint. `quality` is the main metric of each run's task."""

    dataset: str
    runtime: str
    quantity: Quantity = "quality"
    batch: int = 1  # of latencies
    text: str = ""  # words, all of which are in the model's name
    order: Order = "name"


@dataclass(frozen=True)
class GridCell:
    """What is known of one model on one kind. `run` and `figure` are those of the newest run that has it, of timings
    without other work beside it where there is one; `low` and `high` are the ends of the intervals of its newest
    repetitions under the same conditions together."""

    run: Run | None = None  # None: nobody ran the model there
    figure: Observation | None = None
    low: float | None = None
    high: float | None = None
    runs: int = 0
    reason: str = ""  # why a run has no figure
    failed_since: str = ""  # why a newer run failed, which has no figure therefore

    @property
    def value(self) -> float | None:
        return None if self.figure is None else self.figure.value

    @cached_property
    def observed(self) -> Observation:
        """The figure with the interval of its repetitions together."""
        assert self.figure is not None
        return replace(self.figure, low=self.low, high=self.high)


NOT_MEASURED: Final = GridCell()


@dataclass(frozen=True)
class GridRow:
    """A model, as it was asked to run. Cells by the ids of kinds; a kind that is not there was not measured."""

    ref: str
    model: str  # its name, which no other content has here
    options: str  # in words; empty where nothing but the defaults was asked for
    cells: Mapping[str, GridCell]

    @property
    def name(self) -> str:
        return f"{self.model} ({self.options})" if self.options else self.model

    def cell(self, kind: str) -> GridCell:
        return self.cells.get(kind, NOT_MEASURED)


@dataclass(frozen=True)
class KindGrid:
    """Some rows of `total`, beginning with row `offset`. `kinds`: by machine, the one with most models first."""

    wanted: GridWanted
    metric: str  # what the newest run's figure is called; empty where there are no runs
    kinds: tuple[MachineKind, ...]
    agents: Mapping[str, tuple[str, ...]]  # names of those that offer a kind, by its id
    models: Mapping[str, int]  # how many rows have a run on a kind, by its id
    rows: tuple[GridRow, ...]
    total: int
    offset: int = 0
    pairs: int = 0  # of cells with runs, of one row each, of all `total` rows: how many differences could be found


@dataclass(frozen=True)
class GridChoice:
    """A dataset that runs are of, and how many runs each runtime has of it, most first."""

    dataset: str  # fingerprint
    name: str
    runtimes: Mapping[str, int]


def grid_choices(index: RunIndex) -> list[GridChoice]:
    """What a grid can be made of, the dataset with most evaluations first."""
    return index.derived("kind grid: choices", _choices)


def _choices(columns: RunColumns) -> list[GridChoice]:
    evaluated = columns.kind == KINDS.index(RunKind.EVALUATION)
    pairs = np.stack([columns.dataset[evaluated], columns.stack[evaluated]])
    together, counts = np.unique(pairs, axis=1, return_counts=True)
    found: dict[int, dict[str, int]] = {}
    for dataset, stack, count in zip(*together.tolist(), counts.tolist(), strict=True):
        runtimes, runtime = found.setdefault(dataset, {}), columns.stacks[stack].name
        runtimes[runtime] = runtimes.get(runtime, 0) + count
    listed = [
        GridChoice(
            columns.datasets[code].fingerprint,
            columns.datasets[code].name,
            dict(sorted(runtimes.items(), key=lambda item: (-item[1], item[0]))),
        )
        for code, runtimes in found.items()
    ]
    return sorted(listed, key=lambda choice: (-sum(choice.runtimes.values()), choice.name))


# --- which runs are in which cell


@dataclass(frozen=True)
class _RowPlaces:
    """Places of the runs of one row by the ids of kinds, newest first."""

    model: int  # code
    options: str
    kinds: dict[str, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Layout:
    columns: RunColumns
    kinds: Mapping[str, MachineKind]
    rows: Sequence[_RowPlaces]


def _layout(index: RunIndex, dataset: str, runtime: str) -> _Layout:
    return index.derived(("kind grid", dataset, runtime), lambda columns: _placed(index, columns, dataset, runtime))


def _placed(index: RunIndex, columns: RunColumns, dataset: str, runtime: str) -> _Layout:
    code = next((code for code, data in enumerate(columns.datasets) if data.fingerprint == dataset), None)
    stacks = {place: stack.fingerprint for place, stack in enumerate(columns.stacks) if stack.name == runtime}
    if code is None or not stacks:
        return _Layout(columns, {}, ())
    meant = (columns.dataset == code) & (columns.kind == KINDS.index(RunKind.EVALUATION))
    meant &= np.isin(columns.stack, list(stacks))
    places = columns.by_time[meant[columns.by_time]].tolist()
    used = {int(columns.stack[place]) for place in places}
    identities = stack_identities(index.store, [stacks[stack] for stack in used])
    kinds: dict[str, MachineKind] = {}
    of_stack: dict[int, tuple[str, str]] = {}
    for stack in used:
        identity = identities.get(stacks[stack], {})
        kind = kind_of_stack(runtime, identity)
        kinds[kind.id] = kind
        of_stack[stack] = kind.id, options_words(identity.get("options"))
    rows: dict[tuple[int, str], _RowPlaces] = {}
    for place in places:
        kind_id, options = of_stack[int(columns.stack[place])]
        model = int(columns.model[place])
        row = rows.setdefault((model, options), _RowPlaces(model, options))
        row.kinds.setdefault(kind_id, []).append(place)
    ordered = sorted(rows.values(), key=lambda row: (columns.models[row.model].name.casefold(), row.options, row.model))
    return _Layout(columns, kinds, ordered)


# --- the grid


def kind_grid(
    index: RunIndex,
    wanted: GridWanted,
    agents: Mapping[str, AgentFacts] | None = None,
    *,
    limit: int | None = None,
    offset: int = 0,
) -> KindGrid:
    """Return the rows that fit, from `offset` on. `agents`: what agents published, by their names."""
    layout = _layout(index, wanted.dataset, wanted.runtime)
    columns = layout.columns
    kinds, offered = _with_agents(layout.kinds, wanted.runtime, agents or {})
    words = wanted.text.casefold().split()
    fitting = [row for row in layout.rows if all(word in columns.models[row.model].searched for word in words)]
    metric = _metric(index, layout, wanted)
    if wanted.order == "spread":
        fitting = _most_spread_first(index, layout, fitting, metric, wanted)
    counts = {kind: sum(kind in row.kinds for row in fitting) for kind in kinds}
    page = fitting[offset : None if limit is None else offset + limit]
    ordered = _by_machine(list(kinds.values()), counts)
    rows = _rows(index, layout, page, wanted)
    pairs = sum(len(row.kinds) * (len(row.kinds) - 1) // 2 for row in fitting)
    return KindGrid(wanted, metric, tuple(ordered), offered, counts, rows, len(fitting), offset, pairs)


def _by_machine(kinds: Iterable[MachineKind], counts: Mapping[str, int]) -> list[MachineKind]:
    """Kinds of one machine beside each other, the machine with most models first; what was measured first in each."""
    most: dict[str, int] = {}
    for kind in kinds:
        most[kind.machine_name] = max(most.get(kind.machine_name, 0), counts[kind.id])

    def place(kind: MachineKind) -> tuple[int, str, bool, list[int], str]:
        numbers = [int(number) for number in re.findall(r"\d{1,9}", kind.version)]  # 1.9 comes before 1.31
        return -most[kind.machine_name], kind.machine_name, not counts[kind.id], numbers, kind.id

    return sorted(kinds, key=place)


def _with_agents(
    kinds: Mapping[str, MachineKind], runtime: str, agents: Mapping[str, AgentFacts]
) -> tuple[dict[str, MachineKind], dict[str, tuple[str, ...]]]:
    every = dict(kinds)
    offered: dict[str, tuple[str, ...]] = {}
    for name, facts in agents.items():
        matching = [kind.id for kind in kinds.values() if offers(facts, kind)]
        own = kind_of_agent(runtime, facts)
        if not matching and own is not None:
            every[own.id] = own
            matching = [own.id]
        for kind in matching:
            offered[kind] = (*offered.get(kind, ()), name)
    return every, offered


def _metric(index: RunIndex, layout: _Layout, wanted: GridWanted) -> str:
    if wanted.quantity == "latency":
        return LATENCY
    newest = max((place for row in layout.rows for places in row.kinds.values() for place in places), default=None)
    if newest is None:
        return ""
    found = index.store.runs_of([layout.columns.ids[newest]], stages=False)
    return main_metric(found[0]) if found else ""


def _most_spread_first(
    index: RunIndex, layout: _Layout, rows: Iterable[_RowPlaces], metric: str, wanted: GridWanted
) -> list[_RowPlaces]:
    """Those first whose figures on two kinds are most apart: as a factor for latencies."""
    latency = wanted.quantity == "latency"
    values = index.figures(layout.columns, metric, batch_scope(wanted.batch) if latency else "")

    def spread(row: _RowPlaces) -> float:
        known = [next((values[at] for at in places if not np.isnan(values[at])), None) for places in row.kinds.values()]
        there = [value for value in known if value is not None]
        if len(there) < 2 or (latency and min(there) <= 0):
            return -1.0
        return float(max(there) / min(there)) if latency else float(max(there) - min(there))

    return sorted(rows, key=spread, reverse=True)  # sorting is stable: equal ones stay in the order of their names


def _rows(index: RunIndex, layout: _Layout, page: Sequence[_RowPlaces], wanted: GridWanted) -> tuple[GridRow, ...]:
    columns = layout.columns
    ids = [columns.ids[at] for row in page for places in row.kinds.values() for at in places[:RUNS_OF_A_CELL]]
    runs = {run.id: run for run in index.store.runs_of(ids)}
    metrics = figure_metrics(runs.values(), [wanted.quantity])
    stored = index.store.observations_by_run(ids, metrics=metrics) if ids else {}
    names = _told_apart(columns, page)
    return tuple(
        GridRow(
            columns.models[row.model].name,
            names[row.model],
            row.options,
            {kind: _cell(columns, places, runs, stored, wanted) for kind, places in row.kinds.items()},
        )
        for row in page
    )


def _told_apart(columns: RunColumns, page: Iterable[_RowPlaces]) -> dict[int, str]:
    """Names of models by their codes: those of other contents under one name are told apart by their fingerprints."""
    names = {row.model: columns.models[row.model].name for row in page}
    seen = list(names.values())
    return {
        code: f"{name} #{columns.models[code].fingerprint[:8]}" if seen.count(name) > 1 else name
        for code, name in names.items()
    }


def _cell(
    columns: RunColumns,
    places: Sequence[int],
    runs: Mapping[str, Run],
    stored: Mapping[str, Sequence[Observation]],
    wanted: GridWanted,
) -> GridCell:
    known = [runs[columns.ids[at]] for at in places[:RUNS_OF_A_CELL] if columns.ids[at] in runs]
    if not known:
        return NOT_MEASURED
    return cell_of([(run, stored.get(run.id, ())) for run in known], wanted, len(places))


def cell_of(runs: Sequence[tuple[Run, Sequence[Observation]]], wanted: GridWanted, count: int = 0) -> GridCell:
    """What some runs of one cell say together, the newest first. `count`: how many there are; 0: these."""
    count = count or len(runs)
    known = [run for run, _ in runs]
    found = [(run, _figure(run, judged_right(run, observations), wanted)) for run, observations in runs]
    measured = [(run, figure) for run, figure in found if figure is not None and figure.value is not None]
    if not measured:
        return GridCell(known[0], found[0][1], runs=count, reason=_why(known[0], found[0][1], wanted))
    failed_since = ""
    if measured[0][0] is not known[0] and known[0].failures:
        failed_since = _why(known[0], found[0][1], wanted)
    chosen = [one for one in measured if not is_beside_work(one[1])] or measured
    run, figure = chosen[0]
    repeated = [other for one, other in chosen if _repeats(one, run)]
    low, high = _together(repeated)
    return GridCell(run, figure, low, high, count, failed_since=failed_since)


def _repeats(run: Run, other: Run) -> bool:
    """Whether two runs of one cell measured the same. A runtime may choose another precision by itself."""
    return run.key.stack == other.key.stack and effective_conditions(run) == effective_conditions(other)


def _together(figures: Sequence[Observation]) -> tuple[float | None, float | None]:
    """The ends of all intervals; none where one has none."""
    lows, highs = [one.low for one in figures], [one.high for one in figures]
    known_lows, known_highs = [end for end in lows if end is not None], [end for end in highs if end is not None]
    if len(known_lows) < len(figures) or len(known_highs) < len(figures):
        return None, None
    return min(known_lows), max(known_highs)


def figure_metrics(runs: Collection[Run], quantities: Iterable[Quantity]) -> list[str]:
    """The metrics that the cells of these runs can show."""
    judging = judging_metrics(runs) if "quality" in quantities else []
    return [*judging, *([LATENCY] if "latency" in quantities else [])]


def _figure(run: Run, observations: Sequence[Observation], wanted: GridWanted) -> Observation | None:
    if wanted.quantity == "quality":
        return judged_observation(run, observations)
    scope = batch_scope(wanted.batch)
    return next((one for one in observations if (one.metric, one.scope) == (LATENCY, scope)), None)


def _why(run: Run, figure: Observation | None, wanted: GridWanted) -> str:
    if figure is not None:
        return str(figure.details.get("reason") or "the figure is no number")
    if run.failures:
        stage, error = next(iter(run.failures.items()))
        return f"{stage} failed: {error}"
    if wanted.quantity == "latency":
        return f"its latency at batch size {wanted.batch} was not measured"
    return "its answers were not judged" if run.stages else "nothing was finished yet"
