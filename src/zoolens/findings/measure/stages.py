"""The stages of a run. Each is done once, committed as a whole, and skipped by a re-run.

predictions (`prediction_stage`) → metric:NAME (for every registered metric) → size → latency:batch=N → cold
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Final

from zoolens.base import plugins
from zoolens.base.engine.machine import this_machine
from zoolens.base.engine.other_work import cpu_time, share_of_others
from zoolens.base.errors import MissingDependency, ModelError, ZoolensError
from zoolens.base.progress import Progress, Silent
from zoolens.base.statistics.anytime import share_interval
from zoolens.base.statistics.intervals import CONFIDENCE
from zoolens.base.store.records import MACHINE, OTHERS, ROUND_TRIPS, WITH_NETWORK, Observation, Run, unavailable
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.store import Store
from zoolens.findings.measure.answers import run_predictions
from zoolens.findings.measure.class_order import stored_translation
from zoolens.findings.measure.device_time import device_observations
from zoolens.findings.measure.energy import GPU_SECONDS, SECONDS, energy_observations
from zoolens.findings.measure.jobs import Job
from zoolens.findings.measure.latency import (
    LatencySamples,
    LatencySettings,
    latency_observations,
    measure_latency,
    samples_kind,
)
from zoolens.findings.measure.predictions import Predictions, renumbered
from zoolens.findings.measure.subject import Subject
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.manifests.digests import size_on_disk
from zoolens.inventory.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.outputs.noise_probe import MADE_UP

TIMED_WITH: Final = "timed_with"  # in run.resolved: what latency was measured with, where no data fit


@dataclass
class Context:
    """What every stage of one run works with. The model is opened on first need: a finished run opens nothing."""

    job: Job
    run: Run
    dataset: Dataset
    store: Store
    subject: Callable[[], Subject]
    progress: Progress = field(default_factory=Silent)
    latency: LatencySettings = field(default_factory=LatencySettings)
    cold_repeats: int = 3
    decode_threads: int = 2
    facts: dict[str, Any] = field(default_factory=dict)  # what only the answers told, once it is in the run's record


# --- metrics


def compute_metric(context: Context, name: str, predictions: Predictions) -> list[Observation]:
    metric: Callable[[Predictions], Iterable[Observation]] = plugins.load(plugins.METRICS, name)
    try:
        return list(metric(predictions))
    except ZoolensError:
        raise
    except Exception as error:
        raise ZoolensError(f"The metric {name} failed: {type(error).__name__}: {error}.") from error


def stored_predictions(store: Store, run: Run, dataset: Dataset | None = None) -> Predictions:
    """What a run answered, with classes in the dataset's order."""
    return renumbered(run_predictions(store, run, dataset.classes if dataset else None), stored_translation(run))


def measure_score(context: Context) -> list[Observation]:
    """How right the answers are on average, of a task that says so input by input."""
    run = context.store.run(context.run.id)  # with what the answers told
    predictions = run_predictions(context.store, run)
    scores = predictions.scores
    if scores is None:
        return []
    known = scores[predictions.known]
    (low, high), method = share_interval(known)
    details = {"interval": method, "confidence": CONFIDENCE, "task": predictions.main.task}
    return [
        Observation("score", float(known.mean()), unit="fraction", low=low, high=high, n=len(known), details=details)
    ]


# --- size


def measure_size(context: Context) -> Iterator[Observation]:
    if (reason := _not_here(context)) is not None:
        yield unavailable("file_size", reason, unit="B")
        yield _parameters(context)
        return
    size = 0
    for role, path in context.job.paths.items():
        if role == TOKENIZER:
            # It says what a model is fed with, and is the same in all formats of it.
            continue
        size += size_on_disk(path)
    yield Observation("file_size", float(size), unit="B", details={"format": context.job.asset.format})
    yield _parameters(context)


def _not_here(context: Context) -> str | None:
    """Why figures of the model's own process cannot be had, where it runs on another machine."""
    return context.job.runtime.cannot.get("run_here")


def _parameters(context: Context) -> Observation:
    runtime = context.job.runtime
    if not runtime.can("count_parameters"):
        return unavailable("parameters", runtime.cannot["count_parameters"])
    session = context.subject().session
    try:
        return Observation("parameters", float(session.count_parameters()))
    except (ModelError, MissingDependency) as error:
        return unavailable("parameters", str(error))


# --- latency


def measure_batch_latency(context: Context, batch: int) -> list[Observation]:
    store, run, kind, scope = context.store, context.run, samples_kind(batch), batch_scope(batch)
    # Sampled before, and stopped before the figures were stored.
    if store.parts(run.id, kind):
        samples = LatencySamples.from_table(store.table(run.id, kind))
        lost = _not_here(context) or "it was stopped after the latency and before the energy"
        timings = latency_observations(samples, batch)
        return [*(_with_network(timings) if _not_here(context) else timings), unavailable("energy", lost, scope, "J")]
    subject = context.subject()
    context.progress.begin(context.job.title, f"latency, batch {batch}", None)
    session = subject.session
    try:  # does this batch size work at all?
        feeds = subject.feeds(context.dataset, batch)
        session.predict(feeds) if subject.has_several_inputs else subject.predict(feeds[subject.input.name])
    except ModelError as error:
        context.progress.end()
        return [unavailable("latency_p50", str(error), scope=batch_scope(batch), unit="s")]
    if subject.needs_made_up(context.dataset):
        store.set_resolved(run.id, {TIMED_WITH: MADE_UP})
    before = cpu_time()
    samples = measure_latency(
        lambda: session.predict(feeds),
        context.latency,
        repeat=partial(session.repeat, feeds) if isinstance(session, IsolatedSession) else None,
    )
    # Another process was first: its samples count.
    if not store.add_part(run.id, kind, 0, samples.table(batch)):
        samples = LatencySamples.from_table(store.table(run.id, kind))
        timings = latency_observations(samples, batch)
    else:
        timings = with_machine(latency_observations(samples, batch), share_of_others(before, cpu_time()))
    if (reason := _not_here(context)) is not None:
        context.progress.end()
        return [*_with_network(timings), unavailable("energy", reason, scope, "J")]
    device = context.job.options.device
    seconds = SECONDS if device == "cpu" else GPU_SECONDS
    energy = energy_observations(lambda: session.predict(feeds), batch, seconds=seconds, device=device)
    on_device = [] if device == "cpu" else device_observations(session, feeds, batch)
    context.progress.end()
    return [*timings, *on_device, *energy]


def with_machine(timings: Iterable[Observation], others: float | None) -> Iterator[Observation]:
    """Timings that say which machine measured them, since several of one kind measure the same run's attempts, and how
    busy others kept it."""
    told = {} if others is None else {OTHERS: round(others, 3)}
    for timing in timings:
        yield replace(timing, details={**timing.details, MACHINE: this_machine(), **told})


def _with_network(timings: Iterable[Observation]) -> Iterator[Observation]:
    """Timings of a model behind a server, under names of their own: a query for latencies must not rank round trips
    over a network beside calls on this machine."""
    for timing in timings:
        name = ROUND_TRIPS.get(timing.metric)
        if name is not None:
            details = {**timing.details, WITH_NETWORK: "the network and the server's queue"}
            yield replace(timing, metric=name, details=details)


# --- cold start and memory


def measure_cold_start(context: Context) -> list[Observation]:
    """A fresh process, opened and run once, several times over. Files come from the page cache; that is said."""
    if (reason := _not_here(context)) is not None:
        return [unavailable("cold_start", reason, "total", "s"), unavailable("peak_memory", reason, "process", "B")]
    context.progress.begin(context.job.title, "cold start", context.cold_repeats)
    feeds = context.subject().feeds(context.dataset, context.subject().fixed_batch or 1)
    phases: dict[str, list[float]] = {}
    peaks: list[float] = []
    for _ in range(context.cold_repeats):
        with context.job.open_isolated() as session:
            session.predict(feeds)
            once = {**session.phases, "first_run": session.last_predict_seconds or 0.0}
            peaks.append(float(session.peak_memory_bytes))
        once["total"] = math.fsum(once.values())
        for name, seconds in once.items():
            phases.setdefault(name, []).append(seconds)
        context.progress.advance(1)
    context.progress.end()
    details = {"repeats": context.cold_repeats, "interval": "range", "files": "in the page cache"}
    observations = [_ranged("cold_start", values, scope, "s", details) for scope, values in phases.items()]
    observations.append(
        _ranged("peak_memory", peaks, "process", "B", {**details, "what": "resident set, fresh process"})
    )
    return observations


def _ranged(metric: str, values: list[float], scope: str, unit: str, details: dict[str, Any]) -> Observation:
    return Observation(
        metric,
        median(values),
        scope=scope,
        unit=unit,
        low=min(values),
        high=max(values),
        n=len(values),
        details=details,
    )
