"""`--mode fastest`: every mode that computes in the default precision is timed, and the quickest one is evaluated.

The times are kept as trials, so that the same command again finds them, and so chooses the same mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import Run, RunKind
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.plan import EvaluationPlan, Outcome
from zoolens.inventory.runtimes.devices import device_kind

FASTEST: Final = "fastest"

RunJob = Callable[[Job, EvaluationPlan], Outcome]


@dataclass(frozen=True)
class _Timed:
    """A mode that ran: its median latencies in seconds, in the order of the plan's batch sizes."""

    job: Job
    latencies: tuple[float, ...]
    measured: tuple[str, ...]  # stages that were not there before

    @property
    def mean(self) -> float:
        """The geometric mean: a batch size counts as much as any other, however long it takes."""
        return math.exp(sum(map(math.log, self.latencies)) / len(self.latencies))


def check_fastest(plan: EvaluationPlan) -> None:
    """ZoolensError where there is nothing to choose a mode by."""
    if plan.wanted.options.mode == FASTEST and not plan.batches:
        raise ZoolensError("The mode fastest is chosen by latency: give a batch size.", hint="Add --batch.")


def run_in_fastest_mode(job: Job, plan: EvaluationPlan, store: Store, run: RunJob) -> Outcome:
    """Time the model in each mode, and carry the plan out in the quickest. Modes that fail are told of."""
    modes = _modes_alike(job)
    if len(modes) < 2:
        return run(_in_mode(job, "default"), plan)
    timing = replace(plan, accuracy=False, cold=False, kind=RunKind.TRIAL)
    timed: list[_Timed] = []
    failed: list[str] = []
    for mode in modes:
        candidate = _in_mode(job, mode)
        outcome = run(candidate, timing)
        latencies = _latencies(store, outcome.run, plan.batches)
        if latencies is None:
            reason = outcome.errors[0] if outcome.errors else "it has no latency"
            failed.append(f"Mode {mode} was not compared: {reason}")
        else:
            timed.append(_Timed(candidate, latencies, outcome.measured))
    if not timed:
        return Outcome(job.title, errors=tuple(failed))
    timed.sort(key=lambda each: each.mean)
    fastest = timed[0]
    outcome = run(fastest.job, plan)
    return replace(
        outcome,
        measured=(*fastest.measured, *outcome.measured),
        kept=tuple(stage for stage in outcome.kept if stage not in fastest.measured),
        notes=(*outcome.notes, _compared(timed, plan.batches), *failed),
    )


def _modes_alike(job: Job) -> list[str]:
    """The modes on the job's device that compute in the default precision."""
    runtime, on_cpu = job.runtime, device_kind(job.options.device) == "cpu"
    modes = runtime.modes if on_cpu else runtime.modes + runtime.accelerated_modes
    return [mode for mode in modes if mode not in runtime.coarser_modes]


def _in_mode(job: Job, mode: str) -> Job:
    return replace(job, options=replace(job.options, mode=mode))


def _latencies(store: Store, run: Run | None, batches: Sequence[int]) -> tuple[float, ...] | None:
    """None: the run has no latency for some of the batch sizes."""
    if run is None:
        return None
    found = {fact.scope: fact.value for fact in store.observations(run.id) if fact.metric == "latency_p50"}
    latencies = [found.get(batch_scope(batch)) for batch in batches]
    known = tuple(value for value in latencies if value)
    return known if len(known) == len(latencies) else None


def _compared(timed: Sequence[_Timed], batches: Sequence[int]) -> str:
    sizes = ", ".join(map(str, batches))
    each = "; ".join(
        f"{one.job.options.mode} {', '.join(f'{seconds * 1e3:.3g}' for seconds in one.latencies)}" for one in timed
    )
    return f"Mode {timed[0].job.options.mode} was the fastest. Median latency in ms at batch {sizes}: {each}"
