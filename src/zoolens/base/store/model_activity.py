"""What was run of each model, and when: of all runs together, from the columns in memory (`run_columns`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from zoolens.base.store.browsing import RunsWanted, datetime_of, matching
from zoolens.base.store.records import RunKind
from zoolens.base.store.run_columns import STATES, RunColumns, RunIndex, RunState


@dataclass(frozen=True)
class ModelActivity:
    """The runs of the contents that go, or went, by one name. `recent`: how many runs were begun in each of several
    equal spans of time, the oldest first."""

    runs: int
    failed: int
    last_run: str
    last_time: datetime
    last_dataset: str
    last_runtime: str
    datasets: frozenset[str]
    runtimes: frozenset[str]
    formats: frozenset[str]
    recent: tuple[int, ...]


@dataclass(frozen=True)
class Activity:
    """What was run of every model that has a run, by its name (zoo:name@version); the spans of `ModelActivity.recent`
    go from the first run of all until the last. A model with several names is there under each."""

    models: Mapping[str, ModelActivity]
    since: datetime | None = None
    until: datetime | None = None


def model_activity(
    index: RunIndex,
    kinds: Sequence[RunKind] = (RunKind.EVALUATION,),
    spans: int = 16,
    datasets: Sequence[str] = (),
) -> Activity:
    """What was run of every model, on these datasets where some are named. It is kept until the store changes."""
    wanted = RunsWanted(kinds=tuple(kinds), datasets=tuple(datasets))
    return index.derived(("activity", wanted, spans), lambda columns: _activity(columns, wanted, spans))


def _activity(columns: RunColumns, wanted: RunsWanted, spans: int) -> Activity:
    chosen = np.flatnonzero(matching(columns, wanted))
    if not len(chosen):
        return Activity({})
    order = chosen[np.lexsort((chosen, columns.model[chosen]))]
    codes, starts = np.unique(columns.model[order], return_index=True)
    times = columns.created[order]
    since, until = times.min(), times.max()
    share = (times - since) / max(until - since, np.timedelta64(1, "us"))
    span = np.minimum((share * spans).astype(np.int64), spans - 1)
    counted = np.zeros((len(columns.models), spans), np.int64)
    np.add.at(counted, (columns.model[order], span), 1)
    failed = columns.state[order] == STATES.index(RunState.FAILED)
    of_name: dict[str, dict[int, ModelActivity]] = {}  # by the place of the last run
    ends = [*starts.tolist(), len(order)][1:]
    for code, start, end in zip(codes.tolist(), starts.tolist(), ends, strict=True):
        model = columns.models[code]
        places = order[start:end]
        last = int(places[-1])
        datasets = set(columns.dataset[places].tolist())
        stacks = set(columns.stack[places].tolist())
        activity = ModelActivity(
            runs=end - start,
            failed=int(np.count_nonzero(failed[start:end])),
            last_run=columns.ids[last],
            last_time=datetime_of(columns.created[last]),
            last_dataset=columns.datasets[columns.dataset[last]].name,
            last_runtime=columns.stacks[columns.stack[last]].name,
            datasets=frozenset(columns.datasets[data].name for data in datasets),
            runtimes=frozenset(columns.stacks[stack].name for stack in stacks),
            formats=frozenset((model.format,)),
            recent=tuple(counted[code].tolist()),
        )
        for name in model.names:
            of_name.setdefault(name, {})[last] = activity
    together = {name: _together([found[last] for last in sorted(found)]) for name, found in of_name.items()}
    return Activity(together, datetime_of(since), datetime_of(until))


def _together(activities: Sequence[ModelActivity]) -> ModelActivity:
    """The activity of several contents that go by one name, the one that was run last behind the others."""
    last = activities[-1]
    if len(activities) == 1:
        return last
    return replace(
        last,
        runs=sum(activity.runs for activity in activities),
        failed=sum(activity.failed for activity in activities),
        datasets=frozenset().union(*(activity.datasets for activity in activities)),
        runtimes=frozenset().union(*(activity.runtimes for activity in activities)),
        formats=frozenset().union(*(activity.formats for activity in activities)),
        recent=tuple(map(sum, zip(*(activity.recent for activity in activities), strict=True))),
    )
