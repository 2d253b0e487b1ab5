"""The times of one level, each from calls in which no deeper level was observed.

Every function gives a table of spans. Tables of a deeper level also hold calls in which it was not observed, some
before and some after the observed ones, so that what observing costs is known from the same minute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from zoolens.findings.measure.judged_output import Raw
from zoolens.findings.measure.latency import LatencySettings, measure_latency
from zoolens.findings.measure.subject import Subject
from zoolens.findings.tracing.spans import Level, Span, SpanColumns, add_profiles
from zoolens.findings.tracing.trace_context import TraceContext
from zoolens.inventory.datasets.dataset import Dataset
from zoolens.inventory.runtimes.isolation.isolated_session import IsolatedSession
from zoolens.inventory.runtimes.observing import Profile
from zoolens.inventory.runtimes.runtime import Session, Tensor
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls
from zoolens.inventory.runtimes.timing.interference import Waiting, clean_samples
from zoolens.inventory.runtimes.timing.latency_loop import Repeater, Repeating

if TYPE_CHECKING:
    import pyarrow as pa

Feeds = dict[str, Tensor]

UNOBSERVED: Final = "none"  # requests of which only the whole is timed
ENOUGH_CLEAN: Final = 10  # undisturbed repetitions: with fewer, as many again are made, within the time
ROUNDS: Final = 3
FEWEST: Final = 5  # repetitions, however long one takes
COUNTERS: Final = {  # of `ObservedCall`, and what each is called where it is shown
    "delay": "waiting for a core",
    "on_cores": "time on cores, all threads together",
    "minor_faults": "page faults, page in memory",
    "major_faults": "page faults, page read from a disk",
    "voluntary_switches": "context switches, waiting",
    "involuntary_switches": "context switches, core taken away",
    "migrations": "moves to another core",
    "cycles": "processor cycles in the program",
    "instructions": "instructions in the program",
    "cache_misses": "misses of the last cache",
}


@dataclass(frozen=True)
class TraceSettings:
    """How often each level is repeated, and for how many seconds at the most, but for a few that are always made."""

    repeats: int = 50
    seconds: float = 10.0


class Calls(Protocol):
    """A call of a model that is made again and again."""

    def once(self) -> object: ...

    def repeated(self, warmup_calls: int, warmup_seconds: float) -> Repeating:
        """The call, repeated and timed where it is made: of a model in a worker, in there."""
        ...

    def profiles(self, repeats: int, *, kernels: bool) -> list[Profile]: ...


@dataclass(frozen=True)
class Predictions:
    """A model predicts from the same inputs."""

    session: Session
    feeds: Feeds

    def once(self) -> object:
        return self.session.predict(self.feeds)

    def repeated(self, warmup_calls: int, warmup_seconds: float) -> Repeating:
        if isinstance(self.session, IsolatedSession):
            return self.session.repeat(self.feeds, warmup_calls, warmup_seconds)
        return Repeater(self.once, warmup_calls, warmup_seconds)

    def profiles(self, repeats: int, *, kernels: bool) -> list[Profile]:
        return self.session.profile(self.feeds, repeats, kernels=kernels)


def trace_model(calls: Calls, settings: TraceSettings, context: TraceContext) -> pa.Table:
    columns = SpanColumns(context, Level.MODEL)
    _add_unobserved(columns, calls, settings)
    return columns.table()


def trace_operators(calls: Calls, level: Level, settings: TraceSettings, context: TraceContext) -> pa.Table:
    """The framework's operators, and for the level "library" the primitives and kernels below them."""
    columns, plain = SpanColumns(context, level), SpanColumns(context, Level.MODEL)
    half = TraceSettings(max(settings.repeats // 2, FEWEST), settings.seconds / 4)
    usual = _add_unobserved(plain, calls, half)
    repeats = _affordable(settings, usual)
    profiles = _profiles(calls, repeats, settings.seconds, kernels=level is Level.LIBRARY)
    add_profiles(columns, profiles, judged_clean(profiles))
    _add_unobserved(plain, calls, half, warm=True)
    return _joined(plain, columns)


def _profiles(calls: Calls, repeats: int, seconds: float, *, kernels: bool) -> list[Profile]:
    """Profiled calls: as many as the time allows, and more where too few of them were undisturbed.

    A profiled call may take many times as long as another one. A few calls tell how long, before the rest is made.
    """
    began = time.perf_counter()
    profiles = calls.profiles(min(FEWEST, repeats), kernels=kernels)
    each = (time.perf_counter() - began) / max(len(profiles), 1)
    for _ in range(ROUNDS):
        wanted = min(repeats, int((seconds - (time.perf_counter() - began)) / max(each, 1e-9)))
        enough = sum(judged is not False for judged in judged_clean(profiles)) >= min(ENOUGH_CLEAN, repeats)
        if wanted < 1 or (enough and len(profiles) >= repeats):
            break
        more = wanted if len(profiles) >= repeats else min(wanted, repeats - len(profiles))
        profiles += calls.profiles(more, kernels=kernels)
    return profiles


def trace_system(session: Session, feeds: Feeds, settings: TraceSettings, context: TraceContext) -> pa.Table:
    """Calls with what the operating system did meanwhile, in one more column for each counter."""
    import pyarrow as pa

    columns, plain = SpanColumns(context, Level.SYSTEM), SpanColumns(context, Level.MODEL)
    half = TraceSettings(max(settings.repeats // 2, FEWEST), settings.seconds / 4)
    predictions = Predictions(session, feeds)
    usual = _add_unobserved(plain, predictions, half)
    calls = _observed_predictions(session, feeds, _affordable(settings, usual))
    clean = judged_clean(calls)
    for repeat, (call, undisturbed) in enumerate(zip(calls, clean, strict=True)):
        columns.add(_call(call.start, call.duration), repeat=repeat, clean=undisturbed)
    _add_unobserved(plain, predictions, half, warm=True)
    table = columns.table()
    for name in COUNTERS:
        table = table.append_column(name, pa.array([getattr(call, name) for call in calls], pa.int64()))
    return pa.concat_tables([plain.table(), table], promote_options="permissive")


def trace_pipeline(
    subject: Subject, dataset: Dataset, batch: int, settings: TraceSettings, context: TraceContext
) -> pa.Table:
    """Whole requests, step by step, each with the next inputs of the data, or with made-up inputs where there are none.

    The same inputs are sent twice, once with the steps timed and once as a whole only, which is what the steps are
    compared with. Which of the two comes first changes from one pair to the next, because the second one finds the
    inputs in a cache.
    """
    columns, plain = SpanColumns(context, Level.PIPELINE), SpanColumns(context, UNOBSERVED)
    request = _Request(subject, dataset, batch)
    for _ in range(3):
        usual = request(0, [])
    watched = [subject.session.process_id] if isinstance(subject.session, IsolatedSession) else []
    repeats, until = _affordable(settings, usual), time.perf_counter() + settings.seconds
    for repeat in range(2 * repeats):
        pair, second = divmod(repeat, 2)
        if not second and pair >= FEWEST and time.perf_counter() > until:
            break
        steps: list[Span] | None = [] if second != pair % 2 else None
        (call,) = observed_calls(partial(request, pair * batch, steps), 1, also=watched)
        (undisturbed,) = judged_clean([call])
        target = plain if steps is None else columns
        whole = Span("request", "request", Level.PIPELINE, call.start, call.duration)
        parent = target.add(whole, repeat=pair, clean=undisturbed)
        for step in steps or ():
            _add_step(columns, step, parent, pair, undisturbed)
    return _joined(plain, columns)


class _Request:
    """One request after another, of `batch` inputs each."""

    def __init__(self, subject: Subject, dataset: Dataset, batch: int) -> None:
        self._subject, self._dataset, self._batch = subject, dataset, batch
        self._feeds = subject.feeds(dataset, batch) if subject.needs_made_up(dataset) else None

    def __call__(self, first: int, steps: list[Span] | None) -> int:
        """Send the inputs from `first` on, add the steps to `steps` where that is a list, and return the nanoseconds
        that it all took."""
        subject, marks, epoch = self._subject, [time.perf_counter_ns()], time.time_ns()
        names: list[str] = []
        if self._feeds is None:
            places = [(first + place) % len(self._dataset) for place in range(self._batch)]
            samples = [self._dataset.read(place) for place in places]
            names.append("decode")
            marks.append(time.perf_counter_ns())
            inputs = np.ascontiguousarray(np.stack([subject.prepare(sample) for sample in samples]))
            names.append("preprocess")
            marks.append(time.perf_counter_ns())
            answers: Sequence[Raw] = subject.predict(inputs)
        else:
            samples, raw = [], subject.session.predict(self._feeds)
            answers = [output.raw(raw) for output in subject.outputs]
        names.append("predict")
        marks.append(time.perf_counter_ns())
        # What a task with roles reads lies in a sample, which made-up inputs do not have.
        if subject.outputs and (samples or not subject.has_parts):
            memos = subject.memos(samples)
            for output, answer in zip(subject.outputs, answers, strict=True):
                output.answers(answer, memos)
            names.append("postprocess")
            marks.append(time.perf_counter_ns())
        if steps is not None:
            steps += self._spans(names, marks, epoch)
        return marks[-1] - marks[0]

    def _spans(self, names: Sequence[str], marks: Sequence[int], epoch: int) -> list[Span]:
        return [
            Span(name, name, Level.PIPELINE, epoch + begun - marks[0], ended - begun)
            for name, begun, ended in zip(names, marks[:-1], marks[1:], strict=True)
        ] + self._inside_worker(names, marks, epoch)

    def _inside_worker(self, names: Sequence[str], marks: Sequence[int], epoch: int) -> list[Span]:
        """What the worker itself needed for the prediction: the rest of this step is handing over."""
        seconds = self._subject.session.last_predict_seconds
        if not self._subject.session.elsewhere or seconds is None:
            return []
        place = names.index("predict")
        step, inside = marks[place + 1] - marks[place], round(seconds * 1e9)
        begun = epoch + marks[place] - marks[0] + max(step - inside, 0) // 2
        return [Span("model", "predict", Level.MODEL, begun, min(inside, step), synthetic=True)]


def _add_step(columns: SpanColumns, step: Span, request: int, repeat: int, clean: bool | None) -> None:
    parent = request
    # It was added behind the step that holds it.
    if step.level == Level.MODEL:
        rows = columns.rows
        parent = next(rows["span_id"][row] for row in range(len(columns) - 1, -1, -1) if rows["name"][row] == "predict")
    placed = Span(step.name, step.kind, step.level, step.time, step.duration, parent, synthetic=step.synthetic)
    columns.add(placed, repeat=repeat, clean=clean)


def _add_unobserved(columns: SpanColumns, calls: Calls, settings: TraceSettings, *, warm: bool = False) -> float:
    """Calls as latency is measured, added behind those that are there; their median in nanoseconds."""
    limits = LatencySettings(
        precision=0.0,
        min_samples=settings.repeats,
        max_samples=settings.repeats,
        max_seconds=settings.seconds,
        warmup_calls=1 if warm else 5,
        warmup_seconds=0.0 if warm else 0.1,
    )
    start = time.time_ns()
    samples = measure_latency(calls.once, limits, repeat=calls.repeated)
    first = len(columns)
    for place, (elapsed, clean) in enumerate(zip(samples.elapsed_ns.tolist(), samples.clean.tolist(), strict=True)):
        undisturbed = clean if samples.watched else None
        columns.add(_call(start, elapsed, synthetic=True), repeat=first + place, clean=undisturbed)
        start += elapsed
    return float(np.median(samples.elapsed_ns))


def _call(start: int, duration: int, *, synthetic: bool = False) -> Span:
    return Span("predict", "predict", Level.MODEL, start, duration, synthetic=synthetic)


def _affordable(settings: TraceSettings, nanoseconds: float) -> int:
    return max(FEWEST, min(settings.repeats, int(settings.seconds / max(nanoseconds / 1e9, 1e-9))))


def _observed_predictions(session: Session, feeds: Feeds, repeats: int) -> list[ObservedCall]:
    if isinstance(session, IsolatedSession):
        return session.observe(feeds, repeats)
    session.predict(feeds)
    return observed_calls(lambda: session.predict(feeds), repeats)


def judged_clean(calls: Sequence[Profile | ObservedCall]) -> list[bool | None]:
    """Which calls no other process disturbed; None where the kernel does not report it."""
    waited = np.array([call.delay or 0 for call in calls], np.int64)
    clean = clean_samples(np.array([call.duration for call in calls], np.int64), Waiting(waited, waited))
    return [None if call.delay is None else bool(judged) for call, judged in zip(calls, clean, strict=True)]


def _joined(*columns: SpanColumns) -> pa.Table:
    import pyarrow as pa

    return pa.concat_tables([part.table() for part in columns if len(part)], promote_options="permissive")
