"""Batches in order, prepared ahead of their use by a few threads, never more of them than fit a fixed budget.

Data that lie in memory are prepared in the caller's own thread unless it asks for several: handing a 28×28 image
from thread to thread costs more than preparing it.
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

from zoolens.base.errors import DatasetError, ZoolensError
from zoolens.inventory.datasets.dataset import Dataset, Rows, Sample

BYTES_AHEAD: Final = 1 << 28
BLOCK: Final = 32  # samples
Array = NDArray[Any]
Prepare = Callable[[Sample], Array]
PrepareMany = Callable[[Array], Array | None]


@dataclass(frozen=True, slots=True)
class Batch:
    """`array` is C-contiguous, one row per sample, and belongs to the receiver."""

    indices: NDArray[np.int64]
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    array: Array


def batches(
    dataset: Dataset,
    prepare: Prepare,
    batch: int,
    *,
    start: int = 0,
    workers: int = 1,
    prefetch: int = 4,
    prepare_many: PrepareMany | None = None,
) -> Generator[Batch, None, None]:
    """All samples from `start` on, `batch` at a time; the last batch may be smaller.

    workers: threads that read and prepare; 0 does it in the caller's thread. prefetch: batches prepared ahead, fewer
    where they are large. An unreadable sample raises when its batch is due. Closing the iterator stops the threads.
    prepare_many: the same as `prepare` for the stacked values of many samples, used for data in memory; it may
    decline with None.
    """
    if batch < 1 or workers < 0 or prefetch < 1 or start < 0:
        raise ValueError(f"batch={batch}, workers={workers}, prefetch={prefetch}, start={start} are invalid")
    if workers <= 1 and dataset.read_rows(np.empty(0, np.int64)) is not None:
        return _from_memory(dataset, prepare, prepare_many, start, batch)
    bounds = [(low, min(low + batch, len(dataset))) for low in range(start, len(dataset), batch)]
    if workers == 0:
        return _inline(dataset, prepare, bounds)
    return _threaded(dataset, prepare, bounds, workers, prefetch)


class _Slot:
    """One batch while it is being filled, perhaps by several threads: each fills rows of its own."""

    def __init__(self, low: int, high: int, like: Array) -> None:
        self.low, self.size = low, high - low
        self.array = np.empty((self.size, *like.shape), like.dtype)
        self.ids = [""] * self.size
        self.labels = [0] * self.size

    def put(self, row: int, sample: Sample, value: Array) -> None:
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
        return Batch(indices, tuple(self.ids), np.array(self.labels, np.int64), self.array)


def _from_memory(
    dataset: Dataset, prepare: Prepare, prepare_many: PrepareMany | None, start: int, batch: int
) -> Generator[Batch, None, None]:
    """Small batches are cut from blocks of many samples, so that numpy is not called for a single small image."""
    block = batch * max(1, BLOCK // batch)
    for low in range(start, len(dataset), block):
        indices = np.arange(low, min(low + block, len(dataset)), dtype=np.int64)
        rows = dataset.read_rows(indices)
        assert rows is not None  # `batches` has asked
        array = _prepare_rows(rows, prepare_many) if prepare_many else None
        # Otherwise one of them cannot be prepared, which is then named.
        if array is None:
            array = _one_by_one(rows, prepare, low, dataset.name)
        for begin in range(0, len(indices), batch):
            cut = slice(begin, begin + batch)
            yield Batch(indices[cut], rows.ids[cut], rows.labels[cut], array[cut])


def _prepare_rows(rows: Rows, prepare_many: PrepareMany) -> Array | None:
    """All rows at once; None where they have to be prepared one by one."""
    try:
        array = prepare_many(rows.values)
    except ZoolensError:
        return None
    if array is None:
        return None
    return np.ascontiguousarray(array) if array.flags.writeable else np.array(array, order="C")


def _one_by_one(rows: Rows, prepare: Prepare, low: int, dataset: str) -> Array:
    slot: _Slot | None = None
    labels = rows.labels.tolist()
    for row, value in enumerate(rows.values):
        sample = Sample(rows.ids[row], value, labels[row])
        prepared = _prepare(sample, prepare, dataset)
        slot = slot or _Slot(low, low + len(labels), prepared)
        slot.put(row, sample, prepared)
    assert slot is not None  # a batch is never empty
    return slot.array


def _inline(dataset: Dataset, prepare: Prepare, bounds: list[tuple[int, int]]) -> Generator[Batch, None, None]:
    like: Array | None = None
    for low, high in bounds:
        slot: _Slot | None = None
        for index in range(low, high):
            sample = dataset.read(index)
            prepared = _prepare(sample, prepare, dataset.name)
            like = prepared if like is None else like
            slot = slot or _Slot(low, high, like)
            slot.put(index - low, sample, prepared)
        assert slot is not None
        yield slot.batch()


def _threaded(
    dataset: Dataset, prepare: Prepare, bounds: list[tuple[int, int]], workers: int, prefetch: int
) -> Generator[Batch, None, None]:
    if not bounds:
        return
    first = dataset.read(bounds[0][0])
    like = _prepare(first, prepare, dataset.name)
    ahead = max(1, min(prefetch, BYTES_AHEAD // max(1, like.nbytes * (bounds[0][1] - bounds[0][0]))))
    stop = threading.Event()
    pending: deque[tuple[_Slot, list[Future[None]]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="zoolens-loader")

    def submit(low: int, high: int) -> None:
        slot, begin = _Slot(low, high, like), 0
        # The sample that gave the shape need not be read again.
        if low == bounds[0][0]:
            slot.put(0, first, like)
            begin = 1
        share = -(-(high - low - begin) // workers)
        starts = range(begin, high - low, share) if share else ()
        pending.append(
            (
                slot,
                [pool.submit(_fill, dataset, prepare, slot, row, min(row + share, high - low), stop) for row in starts],
            )
        )

    try:
        for low, high in bounds[: 1 + ahead]:
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
        sample = dataset.read(slot.low + row)
        slot.put(row, sample, _prepare(sample, prepare, dataset.name))


def _prepare(sample: Sample, prepare: Prepare, dataset: str) -> Array:
    try:
        return prepare(sample)
    except ZoolensError as error:
        raise DatasetError(f"Sample {sample.id}: {error.message}", hint=error.hint) from error
    except Exception as error:
        error.add_note(f"while preparing sample {sample.id} of dataset {dataset}")
        raise


def _shape(value: Array) -> str:
    return f"{'×'.join(map(str, value.shape)) or 'a number'} {value.dtype}"
