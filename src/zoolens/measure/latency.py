"""Warm latency: call the model until its median is known well enough, keep every sample, judge each as clean or not.

The loop does nothing but call, read two clocks and read the kernel's counters; everything else happens after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.measure.interference import Reading, ThreadWatch, Waiting, clean_samples, waiting_between
from zoolens.measure.intervals import CONFIDENCE, quantile
from zoolens.store.records import Observation

CHUNK = 25  # samples between two looks at whether to stop


@dataclass(frozen=True)
class LatencySettings:
    """Stop when the median's interval is within ±`precision` of it, or at a limit."""

    precision: float = 0.02
    min_samples: int = 100
    max_samples: int = 5_000
    max_seconds: float = 5.0
    warmup_calls: int = 5
    warmup_seconds: float = 0.2


@dataclass(frozen=True)
class LatencySamples:
    elapsed_ns: NDArray[np.int64]
    waiting: Waiting
    clean: NDArray[np.bool_]
    watched: bool  # False: this kernel does not tell, nothing could be judged
    stopped_by: str  # "precision", "samples" or "time"

    def __len__(self) -> int:
        return len(self.elapsed_ns)

    def table(self, batch: int) -> pa.Table:
        return pa.table(
            {
                "batch": np.full(len(self), batch, np.int32),
                "elapsed_ns": self.elapsed_ns,
                "run_queue_delay_ns": self.waiting.delay_ns,
                "context_switches": self.waiting.switches,
                "clean": self.clean,
            }
        )


def measure_latency(
    call: Callable[[], object],
    settings: LatencySettings | None = None,
    *,
    pid: int | None = None,
    own_seconds: Callable[[], float] | None = None,
) -> LatencySamples:
    """Time `call`. For a model in another process: its `pid`, and `own_seconds` gives the time of the last call
    as that process saw it, so that transport is not counted."""
    settings = settings or LatencySettings()
    _warm_up(call, settings)
    watch = ThreadWatch(pid)
    watch.find_busy(call)
    elapsed: list[int] = []
    readings: list[Reading] = [watch.read()]
    deadline = time.perf_counter() + settings.max_seconds
    stopped_by = "samples"
    try:
        while len(elapsed) < settings.max_samples:
            _sample(call, own_seconds, watch, elapsed, readings)
            times = np.array(elapsed, np.int64)
            clean = clean_samples(times, waiting_between(readings))
            if len(times) >= settings.min_samples and _known(times, clean, settings):
                stopped_by = "precision"
                break
            if time.perf_counter() > deadline:
                stopped_by = "time"
                break
    finally:
        watched = bool(readings[0])
        watch.close()
    waiting = waiting_between(readings)
    times = np.array(elapsed, np.int64)
    return LatencySamples(times, waiting, clean_samples(times, waiting), watched, stopped_by)


def _sample(
    call: Callable[[], object],
    own_seconds: Callable[[], float] | None,
    watch: ThreadWatch,
    elapsed: list[int],
    readings: list[Reading],
) -> None:
    clock, read = time.perf_counter_ns, watch.read
    readings[-1] = read()  # what happened between two chunks is no sample's fault
    for _ in range(CHUNK):
        started = clock()
        call()
        ended = clock()
        readings.append(read())
        elapsed.append(ended - started if own_seconds is None else int(own_seconds() * 1e9))


def _warm_up(call: Callable[[], object], settings: LatencySettings) -> None:
    until = time.perf_counter() + settings.warmup_seconds
    for done in range(10_000):
        call()
        if done + 1 >= settings.warmup_calls and time.perf_counter() > until:
            return


def _known(times: NDArray[np.int64], clean: NDArray[np.bool_], settings: LatencySettings) -> bool:
    usable = np.sort(times[clean])
    if len(usable) < settings.min_samples // 2:
        return False
    median, interval = quantile(usable, 0.5)
    return (interval.high - interval.low) / 2 <= settings.precision * median


def latency_observations(samples: LatencySamples, batch: int) -> Iterator[Observation]:
    """Clean figures under scope "batch=N", raw ones under "batch=N,raw"; equal where nothing disturbed."""
    details: Mapping[str, object] = {
        "confidence": CONFIDENCE,
        "interval": "order statistics",
        "stopped_by": samples.stopped_by,
        "run_queue_watched": samples.watched,
        "context_switches_per_call": float(samples.waiting.switches.mean()),
    }
    enough_clean = int(samples.clean.sum()) >= 20
    clean = samples.elapsed_ns[samples.clean] if enough_clean else samples.elapsed_ns
    if not enough_clean:
        details = {**details, "note": "fewer than 20 undisturbed samples: the clean figures are the raw ones"}
    for scope, times in ((f"batch={batch}", clean), (f"batch={batch},raw", samples.elapsed_ns)):
        ordered = np.sort(times) / 1e9
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            value, (low, high) = quantile(ordered, q)
            yield Observation(
                f"latency_{name}", value, scope=scope, unit="s", low=low, high=high, n=len(times), details=details
            )
        yield Observation(
            "throughput", batch * len(times) / float(ordered.sum()), scope=scope, unit="inputs/s", n=len(times)
        )
    yield Observation(
        "clean_share", float(samples.clean.mean()), scope=f"batch={batch}", unit="fraction", n=len(samples)
    )
