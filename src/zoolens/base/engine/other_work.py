"""How busy others keep the cores that this process may use, while it measures.

A sample of a latency that waited for a core is known by its thread's run-queue delay, and left out. That knows nothing
of the work beside it: virtual cores may be halves of one real core, and caches and memory are shared. Beside other work
on two virtual cores, some medians were 1.2 to 1.9 × as long, with 94 to 100 % of their samples called clean.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_SHORTEST: Final = 0.1  # seconds: the kernel counts in hundredths
_OF_STAT: Final = (0, 1, 2, 5, 6, 7)  # user, nice, system, interrupts twice, and what a hypervisor took


@dataclass(frozen=True)
class CpuTime:
    """Seconds of processor time until now: of all work on our cores, and of our own processes."""

    every: float
    own: float
    at: float
    cores: int


def cpu_time() -> CpuTime | None:
    """None: this system does not tell."""
    try:
        ticks = float(os.sysconf("SC_CLK_TCK"))
        cores = os.sched_getaffinity(0)
        lines = (_PROC / "stat").read_text().splitlines()
        busy = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("cpu")}
        every = sum(sum(int(busy[f"cpu{core}"][place]) for place in _OF_STAT) for core in cores)
        return CpuTime(every / ticks, _own_ticks(os.getpid()) / ticks, time.monotonic(), len(cores))
    except (OSError, AttributeError, KeyError, IndexError, ValueError):
        return None


def share_of_others(before: CpuTime | None, after: CpuTime | None) -> float | None:
    """The share of our cores that others kept busy in between; None: nobody knows, or it was too short to tell."""
    if before is None or after is None or after.cores != before.cores or after.at - before.at < _SHORTEST:
        return None
    others = (after.every - before.every) - (after.own - before.own)
    return min(1.0, max(0.0, others / (after.at - before.at) / after.cores))


def _own_ticks(process: int) -> int:
    """The ticks of a process and of all below it, also of those that ended and were waited for."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for number, parent, ticks in _processes():
        children.setdefault(parent, []).append(number)
        used[number] = ticks
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        total += used.get(number, 0)
        waiting += children.get(number, ())
    return total


def _processes() -> Iterator[tuple[int, int, int]]:
    """The id of each process, that of its parent, and its ticks with those of its children that ended."""
    for entry in os.scandir(_PROC):
        if not entry.name.isdecimal():
            continue
        try:
            # The name of a program may hold spaces and brackets.
            fields = (_PROC / entry.name / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # It ended meanwhile.
        yield int(entry.name), int(fields[1]), sum(int(ticks) for ticks in fields[11:15])
