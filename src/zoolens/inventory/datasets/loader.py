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


@dataclass(frozen=True)
class Preparation:
    """How samples become inputs. `many`: the same as `one` for the stacked values of many samples, used for data in
    memory; it may decline with None. `memo`: what reading the answer needs to know of the sample, such as the size of
    an image. `uneven`: inputs may differ in shape, and each is a batch of its own."""

    one: Prepare
    many: Callable[[Array], Array | None] | None = None
    memo: Callable[[Sample], Any] | None = None
    uneven: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """`array` is C-contiguous, one row per sample, and belongs to the receiver."""

    indices: NDArray[np.int64]
    ids: tuple[str, ...]
    labels: NDArray[np.int64]
    array: Array
    memos: tuple[Any, ...] = ()  # one for each sample where the preparation has a memo


def batches(
    dataset: Dataset,
    preparation: Preparation | Prepare,
    batch: int,
    *,
    start: int = 0,
    workers: int = 1,
    prefetch: int = 4,
) -> Generator[Batch, None, None]:
    """All samples from `start` on, `batch` at a time; the last batch may be smaller.

    workers: threads that read and prepare; 0 does it in the caller's thread. prefetch: batches prepared ahead, fewer
    where they are large. An unreadable sample raises when its batch is due. Closing the iterator stops the threads.
    """
    prepare = preparation if isinstance(preparation, Preparation) else Preparation(preparation)
    if batch < 1 or workers < 0 or prefetch < 1 or start < 0:
        raise ValueError(f"batch={batch}, workers={workers}, prefetch={prefetch}, start={start} are invalid")
    if prepare.uneven and batch != 1:
        raise ValueError(f"inputs of different shapes come one at a time, not {batch}")
    if workers <= 1 and dataset.read_rows(np.empty(0, np.int64)) is not None:
        return _from_memory(dataset, prepare, start, batch)
    bounds = [(low, min(low + batch, len(dataset))) for low in range(start, len(dataset), batch)]
    if workers == 0:
        return _inline(dataset, prepare, bounds)
    return _threaded(dataset, prepare, bounds, workers, prefetch)


@dataclass(frozen=True, slots=True)
class _Prepared:
    value: Array
    memo: Any


class _Slot:
    """One batch while it is being filled, perhaps by several threads: each fills rows of its own."""

    def __init__(self, low: int, high: int, like: Array, *, uneven: bool = False) -> None:
        self.low, self.size, self.uneven = low, high - low, uneven
        self.array = np.empty((self.size, *like.shape), like.dtype)
        self.ids = [""] * self.size
        self.labels = [0] * self.size
        self.memos: list[Any] = [None] * self.size

    def put(self, row: int, sample: Sample, prepared: _Prepared) -> None:
        value = prepared.value
        if self.uneven:
            self.array = np.empty((self.size, *value.shape), value.dtype)
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
        self.memos[row] = prepared.memo

    def batch(self) -> Batch:
        indices = np.arange(self.low, self.low + self.size, dtype=np.int64)
        return Batch(indices, tuple(self.ids), np.array(self.labels, np.int64), self.array, tuple(self.memos))


def _from_memory(dataset: Dataset, preparation: Preparation, start: int, batch: int) -> Generator[Batch, None, None]:
    """Small batches are cut from blocks of many samples, so that numpy is not called for a single small image."""
    block = batch * max(1, BLOCK // batch) if not preparation.uneven else 1
    for low in range(start, len(dataset), block):
        indices = np.arange(low, min(low + block, len(dataset)), dtype=np.int64)
        rows = dataset.read_rows(indices)
        assert rows is not None  # `batches` has asked
        array, memos = _prepare_rows(rows, preparation), ()
        # Otherwise one of them cannot be prepared, which is then named; or each has a memo of its own.
        if array is None:
            slot = _one_by_one(rows, preparation, low, dataset.name)
            array, memos = slot.array, tuple(slot.memos)
        for begin in range(0, len(indices), batch):
            cut = slice(begin, begin + batch)
            yield Batch(indices[cut], rows.ids[cut], rows.labels[cut], array[cut], memos[cut])


def _prepare_rows(rows: Rows, preparation: Preparation) -> Array | None:
    """All rows at once; None where they have to be prepared one by one."""
    if preparation.many is None or preparation.memo is not None:
        return None
    try:
        array = preparation.many(rows.values)
    except ZoolensError:
        return None
    if array is None:
        return None
    return np.ascontiguousarray(array) if array.flags.writeable else np.array(array, order="C")


def _one_by_one(rows: Rows, preparation: Preparation, low: int, dataset: str) -> _Slot:
    slot: _Slot | None = None
    labels = rows.labels.tolist()
    for row, value in enumerate(rows.values):
        sample = Sample(rows.ids[row], value, labels[row])
        prepared = _prepare(sample, preparation, dataset)
        slot = slot or _Slot(low, low + len(labels), prepared.value, uneven=preparation.uneven)
        slot.put(row, sample, prepared)
    assert slot is not None  # a batch is never empty
    return slot


def _inline(dataset: Dataset, preparation: Preparation, bounds: list[tuple[int, int]]) -> Generator[Batch, None, None]:
    like: Array | None = None
    for low, high in bounds:
        slot: _Slot | None = None
        for index in range(low, high):
            sample = dataset.read(index)
            prepared = _prepare(sample, preparation, dataset.name)
            like = prepared.value if like is None else like
            slot = slot or _Slot(low, high, like, uneven=preparation.uneven)
            slot.put(index - low, sample, prepared)
        assert slot is not None
        yield slot.batch()


def _threaded(
    dataset: Dataset, preparation: Preparation, bounds: list[tuple[int, int]], workers: int, prefetch: int
) -> Generator[Batch, None, None]:
    if not bounds:
        return
    first = dataset.read(bounds[0][0])
    first_prepared = _prepare(first, preparation, dataset.name)
    like = first_prepared.value
    ahead = max(1, min(prefetch, BYTES_AHEAD // max(1, like.nbytes * (bounds[0][1] - bounds[0][0]))))
    stop = threading.Event()
    pending: deque[tuple[_Slot, list[Future[None]]]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="zoolens-loader")

    def submit(low: int, high: int) -> None:
        slot, begin = _Slot(low, high, like, uneven=preparation.uneven), 0
        # The sample that gave the shape need not be read again.
        if low == bounds[0][0]:
            slot.put(0, first, first_prepared)
            begin = 1
        share = -(-(high - low - begin) // workers)
        starts = range(begin, high - low, share) if share else ()
        pending.append(
            (
                slot,
                [
                    pool.submit(_fill, dataset, preparation, slot, range(row, min(row + share, high - low)), stop)
                    for row in starts
                ],
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


def _fill(dataset: Dataset, preparation: Preparation, slot: _Slot, rows: range, stop: threading.Event) -> None:
    for row in rows:
        if stop.is_set():
            return
        sample = dataset.read(slot.low + row)
        slot.put(row, sample, _prepare(sample, preparation, dataset.name))


def _prepare(sample: Sample, preparation: Preparation, dataset: str) -> _Prepared:
    try:
        memo = None if preparation.memo is None else preparation.memo(sample)
        return _Prepared(preparation.one(sample), memo)
    except ZoolensError as error:
        raise DatasetError(f"Sample {sample.id}: {error.message}", hint=error.hint) from error
    except Exception as error:
        error.add_note(f"while preparing sample {sample.id} of dataset {dataset}")
        raise


def _shape(value: Array) -> str:
    return f"{'×'.join(map(str, value.shape)) or 'a number'} {value.dtype}"
