"""The datasets that something was measured on: what a reader chooses among once, for every page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from zoolens.base.errors import StoreError
from zoolens.base.store.browsing import RunsWanted, datetime_of, matching
from zoolens.base.store.run_columns import STATES, RunColumns, RunState
from zoolens.faces.ui.context import Context, TaskFacts
from zoolens.findings.comparisons.signatures import task_of
from zoolens.findings.measure.run_data import main_metric

_NONE: Final = ("",)  # no dataset has this name
_LOOKED_AT: Final = 8  # models of a dataset, the newest, whose tasks are asked for


@dataclass(frozen=True)
class KnownDataset:
    """`name` is the one by which lists of runs are filtered: no other dataset has it."""

    name: str
    fingerprint: str
    inputs: int
    runs: int
    models: int
    newest: datetime
    # What models do on it, each with the metric that judges them; the task of its newest run first
    metrics: dict[str, str]

    @property
    def tasks(self) -> list[str]:
        return list(self.metrics)


def known_datasets(context: Context) -> list[KnownDataset]:
    """All datasets with evaluations, the one that was used last first. It is kept until the store changes."""
    return context.runs.derived("datasets", lambda columns: _known(context, columns))


def named_dataset(context: Context, name: str) -> KnownDataset | None:
    """The dataset of this name."""
    return next((known for known in known_datasets(context) if known.name == name), None)


def wanted_names(context: Context, data: str, task: str) -> tuple[str, ...]:
    """The names of the datasets that a reader chose: one, those of a task, or none where he chose nothing."""
    if data:
        return (data,)
    if not task:
        return ()
    return tuple(known.name for known in known_datasets(context) if task in known.metrics) or _NONE


def _known(context: Context, columns: RunColumns) -> list[KnownDataset]:
    places = np.flatnonzero(matching(columns, RunsWanted()))
    ordered = places[np.argsort(columns.dataset[places], kind="stable")]
    ends = np.flatnonzero(np.diff(columns.dataset[ordered])) + 1
    found = []
    for group in np.split(ordered, ends) if len(ordered) else ():
        own = group[::-1]  # the newest first
        _, first = np.unique(columns.model[own], return_index=True)
        found.append((own, own[np.sort(first)[:_LOOKED_AT]].tolist()))
    facts = _facts(context, columns, [place for _, shown in found for place in shown])
    listed = []
    for own, shown in found:
        sample = [facts[place] for place in shown if place in facts]
        subject = columns.datasets[columns.dataset[own[0]]]
        # Files of several formats are one model, by its name.
        names = {columns.models[model].name for model in np.unique(columns.model[own]).tolist()}
        listed.append(
            KnownDataset(
                name=subject.name,
                fingerprint=subject.fingerprint,
                inputs=sample[0].inputs if sample else 0,
                runs=len(own),
                models=len(names),
                newest=datetime_of(columns.created[own[0]]),
                metrics=_metrics(sample),
            )
        )
    return sorted(listed, key=lambda known: (known.newest, known.name), reverse=True)


def _facts(context: Context, columns: RunColumns, places: Sequence[int]) -> dict[int, TaskFacts]:
    """What was done in these runs. Each is read once: the list is made again with every fact that is stored, and a
    store may have thousands of datasets."""
    kept = context.task_facts
    missing = [columns.ids[place] for place in places if columns.ids[place] not in kept]
    try:
        runs = context.store.runs_of(missing, stages=False) if missing else []
    except StoreError:
        # Pages that read these runs name the damage; the list of datasets stays usable without their tasks.
        runs = []
    read = {run.id: TaskFacts(task_of(run), main_metric(run), run.inputs) for run in runs}
    begun = STATES.index(RunState.BEGUN)
    # What a run that has finished nothing is about may still be told otherwise.
    kept.update({key: facts for key, facts in read.items() if columns.state[columns.places[key]] != begun})
    known = {place: kept.get(columns.ids[place]) or read.get(columns.ids[place]) for place in places}
    return {place: facts for place, facts in known.items() if facts is not None}


def _metrics(newest_first: Sequence[TaskFacts]) -> dict[str, str]:
    """The metric of each task, by its newest run."""
    metrics: dict[str, str] = {}
    for facts in newest_first:
        metrics.setdefault(facts.task, facts.metric)
    return metrics
