"""Measures the peaks of this machine: operations per second of matrix products by precision and library, and bytes per
second of copies by the size of what is copied.

The best of several repetitions counts: a peak is what the machine can do undisturbed. It runs in a process of its own,
since libraries fix their threads when they load.
"""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from zoolens.base.engine.executors.executor import Job
from zoolens.inventory.runtimes.timing.interference import clean_samples
from zoolens.inventory.runtimes.timing.latency_loop import Repeater, Repeating

GEMM_SIZES: Final = (128, 512, 1024)
# Seconds of one product, by the rate of the size before. A library without a kernel for a precision gets slower with
# the size: torch's float16 on an Intel processor without such instructions reached 1.5, 0.2 and 0.2 GFLOP/s at the
# three sizes, and a few products of the largest took two thirds of the whole measurement.
SLOWEST: Final = 1.0
SLOWEST_DISTURBED: Final = 4.0  # by a rate that other processes may have spoilt
SECONDS: Final = 0.5  # for each size or precision
MOST_CALLS: Final = 20_000
ROUNDS: Final = 4  # that are tried until a call is undisturbed
COPY_SIZES: Final = tuple(1 << power for power in (16, 18, 20, 22, 24, 26, 28))  # bytes of source and target together
ROUND_BYTES: Final = 1 << 26  # that one call copies at least
ROWS: Final = 64  # copies that one call of numpy makes, of data that fit a cache
LINE: Final = 8  # numbers in a line of a cache


def measured_peaks(job: Job) -> dict[str, Any]:
    """`threads`: how many are used of the processor; None: the peaks are those of the CUDA device `device`."""
    return measure_device(job["device"]) if job["threads"] is None else measure(job["threads"])


def measure(threads: int) -> dict[str, Any]:
    # First: processes are forked while only numpy is loaded.
    copies = list(_copies(threads))
    return {"threads": threads, "gemm": list(_gemms(threads)), "copy": copies}


def measure_device(device: str) -> dict[str, Any]:
    from zoolens.inventory.runtimes.torch import device_peaks

    about = device_peaks.describe(device)
    copies = list(device_peaks.copies(device))
    return {**about, "gemm": list(device_peaks.products(device)), "copy": copies}


def _gemms(threads: int) -> Iterator[dict[str, Any]]:
    for precision in ("float32", "float64"):
        yield _gemm("numpy", np.__version__, precision, lambda size, kind=precision: _numpy_product(kind, size))  # type: ignore[misc]
    try:
        from zoolens.inventory.runtimes.torch import torch_gemm

        torch_gemm.set_threads(threads)
    except ImportError:
        return
    from importlib.metadata import version

    for precision in torch_gemm.PRECISIONS:
        yield _gemm("torch", version("torch"), precision, lambda size, kind=precision: torch_gemm.product(kind, size))  # type: ignore[misc]


def _numpy_product(precision: str, size: int) -> Callable[[], Any]:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal((size, size)).astype(precision) for _ in range(2))
    out = np.empty((size, size), precision)
    return lambda: np.matmul(a, b, out=out)


def _gemm(library: str, version: str, precision: str, make: Callable[[int], Callable[[], Any]]) -> dict[str, Any]:
    about = {"library": library, "version": version, "precision": precision}
    best, clean, rate, undisturbed = 0.0, False, math.inf, True
    for size in GEMM_SIZES:
        if 2 * size**3 / rate > (SLOWEST if undisturbed else SLOWEST_DISTURBED):
            break
        try:
            seconds, undisturbed = _shortest(make(size))
        except Exception as error:
            # A precision that the library or the processor does not have.
            return {
                **about,
                "reason": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}",
            }
        rate = 2 * size**3 / seconds
        if rate > best:
            best, clean = rate, undisturbed
    return {**about, "per_second": best, "clean": clean}


def _copies(processes: int) -> Iterator[Mapping[str, Any]]:
    """Bytes read and written in a second by copies at once in so many processes, whose shares make up each size.

    Threads of one Python would wait for each other between short copies.
    """
    context = multiprocessing.get_context("fork")
    meet, answers = context.Barrier(processes), context.SimpleQueue()
    children = [context.Process(target=_copy_here, args=(processes, meet, answers)) for _ in range(processes)]
    for child in children:
        child.start()
    rates = [answers.get() for _ in children]
    for child in children:
        child.join()
    for place, size in enumerate(COPY_SIZES):
        own = [rate[place] for rate in rates]
        yield {"bytes": size, "per_second": sum(rate for rate, _ in own), "clean": all(clean for _, clean in own)}


def _copy_here(processes: int, meet: Any, answers: Any) -> None:
    """One process's share: a rate for each size, from the shortest of repeated copies. What calling numpy takes, which
    is as long as copying some kilobytes, is measured with nearly nothing and taken off."""
    calls = 16 * ROWS
    idle, _ = _shortest(_copying(8, calls))
    rates = []
    for size in COPY_SIZES:
        numbers = size // processes // 16
        rounds = math.ceil(ROUND_BYTES / (numbers * 16))
        rounds = math.ceil(rounds / ROWS) * ROWS if rounds > ROWS else rounds
        copy = _copying(numbers, rounds)
        meet.wait()
        seconds, clean = _shortest(copy)
        meet.wait()
        rates.append((rounds * numbers * 16 / max(seconds - idle * rounds / calls, 1e-9), clean))
    answers.put(rates)


def _copying(numbers: int, rounds: int) -> Callable[[], None]:
    """Copy so many numbers so many times. One call of numpy copies a row again and again, each time to a place one line
    of the cache further on, because calling it takes as long as copying some kilobytes."""
    rows = min(rounds, ROWS)
    room = np.zeros(numbers + rows * LINE)
    source, target = np.ones((1, numbers)), as_strided(room, (rows, numbers), (8 * LINE, 8))

    def copy() -> None:
        for _ in range(rounds // rows):
            np.copyto(target, source)

    return copy


def _shortest(call: Callable[[], Any]) -> tuple[float, bool]:
    """The shortest call in seconds, and whether it is one that no other process disturbed: only where there is none,
    the shortest of the others."""
    repeated = Repeater(call, 1, 0.0)
    try:
        return shortest(repeated)
    finally:
        repeated.close()


def shortest(repeated: Repeating) -> tuple[float, bool]:
    best = math.inf
    for _ in range(ROUNDS):
        elapsed, waiting = repeated.sample(MOST_CALLS, SECONDS)
        clean = clean_samples(elapsed, waiting)
        if clean.any():
            return float(elapsed[clean].min()) / 1e9, True
        best = min(best, float(elapsed.min()) / 1e9)
    return best, False
