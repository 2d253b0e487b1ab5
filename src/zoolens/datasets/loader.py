"""Batches in order, prepared ahead of their use by a few threads, never more of them than fit a fixed budget.

Data that are in memory already are prepared in the caller's own thread unless it asks for several workers: handing
a 28×28 image from thread to thread costs more than preparing it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.datasets.base import Dataset, Sample
from zoolens.errors import DatasetError, ZoolensError

BYTES_AHEAD: Final = 1 << 28
Prepare = Callable[[Sample], NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """`array` is C-contiguous, one row per sample, and belongs to the receiver."""

    indices: NDArray[np.int64]
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    array: NDArray[Any]


def batches(
    dataset: Dataset, prepare: Prepare, batch: int, *, start: int = 0, workers: int = 1, prefetch: int = 4
) -> Generator[Batch, None, None]:
    """All samples from `start` on, `batch` at a time; the last batch may be smaller.

    workers: threads that read and prepare; 0 does it in the caller's thread. prefetch: batches prepared ahead, fewer
    where they are large. An unreadable sample raises when its batch is due. Closing the iterator stops the threads.
    """
    if batch < 1 or workers < 0 or prefetch < 1 or start < 0:
        raise ValueError(f"batch={batch}, workers={workers}, prefetch={prefetch}, start={start} make no sense")
    bounds = [(low, min(low + batch, len(dataset))) for low in range(start, len(dataset), batch)]
    if not bounds or workers == 0 or (workers == 1 and dataset.in_memory):
        return _inline(dataset, prepare, bounds)
    return _threaded(dataset, prepare, bounds, workers, prefetch)


class _Slot:
    """One batch while it is being filled, perhaps by several threads: each fills rows of its own."""

    def __init__(self, low: int, high: int, like: NDArray[Any]) -> None:
        size = high - low
        self.low, self.size = low, size
        self.array = np.empty((size, *like.shape), like.dtype)
        self.ids = [""] * size
        self.labels = np.empty(size, np.int64)

    def put(self, row: int, sample: Sample, value: NDArray[Any]) -> None:
        # numpy would broadcast and cast silently: a grey image among colour ones must not pass
        if value.shape != self.array.shape[1:] or value.dtype != self.array.dtype:
            raise DatasetError(
                f"Sample {sample.id} is {_shape(value)} once prepared, but the samples before it "
                f"are {_shape(self.array[0])}.",
                hint="Add a resize step to the manifest, so that all inputs are of one size.",
            )
        self.array[row] = value
        self.ids[row] = sample.id
        self.labels[row] = sample.label

    def batch(self) -> Batch:
        indices = np.arange(self.low, self.low + self.size, dtype=np.int64)
        return Batch(indices, tuple(self.ids), self.labels, self.array)


def _inline(dataset: Dataset, prepare: Prepare, bounds: list[tuple[int, int]]) -> Generator[Batch, None, None]:
    if not bounds:
        return
    never = threading.Event()
    sample, like = _prepared(dataset, prepare, bounds[0][0])
    for number, (low, high) in enumerate(bounds):
        slot = _Slot(low, high, like)
        if number == 0:
            slot.put(0, sample, like)
        _fill(dataset, prepare, slot, 0 if number else 1, high - low, never)
        yield slot.batch()


def _threaded(
    dataset: Dataset, prepare: Prepare, bounds: list[tuple[int, int]], workers: int, prefetch: int
) -> Generator[Batch, None, None]:
    sample, like = _prepared(dataset, prepare, bounds[0][0])
    rows = bounds[0][1] - bounds[0][0]
    ahead = max(1, min(prefetch, BYTES_AHEAD // max(1, like.nbytes * rows)))
    stop = threading.Event()
    pending: deque[tuple[_Slot, list[Future[None]]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="zoolens-loader")

    def submit(low: int, high: int, first: int = 0) -> None:
        slot = _Slot(low, high, like)
        if first:
            slot.put(0, sample, like)
        cuts = np.linspace(first, high - low, min(workers, high - low) + 1).astype(int).tolist()
        parts = [pool.submit(_fill, dataset, prepare, slot, cuts[i], cuts[i + 1], stop) for i in range(len(cuts) - 1)]
        pending.append((slot, parts))

    try:
        submit(*bounds[0], first=1)
        for low, high in bounds[1 : 1 + ahead]:
            submit(low, high)
        upcoming = iter(bounds[1 + ahead :])
        while pending:
            slot, parts = pending.popleft()
            for part in parts:
                part.result()
            if following := next(upcoming, None):
                submit(*following)
            yield slot.batch()
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def _fill(dataset: Dataset, prepare: Prepare, slot: _Slot, begin: int, end: int, stop: threading.Event) -> None:
    for row in range(begin, end):
        if stop.is_set():
            return
        slot.put(row, *_prepared(dataset, prepare, slot.low + row))


def _prepared(dataset: Dataset, prepare: Prepare, index: int) -> tuple[Sample, NDArray[Any]]:
    sample = dataset.read(index)
    try:
        return sample, prepare(sample)
    except ZoolensError as error:
        raise DatasetError(f"Sample {sample.id}: {error.message}", hint=error.hint) from error
    except Exception as error:
        error.add_note(f"while preparing sample {sample.id} of dataset {dataset.name}")
        raise


def _shape(value: NDArray[Any]) -> str:
    return f"{'×'.join(map(str, value.shape)) or 'a number'} {value.dtype}"
