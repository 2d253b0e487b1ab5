"""How long a model takes here, by batch size: from the store, or measured once and stored as any latency is."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.records import Observation, Run, RunKind, is_disturbed
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.findings.measure.class_order import MATCHED
from zoolens.findings.measure.job_runner import carry_out_entries
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import LatencySamples, LatencySettings, samples_kind
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.catalog.sessions import RunOptions

_METRIC: Final = "latency_p50"
_QUICK: Final = 0.1  # of the calls of a timing that was disturbed; see `stored_timings`


def profiled_sizes(largest: int) -> tuple[int, ...]:
    """The batch sizes that are measured: 1, the largest, and a quarter of it; what lies between is interpolated."""
    return tuple(sorted({1, max(1, largest // 4), largest}))


def ensure_profile(
    store: Store, job: Job, run: Run, sizes: Iterable[int], progress: Progress, *, settings: LatencySettings | None
) -> LatencyProfile:
    """Measured seconds of a model on this machine. Sizes that the store does not know are measured now and stored; a
    model that does not take a size has none for it. Without `settings` nothing is measured."""
    wanted = tuple(sizes)
    known = stored_timings(store, job)
    missing = [size for size in wanted if size not in known]
    if missing and settings is not None:
        measure_timings(store, job, run, missing, progress, settings)
        known = stored_timings(store, job)
    timings = {size: known[size] for size in wanted if size in known and known[size].seconds is not None}
    if not timings and settings is None:
        how = " ".join(f"--batch {size}" for size in wanted)
        raise ZoolensError(
            f"it was not timed on this machine: zoolens eval {job.entry.ref} --runtime {job.runtime.name} {how}."
        )
    if not timings:
        raise ZoolensError(
            f"How long {job.entry.ref} takes in {job.runtime.name} could not be measured.",
            hint=f"See why: zoolens eval {job.entry.ref} --runtime {job.runtime.name} --no-accuracy.",
        )
    return profile_of(timings)


@dataclass(frozen=True)
class StoredTiming:
    """The median latency of a model at one batch size, as the store has it."""

    seconds: float | None  # None where the model does not take the size
    low: float | None = None  # confidence interval, where it is known
    high: float | None = None
    disturbed: bool = False  # others kept the machine busy
    measured: datetime | None = None


def profile_of(timings: Mapping[int, StoredTiming]) -> LatencyProfile:
    """The profile of these timings, by batch size; one without seconds is left out."""
    return LatencyProfile(
        {size: timing.seconds for size, timing in timings.items() if timing.seconds is not None},
        {size: timing.low for size, timing in timings.items() if timing.low is not None},
        {size: timing.high for size, timing in timings.items() if timing.high is not None},
        min((timing.measured for timing in timings.values() if timing.measured is not None), default=None),
    )


@dataclass(frozen=True)
class TimedCall:
    """What is timed: the metric of its median, along what it is told, and the kind of its samples by their number."""

    metric: str
    dimension: Dimension
    samples: Callable[[int], str]


BATCHES: Final = TimedCall(_METRIC, Dimension.BATCH, samples_kind)


def stored_timings(store: Store, job: Job, call: TimedCall = BATCHES) -> dict[int, StoredTiming]:
    """The newest clean median of each number of inputs or tokens, measured with this very model and stack. Only where
    there is none, timings that were disturbed count: the quick calls of the quickest of them, because what disturbs a
    call makes it longer, never shorter, and a model that is thought to be slower than it is would never be tried. So a
    further disturbed timing changes nothing, unless it was less disturbed."""
    runs = [run for run in store.runs(model=job.entry.full_ref, trials=True) if is_same(run, job)]
    by_run = store.dated_observations([run.id for run in runs], call.metric) if runs else {}
    timings: dict[int, StoredTiming] = {}
    disturbed: dict[int, list[StoredTiming]] = {}
    for run in runs:  # newest first
        for observation, measured in by_run.get(run.id, ()):
            scope = parse_scope(observation.scope)
            if scope.dimension is not call.dimension or scope.raw or scope.number is None:
                continue
            if is_disturbed(observation):
                timing = _disturbed_timing(store, run, call.samples(scope.number), observation)
                disturbed.setdefault(scope.number, []).append(replace(timing, measured=measured))
            else:
                timing = StoredTiming(observation.value, observation.low, observation.high, measured=measured)
                timings.setdefault(scope.number, timing)
    for size, attempts in disturbed.items():
        timings.setdefault(size, min(attempts, key=lambda timing: timing.seconds or math.inf))
    return timings


def _disturbed_timing(store: Store, run: Run, samples: str, observation: Observation) -> StoredTiming:
    """The true median lies between that of the quick calls and the one that was measured."""
    quick = _quick_calls(store, run, samples) or observation.value
    return StoredTiming(quick, low=quick, high=observation.high or observation.value, disturbed=True)


def _quick_calls(store: Store, run: Run, kind: str) -> float | None:
    """Seconds within which a tenth of the calls was done; None where the samples are not there any more."""
    try:
        samples = LatencySamples.from_table(store.table(run.id, kind))
    except ZoolensError:
        return None
    return float(np.quantile(samples.elapsed_ns, _QUICK)) / 1e9 if len(samples) else None


def is_same(run: Run, job: Job) -> bool:
    """Whether a run was made with this model's files, runtime and machine, so that its times hold here."""
    if run.key.model != job.model.fingerprint:
        return False
    return _plain(run.stack.identity) == _plain(job.stack.identity)


def _plain(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in identity.items() if key != MATCHED}


def measure_timings(
    store: Store,
    job: Job,
    run: Run,
    sizes: Collection[int],
    progress: Progress,
    settings: LatencySettings,
    *,
    contexts: Collection[int] = (),
) -> None:
    """Time the model as `zoolens eval` does: on the data that it was measured on, where they are here. `contexts`:
    tokens at which a language model is timed that writes."""
    same = is_same(run, job) and run.origin.get("data") is not None
    plan = EvaluationPlan(
        models=(),
        data=run.origin.get("data") if same else None,
        limit=run.origin.get("limit") if same else None,
        seed=run.origin.get("seed") if same else None,
        wanted=RunOptions(
            runtimes=(job.runtime.name,),
            environments=(", ".join(job.environment.spec.requirements) if job.environment else "",),
            options=job.options,
        ),
        batches=tuple(sizes),
        contexts=tuple(contexts),
        accuracy=same,
        cold=False,
        latency=settings,
        kind=run.kind if same else RunKind.EVALUATION,
    )
    try:
        list(carry_out_entries([job.entry], plan, store, progress, asked=False))
    except ZoolensError:
        if not same:
            raise
        alone = EvaluationPlan(
            models=(), data=None, wanted=plan.wanted, batches=plan.batches, contexts=plan.contexts, accuracy=False,
            cold=False, latency=settings,
        )  # fmt: skip
        list(carry_out_entries([job.entry], alone, store, progress, asked=False))


def with_contention(profile: LatencyProfile, instances: int, threads: int, cores: int) -> LatencyProfile:
    """The profile of a model of which several instances run at a time, each with so many threads. Where these are more
    than the cores, they take turns; that they also share memory and caches shows only while serving."""
    slower = max(1.0, instances * min(threads, cores) / cores)
    return profile.changed(lambda size, seconds: seconds * slower)
