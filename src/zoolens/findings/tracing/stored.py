"""A stored trace as figures: what each level took, which layers, what observing cost, and what is in no layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.present.results import Result, frame
from zoolens.base.statistics.intervals import Interval
from zoolens.base.store.records import Observation, Run, RunKind, Stage
from zoolens.base.store.scopes import batch_scope
from zoolens.base.store.series import read_series, series_names
from zoolens.base.store.store import Store, borrowed_store
from zoolens.findings.tracing.measuring import COUNTERS, UNOBSERVED
from zoolens.findings.tracing.runner import BATCH, INPUTS, PREFIX, series_name
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.trace_layers import (
    ObservedCalls,
    Timing,
    TracedLayer,
    call_timing,
    observed_calls_of,
    timing,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_TOLD: Final = "the kernel does not give it here, or not to a process in a sandbox"
_ID: Final = re.compile(r"[0-9a-f]+")  # of a run, or the beginning of one
SUMS_UP: Final = 0.05  # so much of a call's time may be in no layer before the rest is named


@dataclass(frozen=True)
class RequestStep:
    """One step of a request. `inside`: it is a part of the step before it."""

    name: str
    timing: Timing
    inside: bool = False


@dataclass(frozen=True)
class Overhead:
    """The call with a level observed, and the call without, from the same minute."""

    level: Level
    observed: Timing
    unobserved: Timing

    @property
    def share(self) -> float:
        """The share by which observing slows the call down; negative where the observed calls were quicker, which
        observing cannot cause."""
        return self.observed.median / self.unobserved.median - 1

    @property
    def sure(self) -> bool:
        """Whether observing is known to slow the call down, and by how much: nothing disturbed the calls, and their
        intervals lie apart."""
        disturbed = self.observed.disturbed or self.unobserved.disturbed
        return not disturbed and self.interval is not None and self.interval.low > 0

    @property
    def interval(self) -> Interval | None:
        """The least and the most that the intervals of both medians allow; None where one of them is not known."""
        observed, unobserved = self.observed, self.unobserved
        if None in (observed.low, observed.high, unobserved.low, unobserved.high):
            return None
        return Interval(
            (observed.low or 0) / (unobserved.high or 1) - 1, (observed.high or 0) / (unobserved.low or 1) - 1
        )


@dataclass(frozen=True)
class Counter:
    """What the system did in a call: the median and the largest of all calls. `unit`: s, or nothing for counts."""

    name: str
    median: float | None
    largest: float | None
    unit: str
    provenance: str
    reason: str = ""


@dataclass(frozen=True, repr=False)
class Trace(Result):
    """What a run of kind "trace" tells. What was not traced is None or empty; `missing` says why."""

    run: Run
    batch: int
    inputs: str
    model: Timing | None = None
    request: Timing | None = None
    steps: tuple[RequestStep, ...] = ()
    layer: ObservedCalls | None = None
    library: ObservedCalls | None = None
    overheads: tuple[Overhead, ...] = ()
    counters: tuple[Counter, ...] = ()
    hardware: tuple[Observation, ...] = ()  # energy, and on an accelerator the parts of a call
    missing: Mapping[Level, str] = field(default_factory=dict)
    judged: bool = True  # False: the kernel did not tell of some repetitions whether other processes disturbed them

    def frame(self) -> Any:
        """Returns a pandas DataFrame with a row for each outermost operator."""
        rows = [
            {
                "layer": one.name,
                "kind": one.kind,
                "seconds": one.timing.median,
                "low": one.timing.low,
                "high": one.timing.high,
                "kernel": one.kernel,
                "precision": one.precision,
                "device": one.device,
            }
            for one in self.layers
        ]
        return frame(rows, "Trace.frame")

    @property
    def runtime(self) -> str:
        return self.run.stack.runtime.removeprefix(PREFIX)

    @property
    def stack(self) -> str:
        """Runtime and version, with the options that are not the default."""
        options = self.run.stack.identity.get("options", {})
        threads = options.get("threads")
        apart = [options.get("mode"), self.run.precision, options.get("device"), threads and _threads_words(threads)]
        notes = [str(note) for note in apart if note not in (None, "default", "float32", "cpu")]
        version = f"{self.runtime} {self.run.stack.version or ''}".rstrip()
        return f"{version} ({', '.join(notes)})" if notes else version

    @property
    def device(self) -> str:
        return str(self.run.stack.identity.get("options", {}).get("device", "cpu"))

    @property
    def threads(self) -> int | None:
        """How many threads the runtime was given or says that it uses; None: not known."""
        options = self.run.stack.identity.get("options", {})
        return options.get("threads") or self.run.resolved.get("threads")

    @property
    def title(self) -> str:
        return f"{self.run.ref} in {self.stack}"

    @property
    def layers(self) -> tuple[TracedLayer, ...]:
        """The outermost operators of the framework."""
        return () if self.layer is None else self.layer.layers

    @property
    def unlayered(self) -> Timing | None:
        """The model's own time, from the calls without a profiler that were made beside those with one."""
        beside = [overhead.unobserved for overhead in self.overheads if overhead.level is Level.LAYER]
        return beside[0] if beside else self.model

    @property
    def covered(self) -> float | None:
        """The sum of the layers as a share of the call that they were timed in, in the median call."""
        return None if self.layer is None or self.layer.median is None else self.layer.median.share

    @property
    def profiler(self) -> Overhead | None:
        """What observing the layers adds to a call; None where it was not measured."""
        return next((overhead for overhead in self.overheads if overhead.level is Level.LAYER), None)

    @property
    def cores(self) -> int | None:
        """How many cores the machine has; None: not known."""
        cores: int | None = self.run.stack.identity.get("machine", {}).get("cores")
        return cores


def _threads_words(threads: int) -> str:
    return f"{threads} thread{'' if threads == 1 else 's'}"


def load_trace(run: Run | str, *, store: Store | str | Path | None = None) -> Trace:
    """A trace by its run, or by an id, the first digits of one, or MODEL@RUNTIME for the newest one of these."""
    with borrowed_store(store, must_exist=True) as opened:
        named = find_trace(opened, run) if isinstance(run, str) else run
        return _Loader(opened, named).load()


def spans_of(store: Store, run: Run) -> dict[Level, pa.Table]:
    """The spans of a trace, by the level that was observed."""
    known = set(series_names(store, run.id))
    return {level: read_series(store, run.id, name) for level in Level if (name := series_name(level)) in known}


def find_trace(store: Store, name: str) -> Run:
    """The run of a trace; ZoolensError where there is none, or it is none."""
    model, _, runtime = name.rpartition("@")
    pattern = f"{PREFIX}{runtime}" if model else None
    for wanted in ({"model": model, "runtime": pattern}, {"model": name}, {"runtime": f"{PREFIX}{name}"}):
        if all(wanted.values()):
            runs = list(store.runs(kind=RunKind.TRACE, limit=1, **wanted))
            if runs:
                return runs[0]
    if name in ("last", "last~1"):
        runs = store.runs(kind=RunKind.TRACE, limit=2)
        place = 0 if name == "last" else 1
        if len(runs) > place:
            return runs[place]
        raise UnknownName("trace", name, [run.id for run in runs], hint="`zoolens trace MODEL` makes one.")
    if not _ID.fullmatch(name):
        known = {f"{run.ref}@{run.stack.runtime.removeprefix(PREFIX)}" for run in store.runs(kind=RunKind.TRACE)}
        raise UnknownName("trace", name, known, hint=None if known else "`zoolens trace MODEL` makes one.")
    run = store.run(name)
    if run.kind is not RunKind.TRACE:
        raise ZoolensError(
            f"Run {run.id[:8]} is not a trace of {run.ref}.", hint="`zoolens trace MODEL` makes one and prints its id."
        )
    return run


class _Loader:
    def __init__(self, store: Store, run: Run) -> None:
        self._store, self._run = store, run

    def load(self) -> Trace:
        spans = spans_of(self._store, self._run)
        tables = {level: spans.get(level) for level in Level}
        pipeline, model, layer, library, system = tables.values()
        states = self._store.stages(self._run.id)
        failed = {level: states.get(Stage.TRACE.of(level)) for level in Level}
        batch = int(self._run.resolved.get(BATCH, 1))
        hardware = self._store.observations(self._run.id, scope=batch_scope(batch))
        return Trace(
            self._run,
            batch,
            str(self._run.resolved.get(INPUTS, "")),
            None if model is None else call_timing(model, Level.MODEL),
            None if pipeline is None else call_timing(pipeline, Level.PIPELINE, name="request"),
            () if pipeline is None else tuple(_steps(pipeline)),
            None if layer is None else observed_calls_of(layer, Level.LAYER),
            None if library is None else observed_calls_of(library, Level.LIBRARY),
            tuple(_overheads(tables)),
            () if system is None else tuple(_counters(system)),
            tuple(hardware),
            {level: str(state.error) for level, state in failed.items() if state is not None and not state.done},
            not any(table["clean"].null_count for table in spans.values()),
        )


def _steps(table: pa.Table) -> Iterator[RequestStep]:
    """The steps in the order in which they come, the worker's own share behind the prediction."""
    rows = [row for row in table.to_pylist() if row["observed"] == Level.PIPELINE and row["kind"] != "request"]
    order = {name: place for place, name in enumerate(("decode", "preprocess", "predict", "model", "postprocess"))}
    for name in sorted({row["name"] for row in rows}, key=order.__getitem__):
        own = [row for row in rows if row["name"] == name]
        samples = np.array([row["duration"] / 1e9 for row in own])
        times = timing(samples, np.array([row["clean"] is not False for row in own], bool))
        yield RequestStep(name, times, inside=own[0]["level"] == Level.MODEL)


def _overheads(tables: Mapping[Level, Any]) -> Iterator[Overhead]:
    for level, table in tables.items():
        if table is None or level is Level.MODEL:
            continue
        if level is Level.PIPELINE:
            observed, unobserved = (call_timing(table, seen, name="request") for seen in (level, UNOBSERVED))
        else:
            observed, unobserved = call_timing(table, level), call_timing(table, Level.MODEL)
        if observed is not None and unobserved is not None and unobserved.median:
            yield Overhead(level, observed, unobserved)


def _counters(table: pa.Table) -> Iterator[Counter]:
    rows = [row for row in table.to_pylist() if row["observed"] == Level.SYSTEM]
    for column, name in COUNTERS.items():
        timed = column in ("delay", "on_cores")
        values = [row[column] for row in rows if row.get(column) is not None]
        if not values:
            yield Counter(name, None, None, "s" if timed else "", "unavailable", _NOT_TOLD)
            continue
        scale = 1e9 if timed else 1
        yield Counter(name, float(np.median(values)) / scale, max(values) / scale, "s" if timed else "", "measured")
