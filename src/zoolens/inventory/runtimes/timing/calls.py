"""Calls that are watched one at a time: when each began, how long it took, and what the kernel did to it meanwhile.

`Session.profile` makes its calls with `observed_calls`, so that a profile can be told from one that another process
disturbed. Everything is read before and after a call, never during it.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.inventory.runtimes.timing.hardware_counters import EVENTS, HardwareWatch
from zoolens.inventory.runtimes.timing.interference import Reading, ThreadWatch, waiting_between

NOT_ALWAYS_KNOWN: Final = frozenset({"delay", *EVENTS})  # what a kernel may not tell


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """One call. Times are in nanoseconds, `start` since the Unix epoch. All but `start` and `duration` count the whole
    process during the call, however many threads it has.

    `delay` is how long its threads were ready to run and waited for a core; None where this kernel does not report it.
    `on_cores` is how long they ran, in the program and in the kernel together: most kernels only estimate how that time
    divides, from what the process did in all its life, so that the two are not told apart here. A
    page fault is minor when the page was in memory already, and major when it had to be read from a disk. A context
    switch is voluntary when a thread waited for something, and involuntary when another one was given its core.
    """

    start: int
    duration: int
    delay: int | None
    on_cores: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    migrations: int | None = None  # to another core; this and what follows is None where the kernel gives no counters
    cycles: int | None = None
    instructions: int | None = None
    cache_misses: int | None = None


def observed_calls(call: Callable[[], object], repeats: int, *, also: Sequence[int] = ()) -> list[ObservedCall]:
    """Repeat a call. Threads that it starts for the first time are not watched: call it once before. `also` names
    processes that work for the call and whose waiting for a core counts too."""
    watches = [ThreadWatch(), *map(ThreadWatch, also)]
    for watch in watches:
        watch.watch_all()
    watched = all(watch.read() for watch in watches)
    hardware = HardwareWatch()
    calls: list[ObservedCall] = []
    try:
        for _ in range(repeats):
            usage, reading, counted = resource.getrusage(resource.RUSAGE_SELF), _read(watches), hardware.read()
            used = time.process_time_ns()
            start, begun = time.time_ns(), time.perf_counter_ns()
            call()
            ended, cores = time.perf_counter_ns(), time.process_time_ns()
            events = {name: count - counted[name] for name, count in hardware.read().items()}
            readings, after = [reading, _read(watches)], resource.getrusage(resource.RUSAGE_SELF)
            calls.append(
                ObservedCall(
                    start,
                    ended - begun,
                    int(waiting_between(readings).delay_ns[0]) if watched else None,
                    cores - used,
                    after.ru_minflt - usage.ru_minflt,
                    after.ru_majflt - usage.ru_majflt,
                    after.ru_nvcsw - usage.ru_nvcsw,
                    after.ru_nivcsw - usage.ru_nivcsw,
                    **events,
                )
            )
    finally:
        hardware.close()
        for watch in watches:
            watch.close()
    return calls


def _read(watches: Sequence[ThreadWatch]) -> Reading:
    return [line for watch in watches for line in watch.read()]
