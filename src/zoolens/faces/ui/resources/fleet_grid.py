"""/fleet/grid: what every model does on every kind of machine, derived from the runs of the store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Paged, RequestError, Shown
from zoolens.faces.ui.page_figures import Figure, figure_of
from zoolens.findings.comparisons.kind_changes import CellChange, CellOutcome, JudgedGrid, judge_grid
from zoolens.findings.comparisons.kind_grid import (
    GridCell,
    GridChoice,
    GridRow,
    GridWanted,
    Order,
    Quantity,
    grid_choices,
    kind_grid,
)
from zoolens.findings.comparisons.kind_report import choose_cells
from zoolens.findings.comparisons.machine_kinds import KindName, MachineKind, kind_names
from zoolens.inventory.fleet.agent_facts import AgentFacts
from zoolens.inventory.fleet.placing import agents

MOST_KINDS: Final = 12  # columns of the grid at once
_MOST_DATASETS: Final = 200  # to choose from, those with most runs
_LONGEST: Final = 200  # letters of a name


class GridQuery(Paged):
    limit: int = Field(25, ge=1, le=100, description="How many rows to give at most.")
    dataset: str = Field("", max_length=_LONGEST, description="Its name; without one, that with most evaluations.")
    runtime: str = Field("", max_length=_LONGEST, description="Without one, that with most evaluations of the dataset.")
    quantity: Quantity = Field("quality", description="The main metric of the task, or the median latency.")
    batch: int = Field(1, ge=1, le=1 << 20, description="The batch size of latencies.")
    q: str = Field("", max_length=_LONGEST, description="Words, all of which are in the model's name.")
    sort: Order = Field("name", description="'spread': models first whose figures are most apart.")
    kind: list[str] = Field([], max_length=MOST_KINDS, description="Ids of the kinds to show; without one, all.")
    against: str = Field("", max_length=_LONGEST, description="The kind that all are compared with; else the best one.")


class RuntimeRuns(Answer):
    name: Shown
    runs: int


class GridDataset(Answer):
    """A dataset, and the runtimes in which models were evaluated on it."""

    name: Shown
    runtimes: list[RuntimeRuns]


class KindItem(Answer):
    """A column of the grid."""

    id: str
    machine: Shown
    software: Shown
    apart: list[Shown]
    """What else sets it apart from the other kinds."""
    agents: list[Shown]
    """Machines of this kind that are there now."""
    models: int
    """How many rows of the whole grid were run on it."""


class CellItem(Answer):
    """`run` is null where nobody ran the model on this kind; `figure` is null where the run does not have it, and
    `reason` says why."""

    run: str | None
    figure: Figure | None
    runs: int
    reason: Shown
    failed_since: Shown
    """Why a newer run failed, which has no figure therefore; empty: there is none."""
    outcome: CellOutcome | None
    """How it compares with the kind that it is held against; null: there is nothing to compare it with."""
    same_hardware: bool
    """Whether it is held against a kind of equal hardware, so that the software makes the difference."""
    change: Shown
    """The difference in short: 1.31 × the time."""
    sentence: Shown
    """The difference, and what differs between the two kinds."""


class GridLine(Answer):
    model: Shown
    ref: Shown
    """What the model's page is found by."""
    options: Shown
    cells: list[CellItem]
    """One for each of `kinds`."""


class Grid(Answer):
    """Rows of models, `total` of them, and columns of kinds, of which there are `all_kinds`."""

    datasets: list[GridDataset]
    dataset: Shown
    runtime: Shown
    metric: Shown
    kinds: list[KindItem]
    all_kinds: list[KindItem]
    total: int
    offset: int
    rows: list[GridLine]
    regressions: list[Shown]
    """What is worse than on another kind of equal hardware, or than on the kind `against`, among these rows."""
    unmeasured: int
    """Cells of these rows without a figure."""


def grid(context: Context, query: GridQuery) -> Grid:
    choices = grid_choices(context.runs)
    chosen, runtime = choose_cells(choices, query.dataset, query.runtime)
    wanted = GridWanted(
        chosen.dataset if chosen else "",
        runtime,
        query.quantity,
        batch=query.batch,
        text=query.q,
        order=query.sort,
    )
    found = kind_grid(context.runs, wanted, _facts(context), limit=query.limit, offset=query.offset)
    every = found.kinds
    shown = [kind for kind in every if not query.kind or kind.id in query.kind][:MOST_KINDS]
    if query.against and query.against not in {kind.id for kind in every}:
        raise RequestError(f"There is no kind {query.against[:20]} in this grid.", status=404)
    judged = judge_grid(context.store, found, against=query.against or None)
    names = kind_names(every)
    items = {kind.id: _kind(kind, names[kind.id], found.agents, found.models) for kind in every}
    return Grid(
        datasets=[_dataset(choice) for choice in choices[:_MOST_DATASETS]],
        dataset=chosen.name if chosen else "",
        runtime=runtime,
        metric=found.metric,
        kinds=[items[kind.id] for kind in shown],
        all_kinds=list(items.values()),
        total=found.total,
        offset=query.offset,
        rows=[_line(row, judged, place, shown) for place, row in enumerate(found.rows)],
        regressions=[change.sentence for change in judged.regressions],
        unmeasured=sum(row.cell(kind.id).value is None for row in found.rows for kind in shown),
    )


def _facts(context: Context) -> dict[str, AgentFacts]:
    return {
        agent.record.name: agent.facts
        for agent in agents(context.store)
        if agent.record.alive and agent.facts is not None
    }


def _dataset(choice: GridChoice) -> GridDataset:
    runtimes = [RuntimeRuns(name=name, runs=runs) for name, runs in choice.runtimes.items()]
    return GridDataset(name=choice.name, runtimes=runtimes)


def _kind(
    kind: MachineKind, name: KindName, agents: Mapping[str, tuple[str, ...]], models: Mapping[str, int]
) -> KindItem:
    return KindItem(
        id=kind.id,
        machine=name.machine,
        software=name.software,
        apart=list(name.apart),
        agents=list(agents.get(kind.id, ())),
        models=models[kind.id],
    )


def _line(row: GridRow, judged: JudgedGrid, place: int, kinds: list[MachineKind]) -> GridLine:
    changes = judged.rows[place]
    cells = [_cell(row.cell(kind.id), changes.get(kind.id)) for kind in kinds]
    return GridLine(model=row.model, ref=row.ref, options=row.options, cells=cells)


def _cell(cell: GridCell, change: CellChange | None) -> CellItem:
    return CellItem(
        run=None if cell.run is None else cell.run.id,
        figure=None if cell.figure is None else figure_of(cell.observed),
        runs=cell.runs,
        reason=cell.reason,
        failed_since=cell.failed_since,
        outcome=None if change is None else change.outcome,
        same_hardware=change is not None and change.same_hardware,
        change="" if change is None else change.short,
        sentence="" if change is None else change.sentence,
    )


ENDPOINTS: Final = (Endpoint("/fleet/grid", "One figure of every model on every kind of machine", grid),)
