"""When the code of a metric has changed, a plug-in's or ours: a new attempt of the run with all but that metric.

Observations are never changed. What the model answered, and how long it took, is carried over to the new attempt, so
that only the metric is computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.store.records import Run, Stage
from zoolens.base.store.store import Store

CARRIED: Final = "carried_from"  # in run.resolved: the attempt that this one goes on from
_CODE: Final = "code"
# Our own metrics that say something else than at first. calibration: intervals that cover, since November 2026.
_REVISIONS: Final[Mapping[str, str]] = {"calibration": "2"}


def metric_settings(name: str) -> Mapping[str, Any] | None:
    """What a metric's stage records of the code that computed it; nothing for ours, unless they were revised."""
    code = plugins.code_of(plugins.METRICS, name) or _REVISIONS.get(name)
    return None if code is None else {_CODE: code}


def with_current_metrics(store: Store, first: Run) -> Run:
    """The run, or the last attempt that goes on from it, or a new one where a metric's code has changed since."""
    run = _last_carried(store, first)
    outdated = _outdated(store, run)
    if not outdated:
        return run
    key = run.key
    attempt = store.next_attempt(key.model, key.dataset, key.stack)
    new = store.begin_run(run.model, run.dataset, run.stack, kind=run.kind, attempt=attempt)
    _carry_over(store, run, new, outdated)
    # Last: an attempt that was not carried over completely is no one's successor.
    store.set_resolved(new.id, {**run.resolved, CARRIED: run.key.attempt})
    return store.run(new.id)


def _last_carried(store: Store, run: Run) -> Run:
    key = run.key
    for attempt in range(store.next_attempt(key.model, key.dataset, key.stack) - 1, key.attempt, -1):
        (later,) = store.runs_of([type(key)(key.model, key.dataset, key.stack, attempt).id]) or (run,)
        if CARRIED in later.resolved:
            return later
    return run


def _outdated(store: Store, run: Run) -> set[str]:
    """Stages of installed metrics that other code than today's has computed."""
    stages = store.stages(run.id)
    settings = {Stage.METRIC.of(name): metric_settings(name) for name in plugins.names(plugins.METRICS)}
    return {
        name
        for name, now in settings.items()
        if now is not None and name in stages and stages[name].done and stages[name].details.get(_CODE) != now[_CODE]
    }


def _carry_over(store: Store, old: Run, new: Run, without: set[str]) -> None:
    for kind in store.kinds(old.id):
        for part in store.parts(old.id, kind):
            store.add_part(new.id, kind, part.part, store.part_table(part))
    facts = store.observations_by_stage(old.id)
    for stage, state in store.stages(old.id).items():
        if state.done and stage not in without:
            store.finish_stage(new.id, stage, facts.get(stage, ()), details=dict(state.details))
