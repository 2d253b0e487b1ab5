"""One range of a query over the codes of a column in score order: which positions may satisfy it, and which do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.search.buckets import Codes
from zoolens.findings.index.search.search_columns import Range, SearchColumn

BLOCK: Final = 8192  # positions to a zone: scanning one costs about as much as the calls that would skip it

Mask = NDArray[np.bool_]

less_equal: Callable[[Codes, Codes], Mask] = np.less_equal  # as a ufunc it is typed to return anything


@dataclass(frozen=True)
class RankedCodes:
    """A column's codes in score order, and the zone map: the lowest and highest known code of each block."""

    codes: Codes
    lookup: memoryview  # of `codes`: looking one up takes half as long as in the array
    lows: Codes
    highs: Codes

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.lows.nbytes + self.highs.nbytes


def ranked_codes(column: SearchColumn, rows: NDArray[np.int32]) -> RankedCodes:
    codes = column.arranged.codes[rows]
    if not len(codes):
        return RankedCodes(codes, codes.data, codes, codes)
    blocks = np.arange(0, len(codes), BLOCK)
    known = np.where(codes == np.iinfo(codes.dtype).max, codes.dtype.type(0), codes)
    lows, highs = np.minimum.reduceat(codes, blocks), np.maximum.reduceat(known, blocks)
    return RankedCodes(codes, codes.data, lows, highs)


class RangeFilter:
    """A range made ready for one ranking."""

    __slots__ = ("column", "range", "ranked", "span")

    def __init__(self, range_: Range, column: SearchColumn, ranked: RankedCodes) -> None:
        self.range, self.column, self.ranked = range_, column, ranked
        self.span = column.span(range_)

    def view(self, start: int, stop: int) -> Callable[[], Mask]:
        """Tells, called, where the code is one of the span's, for the positions from `start` to before `stop`."""
        codes, first, last = self.ranked.codes[start:stop], self.span.first, self.span.last
        if first:
            return partial(_between, codes, _code(first, codes.itemsize), _code(last - first, codes.itemsize))
        return partial(less_equal, codes, _code(last, codes.itemsize))

    def surely(self, start: int, stop: int) -> bool:
        """Whether the codes of these few positions all tell that they satisfy it."""
        codes, (first, last, unsure) = self.ranked.lookup[start:stop], self.span[:3]
        low, high = first + (first in unsure), last - (last in unsure)
        return max(codes) <= high and (not low or min(codes) >= low)

    def alive(self, start: int, stop: int) -> Mask:
        """Which blocks from `start` to before `stop` may hold a position that satisfies it."""
        lows, highs = self.ranked.lows[start:stop], self.ranked.highs[start:stop]
        low_enough = less_equal(lows, _code(self.span.last, lows.itemsize))
        return low_enough & less_equal(_code(self.span.first, lows.itemsize), highs) if self.span.first else low_enough

    def doubtful(self, start: int, stop: int) -> Mask:
        """Where the code does not settle it."""
        return np.isin(self.ranked.codes[start:stop], self.span.unsure)

    def holds(self, rows: NDArray[np.int32]) -> Mask:
        return self.range.holds(self.column.exact[rows])

    def admits(self, row: int) -> bool:
        return self.range.admits(self.column.exact.item(row))


@lru_cache(maxsize=1024)
def _code(number: int, itemsize: int) -> Codes:
    """The number as a zero-dimensional array: numpy compares with it in half the time that a scalar takes."""
    return np.array(number, np.uint8 if itemsize == 1 else np.uint16)


def _between(codes: Codes, low: Codes, width: Codes) -> Mask:
    """Codes below `low` wrap round to large ones, and NaN's stays above: one comparison for both ends."""
    return less_equal(np.subtract(codes, low), width)
