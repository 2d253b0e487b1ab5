"""Warm latency: call the model until its median is known well enough, keep every sample, judge each as clean or not.

The loop does nothing but call, read two clocks and read the kernel's counters; everything else happens after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import CONFIDENCE, quantile
from zoolens.base.store.records import DISTURBED, Observation, unavailable
from zoolens.base.store.scopes import batch_scope
from zoolens.inventory.runtimes.timing.interference import Waiting, clean_samples
from zoolens.inventory.runtimes.timing.latency_loop import Repeater, Repeating

FEWEST_CLEAN = 20  # undisturbed samples: with fewer, what is called clean is the raw figure, and marked
_FEW = f"fewer than {FEWEST_CLEAN} undisturbed samples: the clean figures are the raw ones"
PATIENCE = 4  # so many times the usual number of samples is taken, within the time, to get them
CHUNK = 25  # at least so many samples between two looks at whether to stop


def samples_kind(batch: int) -> str:
    """The kind of bulk facts under which a run keeps the samples of a batch size."""
    return f"latency-batch{batch}"


@dataclass(frozen=True)
class LatencySettings:
    """Stop when the median's interval is within ±`precision` of it, or at a limit."""

    precision: float = 0.02
    min_samples: int = 100
    max_samples: int = 5_000
    # A slow or noisy model must not hold up the evaluation: what is known after this time is kept, with its interval.
    max_seconds: float = 5.0
    warmup_calls: int = 5
    warmup_seconds: float = 0.2


@dataclass(frozen=True)
class LatencySamples:
    elapsed_ns: NDArray[np.int64]
    waiting: Waiting
    clean: NDArray[np.bool_]
    watched: bool  # False: this kernel does not report it, nothing could be judged
    stopped_by: str = "samples"  # or "precision", or "time"

    @classmethod
    def none(cls, watched: bool) -> LatencySamples:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, Waiting(nothing, nothing), nothing.astype(bool), watched)

    def with_more(self, times: NDArray[np.int64], waiting: Waiting) -> LatencySamples:
        return LatencySamples(
            np.concatenate([self.elapsed_ns, times]),
            Waiting(
                np.concatenate([self.waiting.delay_ns, waiting.delay_ns]),
                np.concatenate([self.waiting.switches, waiting.switches]),
            ),
            np.concatenate([self.clean, clean_samples(times, waiting)]),
            self.watched,
        )

    def __len__(self) -> int:
        return len(self.elapsed_ns)

    def table(self, batch: int) -> pa.Table:
        columns = {
            "batch": np.full(len(self), batch, np.int32),
            "elapsed_ns": self.elapsed_ns,
            "run_queue_delay_ns": self.waiting.delay_ns,
            "context_switches": self.waiting.switches,
            "clean": self.clean,
        }
        return pa.table(columns, metadata={"stopped_by": self.stopped_by, "watched": str(int(self.watched))})

    @classmethod
    def from_table(cls, table: pa.Table) -> LatencySamples:
        column = {name: table[name].to_numpy() for name in table.column_names}
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        return cls(
            column["elapsed_ns"],
            Waiting(column["run_queue_delay_ns"], column["context_switches"]),
            column["clean"],
            watched=about.get("watched") != "0",
            stopped_by=about.get("stopped_by", "samples"),
        )


def measure_latency(
    call: Callable[[], object],
    settings: LatencySettings | None = None,
    *,
    repeat: Callable[[int, float], Repeating] | None = None,
) -> LatencySamples:
    """Time `call`. A model in another process is repeated there: `repeat` makes what does it, after a warm-up of so
    many calls and seconds, so that transport and wake-ups are not counted."""
    settings = settings or LatencySettings()
    make = repeat or partial(Repeater, call)
    repeated = make(settings.warmup_calls, settings.warmup_seconds)
    samples = LatencySamples.none(watched=repeated.watched)
    deadline = time.perf_counter() + settings.max_seconds
    try:
        while True:
            # Chunks grow, so that judging what is there so far stays a small share of the work.
            wanted = min(max(CHUNK, len(samples) // 4), _most(samples, settings) - len(samples))
            samples = samples.with_more(*repeated.sample(wanted, deadline - time.perf_counter()))
            if len(samples) >= settings.min_samples and _known(samples, settings):
                return replace(samples, stopped_by="precision")
            if time.perf_counter() > deadline:
                return replace(samples, stopped_by="time")
            if len(samples) >= _most(samples, settings):
                return samples
    finally:
        repeated.close()


def _most(samples: LatencySamples, settings: LatencySettings) -> int:
    return settings.max_samples * (1 if enough_clean(samples) else PATIENCE)


def _known(samples: LatencySamples, settings: LatencySettings) -> bool:
    usable = np.sort(samples.elapsed_ns[samples.clean])
    if len(usable) < max(FEWEST_CLEAN, settings.min_samples // 2):
        return False
    median, low, high = quantile(usable, 0.5)
    return low is not None and high is not None and (high - low) / 2 < settings.precision * median


def enough_clean(samples: LatencySamples) -> bool:
    return int(samples.clean.sum()) >= FEWEST_CLEAN


def latency_observations(samples: LatencySamples, batch: int) -> Iterator[Observation]:
    """Clean figures under scope "batch=N", raw ones under "batch=N,raw"; equal where nothing disturbed."""
    details: Mapping[str, object] = {
        "confidence": CONFIDENCE,
        "interval": "order statistics",
        "stopped_by": samples.stopped_by,
        "run_queue_watched": samples.watched,
        "context_switches_per_call": float(samples.waiting.switches.mean()),
    }
    clean, marked = samples.elapsed_ns[samples.clean], details
    if not enough_clean(samples):
        clean, marked = samples.elapsed_ns, {**details, DISTURBED: True, "note": _FEW}
    raw = samples.elapsed_ns
    for scope, times, about in ((batch_scope(batch), clean, marked), (batch_scope(batch, raw=True), raw, details)):
        ordered = np.sort(times) / 1e9
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
            value, low, high = quantile(ordered, q)
            yield Observation(
                f"latency_{name}", value, scope=scope, unit="s", low=low, high=high, n=len(times), details=about
            )
        yield Observation(
            "throughput",
            batch * len(times) / float(ordered.sum()),
            scope=scope,
            unit="inputs/s",
            n=len(times),
            details={DISTURBED: True} if DISTURBED in about else {},
        )
    scope = batch_scope(batch)
    if samples.watched:
        yield Observation("clean_share", float(samples.clean.mean()), scope=scope, unit="fraction", n=len(samples))
    else:
        yield unavailable("clean_share", "this kernel does not report run-queue delays", scope, "fraction")
