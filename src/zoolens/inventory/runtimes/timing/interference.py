"""Did the operating system let us run? Run-queue delay and context switches of our busy threads.

On a shared machine most slow samples are slow because another process had the core. The kernel counts, per thread,
how long it was ready to run but waited (`/proc/PID/task/TID/schedstat`: time on a core, time waiting, times
scheduled). Reading that after every sample costs about a microsecond per busy thread, and tells the samples that
were disturbed from those that were not. Where the kernel does not offer it, every sample counts as clean and the
figures say so.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reading = list[bytes]


@dataclass(frozen=True)
class Waiting:
    """Per sample: nanoseconds spent ready but waiting for a core, and how often a thread was put on one."""

    delay_ns: NDArray[np.int64]
    switches: NDArray[np.int64]


class ThreadWatch:
    """Holds the schedstat files of the threads that do the work. `read` is made to be called in a hot loop."""

    def __init__(self, process: int | None = None) -> None:
        """`process`: another one of the same user, whose threads are watched instead of ours."""
        self._root = f"/proc/{process or os.getpid()}/task"
        self._files: list[int] = []
        self._last: Reading = []

    @property
    def available(self) -> bool:
        return os.path.exists(f"{self._root}/{self._a_thread()}/schedstat")  # noqa: PTH110 - as cheap as it gets

    def find_busy(self, work: Callable[[], object], seconds: float = 0.05) -> None:
        """Run `work` for a while and keep the threads that spent time on a core meanwhile.

        The kernel brings a running thread's time up to date at its tick (up to 10 ms), hence several ticks.
        """
        self.close()
        if not self.available:
            return
        before = self._run_times()
        until = time.perf_counter() + seconds
        work()
        while time.perf_counter() < until:
            work()
        after = self._run_times()
        self._watch([thread for thread, spent in after.items() if spent > before.get(thread, 0)])

    def watch_all(self) -> None:
        """Watch every thread that there is: those that do nothing wait for no core. A reading takes longer so."""
        self.close()
        if self.available:
            self._watch(list(self._run_times()))

    def _watch(self, threads: Sequence[str]) -> None:
        for thread in threads:
            with contextlib.suppress(OSError):  # it ended just now
                self._files.append(os.open(f"{self._root}/{thread}/schedstat", os.O_RDONLY))
        self._last = [os.pread(file, 64, 0) for file in self._files]

    def read(self) -> Reading:
        """The counters as the kernel prints them: parsing waits until the loop is over."""
        try:
            return [os.pread(file, 64, 0) for file in self._files]
        except OSError:
            # A thread has ended: what it counted last stands.
            return self._read_what_is_left()

    def _read_what_is_left(self) -> Reading:
        for index, file in enumerate(self._files):
            with contextlib.suppress(OSError):
                self._last[index] = os.pread(file, 64, 0)
        return list(self._last)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files, self._last = [], []

    def _a_thread(self) -> str:
        try:
            return os.listdir(self._root)[0]  # noqa: PTH208
        except OSError:
            return "-"

    def _run_times(self) -> dict[str, int]:
        times = {}
        for thread in os.listdir(self._root):  # noqa: PTH208
            try:
                with open(f"{self._root}/{thread}/schedstat", "rb") as file:  # noqa: PTH123
                    times[thread] = int(file.read().split()[0])
            except OSError:
                continue  # the thread has ended
        return times


def waiting_between(readings: Sequence[Reading]) -> Waiting:
    """What happened between consecutive readings, summed over the threads."""
    if len(readings) < 2 or not readings[0]:
        nothing = np.zeros(max(len(readings) - 1, 0), np.int64)
        return Waiting(nothing, nothing)
    counters = np.array([[line.split() for line in reading] for reading in readings], dtype=np.int64)
    steps = np.diff(counters, axis=0).sum(axis=1)
    return Waiting(delay_ns=steps[:, 1], switches=steps[:, 2])


def clean_samples(elapsed_ns: NDArray[np.int64], waiting: Waiting) -> NDArray[np.bool_]:
    """True where waiting for a core cannot have changed the sample by more than a hundredth.

    A wake-up on an idle core also counts a few microseconds of waiting, hence the floor.
    """
    # 5 µs: the kernel counts a wake-up on an idle core as up to that much waiting.
    allowance = np.maximum(elapsed_ns * 0.01, 5_000)
    return np.asarray(waiting.delay_ns <= allowance)
