"""The stages of a run. Each is done once, committed as a whole, and skipped by a re-run.

predictions → metric:NAME (for every registered metric) → size → latency:batch=N → cold
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from zoolens import plugins
from zoolens.datasets.base import Dataset
from zoolens.datasets.loader import Batch as Inputs
from zoolens.datasets.loader import batches
from zoolens.errors import MissingDependency, ModelError, ZoolensError
from zoolens.manifests.schema import Output
from zoolens.manifests.tokenizer import ROLE as TOKENIZER
from zoolens.measure.answers import run_predictions
from zoolens.measure.classorder import AS_NAMED, stored_translation
from zoolens.measure.device_time import device_observations
from zoolens.measure.energy import GPU_SECONDS, SECONDS, energy_observations
from zoolens.measure.jobs import Job
from zoolens.measure.latency import LatencySamples, LatencySettings, latency_observations, measure_latency, samples_kind
from zoolens.measure.predictions import KIND, Batch, PredictionBuffer, Predictions, renumbered
from zoolens.measure.subject import Subject
from zoolens.preprocess.text import TextFacts
from zoolens.progress import Progress, Silent
from zoolens.runtimes.isolated_session import IsolatedSession
from zoolens.runtimes.noise import MADE_UP, sums_to_one
from zoolens.statistics.intervals import CONFIDENCE, bootstrap_mean
from zoolens.statistics.significance import no_better_than_guessing
from zoolens.store.records import ROUND_TRIPS, WITH_NETWORK, Observation, Run, unavailable
from zoolens.store.scopes import batch_scope
from zoolens.store.store import Store

SECONDS_BETWEEN_PARTS = float(os.environ.get("ZOOLENS_PART_SECONDS", "2"))  # the most work a kill -9 can cost
ACCURACY_BATCH = 32
TIMED_WITH: Final = "timed_with"  # in run.resolved: what latency was measured with, where no data fit
TEXTS: Final = "texts"  # in run.resolved: how many texts were cut, and how many tokens were unknown
SUMS_TO_ONE: Final = "sums_to_one"  # in run.resolved: every row of the main output passed for probabilities
JUDGED_TOGETHER = 512  # inputs
BATCHES_HANDED_OVER = 16  # to a worker at once, at the most; fewer of those that have
BYTES_HANDED_OVER = 1 << 20  # or take
SECONDS_HANDED_OVER = 0.05


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


# --- predictions


def predict_all(context: Context) -> list[Observation]:
    """Run the model over the data, writing a part every few seconds, starting where the last run was stopped.

    Part number i always starts where the parts before it end. Should another process be at work on the same run and
    have written a part first, ours is dropped and we go on behind its parts: nothing is doubled, nothing left out.
    """
    size = len(context.dataset)
    context.progress.begin(context.job.title, "predictions", size)
    while True:
        parts = context.store.parts(context.run.id, KIND)
        done = sum(part.rows for part in parts)
        context.progress.advance(done)
        if done >= size or _predict_from(context, done, len(parts)):
            break
        context.progress.begin(context.job.title, "predictions", size)
    context.progress.end()
    if context.facts.get(SUMS_TO_ONE):
        context.store.set_resolved(context.run.id, {SUMS_TO_ONE: True})
    if context.job.manifest.takes_text:
        context.store.set_resolved(context.run.id, {TEXTS: asdict(_text_facts(context))})
    return []  # the answers are facts in bulk; figures come from the metrics


def _text_facts(context: Context) -> TextFacts:
    """Of all texts, also of those that a run which was stopped had answered before."""
    text, dataset = context.subject().text, context.dataset
    assert text is not None  # a model that takes text has been asked
    starts = range(0, len(dataset), JUDGED_TOGETHER)
    together = (range(start, min(start + JUDGED_TOGETHER, len(dataset))) for start in starts)
    return text.facts(np.stack([dataset.read(index).value for index in indices]) for indices in together)


def _predict_from(context: Context, start: int, part: int) -> bool:
    """Predict all inputs from `start` on. False: another process wrote the same part before us."""
    subject, store = context.subject(), context.store
    subject.check_answers()
    size = subject.fixed_batch or min(ACCURACY_BATCH, subject.session.largest_batch or ACCURACY_BATCH)
    waiting: list[_Answered] = []
    buffer, written = PredictionBuffer(start, [output.task for output in subject.outputs]), time.monotonic()
    inputs = batches(
        context.dataset,
        subject.prepare,
        size,
        start=start,
        workers=context.decode_threads if subject.text is None else 1,  # tokens are made elsewhere, many texts at once
        prepare_many=subject.prepare_many,
    )
    for batch, answers in answered_batches(subject, inputs):
        waiting.append((batch, answers))
        context.progress.advance(len(batch.labels))
        due = time.monotonic() - written > SECONDS_BETWEEN_PARTS
        if due or len(waiting) * size >= JUDGED_TOGETHER:
            _judge(context, buffer, waiting)
        if due:
            if not store.add_part(context.run.id, KIND, part, buffer.take()):
                return False
            part, written = part + 1, time.monotonic()
    _judge(context, buffer, waiting)
    return not buffer.rows or store.add_part(context.run.id, KIND, part, buffer.take())


_Answered = tuple[Inputs, tuple[Any, ...]]


def _judge(context: Context, buffer: PredictionBuffer, waiting: list[_Answered]) -> None:
    """Raw answers become rows of the table, several batches at once: small models answer faster than numpy starts."""
    if not waiting:
        return
    outputs = context.subject().outputs
    raw = [np.concatenate([answers[place] for _, answers in waiting]) for place in range(len(outputs))]
    answers = [Batch(output.read(values), values) for output, values in zip(outputs, raw, strict=True)]
    ids = [input_id for batch, _ in waiting for input_id in batch.ids]
    labels = np.concatenate([batch.labels for batch, _ in waiting])
    waiting.clear()
    buffer.add(ids, labels, answers)
    seen = context.facts.get(SUMS_TO_ONE, context.run.resolved.get(SUMS_TO_ONE, True))
    told = context.subject().session.postprocessed  # then rows that add up to one are no news
    context.facts[SUMS_TO_ONE] = seen and not told and sums_to_one(raw[0], outputs[0].tensor)
    if "outputs" not in context.facts:
        context.facts["outputs"] = [
            {"name": output.tensor.name, "task": output.task, "width": answer.values.shape[1]}
            for output, answer in zip(outputs, answers, strict=True)
        ]
        context.store.set_resolved(context.run.id, {"outputs": context.facts["outputs"], AS_NAMED: True})


def answered_batches(subject: Subject, inputs: Iterable[Inputs]) -> Iterator[_Answered]:
    """Batches and their answers. While a worker runs some batches, the next are prepared and the last ones are judged.

    Small batches are handed over several at a time, since waking a worker takes as long as a small model does.
    """
    ahead: tuple[list[Inputs], Callable[[], list[tuple[Any, ...]]]] | None = None
    for group in _handed_over(subject, inputs):
        before = (ahead[0], ahead[1]()) if ahead else None
        ahead = group, subject.begin_predict([_padded(batch.array, subject.fixed_batch) for batch in group])
        if before:
            yield from _cut(*before)
    if ahead:
        yield from _cut(ahead[0], ahead[1]())


def _handed_over(subject: Subject, inputs: Iterable[Inputs]) -> Iterator[list[Inputs]]:
    """One batch at a time in our own process; for a worker more of them as long as they are small and done at once."""
    if not subject.session.elsewhere:
        yield from ([batch] for batch in inputs)
        return
    group: list[Inputs] = []
    most = 1
    for batch in inputs:
        group.append(batch)
        if len(group) >= most or sum(waiting.array.nbytes for waiting in group) >= BYTES_HANDED_OVER:
            yield group
            quick = (subject.session.last_predict_seconds or math.inf) < SECONDS_HANDED_OVER
            most = min(2 * most, BATCHES_HANDED_OVER) if quick else max(1, most // 2)
            group = []
    if group:
        yield group


def _padded(array: Any, fixed: int | None) -> Any:
    """The last batch of a model with a fixed batch size is filled up with its last input."""
    missing = (fixed or len(array)) - len(array)
    return array if missing <= 0 else np.concatenate([array, np.repeat(array[-1:], missing, axis=0)])


def _cut(group: Sequence[Inputs], answers: Sequence[tuple[Any, ...]]) -> Iterator[_Answered]:
    """Each batch with its answers; answers to inputs that only fill up a batch are cut off."""
    for batch, answered in zip(group, answers, strict=True):
        yield batch, tuple(answer[: len(batch.array)] for answer in answered)


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
    """What a run answered, with classes in the data's order."""
    return renumbered(run_predictions(store, run, dataset.classes if dataset else None), stored_translation(run))


def measure_score(context: Context) -> list[Observation]:
    """How right the answers are on average, of a task that says so input by input."""
    run = context.store.run(context.run.id)  # with what the answers told
    predictions = run_predictions(context.store, run)
    scores = predictions.scores
    if scores is None:
        return []
    known = scores[predictions.labels >= 0]
    low, high = bootstrap_mean(known)
    details = {"interval": "bootstrap", "confidence": CONFIDENCE, "task": predictions.main.task}
    return [
        Observation("score", float(known.mean()), unit="fraction", low=low, high=high, n=len(known), details=details)
    ]


def suspicions(predictions: Predictions) -> Iterator[str]:
    """What is measured correctly and still cannot be right."""
    if len(predictions) >= 20 and len(np.unique(predictions.labels)) > 1:
        answers = np.unique(predictions.answers)
        if len(answers) == 1:
            name = predictions.class_name(int(answers[0]))
            yield (
                f"it answers class {int(answers[0])} ({name}) for every one of {len(predictions)} inputs; "
                "check weights, preprocessing and output name"
            )
        elif predictions.digest is not None and len(np.unique(predictions.digest)) == 1:
            yield "its outputs are the same for every input"
        elif no_better_than_guessing(predictions.correct, predictions.labels):
            right = int(np.count_nonzero(predictions.correct))
            yield (
                f"it is right on {right:,} of {len(predictions):,} inputs, which is no better than guessing; suspect "
                "the order of the labels and the preprocessing: `zoolens doctor` tries both"
            )


def remarks(predictions: Predictions) -> Iterator[str]:
    """What is worth knowing and no reason to doubt."""
    if ties := predictions.ties:
        yield (
            f"{ties:,} of {len(predictions):,} answers are exact ties between the two best classes; the class with the "
            "lower number counts"
        )


def doubled_softmax(output: Output, run: Run) -> Iterator[str]:
    """Declared logits whose rows all add up to one: softmax is applied a second time."""
    if output.scores == "logits" and run.resolved.get(SUMS_TO_ONE):
        yield (
            "it declares logits, but every row of its answers adds up to 1: they are probabilities already, and "
            "softmax is applied twice (top-1 is right, calibration is not); declare scores: probabilities"
        )


# --- size


def measure_size(context: Context) -> Iterator[Observation]:
    if (reason := _not_here(context)) is not None:
        yield unavailable("file_size", reason, unit="B")
        yield _parameters(context)
        return
    size = 0
    for role, path in context.job.paths.items():
        if role == TOKENIZER:
            continue  # it says what a model is fed with, and is the same in all formats of it
        size += (
            sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            if path.is_dir()
            else path.stat().st_size
        )
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
    if store.parts(run.id, kind):  # sampled before, and stopped before the figures were stored
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
    samples = measure_latency(
        lambda: session.predict(feeds),
        context.latency,
        repeat=partial(session.repeat, feeds) if isinstance(session, IsolatedSession) else None,
    )
    if not store.add_part(run.id, kind, 0, samples.table(batch)):  # another process was first: its samples count
        samples = LatencySamples.from_table(store.table(run.id, kind))
    if (reason := _not_here(context)) is not None:
        context.progress.end()
        return [*_with_network(latency_observations(samples, batch)), unavailable("energy", reason, scope, "J")]
    device = context.job.options.device
    seconds = SECONDS if device == "cpu" else GPU_SECONDS
    energy = energy_observations(lambda: session.predict(feeds), batch, seconds=seconds, device=device)
    on_device = [] if device == "cpu" else device_observations(session, feeds, batch)
    context.progress.end()
    return [*latency_observations(samples, batch), *on_device, *energy]


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
