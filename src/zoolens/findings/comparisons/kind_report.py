"""Every model on every kind of machine of a store, compared: what `zoolens fleet grid` says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zoolens.base.errors import AmbiguousName, UnknownName
from zoolens.base.present.figures import with_interval
from zoolens.base.store.records import Observation, is_beside_work, is_disturbed
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.comparisons.kind_changes import CellChange, CellOutcome, JudgedGrid, judge_grid
from zoolens.findings.comparisons.kind_grid import (
    GridCell,
    GridChoice,
    GridWanted,
    Quantity,
    grid_choices,
    kind_grid,
)
from zoolens.findings.comparisons.machine_kinds import KindName, kind_names
from zoolens.inventory.fleet.placing import agents


def compare_kinds(
    store: Store | str | Path | None = None,
    quantity: Quantity = "quality",
    *,
    data: str = "",
    runtime: str = "",
    batch: int = 1,
    text: str = "",
    against: str = "",
) -> tuple[JudgedGrid, str]:
    """Compare the figures of all models on one dataset in one runtime between kinds of machine; also returns the name
    of the dataset.

    Without a dataset or a runtime, the one with most evaluations is meant. `text`: words that are in the models' names.
    `against`: how the id of a kind begins that all are compared with, instead of the best one.
    """
    with borrowed_store(store, must_exist=True) as opened:
        index = RunIndex(opened)
        choice, chosen_runtime = choose_cells(grid_choices(index), data, runtime)
        facts = {
            agent.record.name: agent.facts for agent in agents(opened) if agent.record.alive and agent.facts is not None
        }
        dataset = "" if choice is None else choice.dataset
        grid = kind_grid(index, GridWanted(dataset, chosen_runtime, quantity, batch, text), facts)
        kind = kind_named([kind.id for kind in grid.kinds], against) if against else None
        return judge_grid(opened, grid, against=kind, most_tests=None), "" if choice is None else choice.name


def choose_cells(choices: list[GridChoice], data: str, runtime: str) -> tuple[GridChoice | None, str]:
    """The dataset and the runtime that are asked for, or those with most evaluations."""
    if not choices:
        return None, runtime
    found = [choice for choice in choices if not data or choice.name == data]
    if not found:
        # Names of parts of datasets are long: fashion-mnist/test[:2000] (first 200).
        found = [choice for choice in choices if data.casefold() in choice.name.casefold()]
        if len(found) > 1:
            raise AmbiguousName(data, [choice.name for choice in found], hint="Give more of its name.")
    if not found:
        raise UnknownName("dataset with evaluations", data, [choice.name for choice in choices])
    chosen = found[0]
    if runtime and runtime not in chosen.runtimes:
        raise UnknownName(f"runtime with evaluations on {chosen.name}", runtime, chosen.runtimes)
    return chosen, runtime or next(iter(chosen.runtimes))


def kind_named(ids: list[str], beginning: str) -> str:
    """The only kind whose id begins so."""
    found = [kind for kind in ids if kind.startswith(beginning)]
    if len(found) > 1:
        raise AmbiguousName(beginning, found, hint="Give more of the kind's id.")
    if not found:
        raise UnknownName("kind of machine", beginning, ids)
    return found[0]


def cell_words(cell: GridCell, change: CellChange | None) -> str:
    """A cell in a table: the figure with its interval, and the difference where it is beyond noise."""
    if cell.run is None:
        return "not measured"
    if cell.value is None:
        return "no figure"
    said = with_interval(cell.observed)
    if is_beside_work(cell.observed) and not is_disturbed(cell.observed):
        said += ", beside other work"
    if cell.failed_since:
        said += ", newest run failed"
    if change is None or change.outcome not in (CellOutcome.WORSE, CellOutcome.BETTER):
        return said
    return f"{said}, {change.short}"


def grid_data(judged: JudgedGrid) -> dict[str, Any]:
    """Everything as plain data."""
    grid, names = judged.grid, kind_names(judged.grid.kinds)
    rows = [
        {
            "model": row.model,
            "options": row.options,
            "cells": {kind.id: _cell_data(row.cell(kind.id), changes.get(kind.id)) for kind in grid.kinds},
        }
        for row, changes in zip(grid.rows, judged.rows, strict=True)
    ]
    return {
        "runtime": grid.wanted.runtime,
        "metric": grid.metric,
        "kinds": [_kind_data(kind.id, names[kind.id], judged) for kind in grid.kinds],
        "rows": rows,
        "unmeasured": judged.unmeasured,
        "uncompared": judged.uncompared,
        "regressions": [change.sentence for change in judged.regressions],
    }


def _kind_data(kind: str, name: KindName, judged: JudgedGrid) -> dict[str, Any]:
    about = {"id": kind, "machine": name.machine, "software": name.software, "apart": list(name.apart)}
    return {**about, "agents": list(judged.grid.agents.get(kind, ())), "models": judged.grid.models[kind]}


def _cell_data(cell: GridCell, change: CellChange | None) -> dict[str, Any]:
    figure: Observation | None = cell.figure
    data: dict[str, Any] = {
        "run": None if cell.run is None else cell.run.id,
        "runs": cell.runs,
        "metric": None if figure is None else figure.metric,
        "value": cell.value,
        "low": cell.low,
        "high": cell.high,
        "unit": "" if figure is None else figure.unit,
        "reason": cell.reason or ("not measured" if cell.run is None else ""),
        "failed_since": cell.failed_since,
    }
    if change is not None:
        told = {"outcome": str(change.outcome), "change": change.change, "against": change.other.id}
        data["compared"] = {**told, "same_hardware": change.same_hardware, "sentence": change.sentence}
    return data
