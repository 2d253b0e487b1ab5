"""A small code for each value of a metric: which bucket of its sorted values it lies in.

Comparing codes is many times faster than comparing numbers that lie all over memory. Only the two buckets that a range
cuts through need a look at the values themselves, so what is found by codes is exact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

BYTE_ROWS: Final = 1 << 17  # up to here one byte a row is fine enough; beyond, a bucket would hold too many rows

Floats = NDArray[np.floating[Any]]
Codes = NDArray[np.unsignedinteger[Any]]


def code_type(rows: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if rows <= BYTE_ROWS else np.uint16


class CodeRange(NamedTuple):
    """The bucket codes that hold all rows of a range."""

    first: int
    last: int
    unsure: tuple[int, ...]  # codes that hold other rows as well
    rows: int  # how many rows the codes hold
    expected: float  # how many rows the range is likely to hold; half of a cut bucket


NOTHING: Final = CodeRange(1, 0, (), 0, 0.0)


@dataclass(frozen=True)
class Buckets:
    """Bucket i holds the values from lows[i] to highs[i], which are those at starts[i] … starts[i + 1] - 1 of all the
    sorted ones. No value lies in two buckets, and one that many rows share has a bucket of its own."""

    lows: array[float]
    highs: array[float]
    starts: array[int]

    @property
    def nbytes(self) -> int:
        return sum(array.itemsize * len(array) for array in (self.lows, self.highs, self.starts))

    def span(self, low: float, high: float, open_low: bool, open_high: bool) -> CodeRange:
        # NaN: nothing compares with it.
        if low != low or high != high:
            return NOTHING
        first = (bisect_right if open_low else bisect_left)(self.highs, low)
        last = (bisect_left if open_high else bisect_right)(self.lows, high) - 1
        if last < first:
            return NOTHING
        starts, lowest, highest = self.starts, self.lows[first], self.highs[last]
        rows = starts[last + 1] - starts[first]
        unsure: tuple[int, ...] = ()
        cut = 0
        if lowest < low or (open_low and lowest == low):
            unsure, cut = (first,), starts[first + 1] - starts[first]
        if (highest > high or (open_high and highest == high)) and last not in unsure:
            unsure, cut = (*unsure, last), cut + starts[last + 1] - starts[last]
        return CodeRange(first, last, unsure, rows, rows - cut / 2)


def buckets_of(ascending: Floats, most: int) -> Buckets:
    """Makes at most `most` buckets of about equal size over sorted values without NaN."""
    starts = _starts(ascending, most)
    ends = np.append(starts[1:], len(ascending))[: len(starts)]
    lows, highs = ascending[starts].astype(np.float64), ascending[ends - 1].astype(np.float64)
    return Buckets(array("d", lows), array("d", highs), array("q", [*starts.tolist(), len(ascending)]))


def _starts(ascending: Floats, most: int) -> NDArray[np.int64]:
    count = len(ascending)
    points = _distinct(np.arange(most, dtype=np.int64) * count // most) if count else np.empty(0, np.int64)
    runs = np.searchsorted(ascending, ascending[points], "left")
    # A run of equal values over two points or more ends its bucket as well: it gives up at least one point for that.
    heavy = np.append(runs[1:] == runs[:-1], False)[: len(runs)]
    ends = np.searchsorted(ascending, ascending[points[heavy]], "right")
    return _distinct(np.sort(np.concatenate([runs, ends[ends < count]])).astype(np.int64))


def _distinct(ascending: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value once. `np.unique` imports `numpy.ma`, which takes longer than a query over 100,000 rows."""
    first = np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]
    return np.asarray(ascending[first])


def codes_of(order: NDArray[np.integer[Any]], buckets: Buckets, rows: int) -> Codes:
    """The code of each row; `order` names the rows of the sorted values. The highest code is that of NaN, so that
    "code <= last" leaves it out."""
    kind = code_type(rows)
    codes: Codes = np.full(rows, np.iinfo(kind).max, kind)
    sizes = np.diff(np.asarray(buckets.starts))
    codes[order] = np.repeat(np.arange(len(sizes), dtype=kind), sizes)
    return codes
