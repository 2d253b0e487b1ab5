"""The loop that latency is sampled in: the same in our own process and in a worker, so that it means the same.

A call that follows directly on the one before finds warm caches. Requests over a pipe, one for each call, would time
calls after a wake-up instead, which take up to three times as long for small models.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.runtimes.timing.interference import Reading, ThreadWatch, Waiting, waiting_between

_MOST_WARM_UP_CALLS: Final = 10_000


class Repeating(Protocol):
    """Calls that are repeated and timed, here or in a worker."""

    watched: bool  # False: this kernel does not report how long threads waited for a core

    def sample(self, wanted: int, seconds: float) -> tuple[NDArray[np.int64], Waiting]:
        """Nanoseconds of `wanted` calls, or of as many as begin within `seconds`; and what they waited for a core."""

    def close(self) -> None: ...


class Repeater:
    """Repeats a call in this process after a warm-up."""

    def __init__(self, call: Callable[[], object], warmup_calls: int, warmup_seconds: float) -> None:
        self._call = call
        _warm_up(call, warmup_calls, warmup_seconds)
        self._watch = ThreadWatch()
        self._watch.find_busy(call)
        self.watched = bool(self._watch.read())

    def sample(self, wanted: int, seconds: float) -> tuple[NDArray[np.int64], Waiting]:
        call, clock, read = self._call, time.perf_counter_ns, self._watch.read
        last = clock() + int(seconds * 1e9)
        elapsed: list[int] = []
        readings: list[Reading] = [read()]
        for _ in range(wanted):
            started = clock()
            call()
            ended = clock()
            readings.append(read())
            elapsed.append(ended - started)
            if ended > last:
                break
        return np.array(elapsed, np.int64), waiting_between(readings)

    def close(self) -> None:
        self._watch.close()


def _warm_up(call: Callable[[], object], calls: int, seconds: float) -> None:
    until = time.perf_counter() + seconds
    for done in range(_MOST_WARM_UP_CALLS):
        call()
        if done + 1 >= calls and time.perf_counter() > until:
            return
