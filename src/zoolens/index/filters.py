"""One range of a query over the codes of a column in score order: which positions may satisfy it, and which do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.index.buckets import Codes
from zoolens.index.columns import Column, Range

BLOCK: Final = 8192  # positions to a zone: scanning one costs about as much as the calls that would skip it

# Taken as arrays of no dimension, with which numpy compares in half the time that a scalar takes.
ALL_CODES: Final[dict[int, Codes]] = {1: np.arange(256, dtype=np.uint8), 2: np.arange(65536, dtype=np.uint16)}

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


def ranked_codes(column: Column, rows: NDArray[np.int32]) -> RankedCodes:
    codes = column.arranged.codes[rows]
    if not len(codes):
        return RankedCodes(codes, codes.data, codes, codes)
    blocks = np.arange(0, len(codes), BLOCK)
    known = np.where(codes == np.iinfo(codes.dtype).max, codes.dtype.type(0), codes)
    lows, highs = np.minimum.reduceat(codes, blocks), np.maximum.reduceat(known, blocks)
    return RankedCodes(codes, codes.data, lows, highs)


class Filter:
    """A range made ready for one ranking."""

    __slots__ = (
        "_high",
        "_low",
        "_width",
        "codes",
        "column",
        "passes_all",
        "range",
        "ranked",
        "share",
        "span",
        "unsure",
    )

    def __init__(self, range_: Range, column: Column, ranked: RankedCodes) -> None:
        span = column.span(range_)
        self.range, self.column, self.ranked, self.span = range_, column, ranked, span
        self.codes, self.unsure = ranked.codes, span.unsure
        self.share = span.expected / (len(column.exact) or 1)  # of all rows, the share likely to satisfy it
        self.passes_all = not span.unsure and span.rows == len(column.exact)  # nothing needs to be looked at
        codes = ALL_CODES[ranked.codes.dtype.itemsize]
        self._low, self._high = codes[span.first, ...], codes[span.last, ...]
        self._width = codes[span.last - span.first, ...] if span.rows else self._high

    def view(self, start: int, stop: int) -> Callable[[], Mask]:
        """Tells, called, where the code is one of the span's, for the positions from `start` to before `stop`."""
        codes = self.codes[start:stop]
        if self.span.first:
            return partial(_between, codes, self._low, self._width)
        return partial(less_equal, codes, self._width)

    def alive(self, start: int, stop: int) -> Mask:
        """Which blocks from `start` to before `stop` may hold a position that satisfies it."""
        low_enough = less_equal(self.ranked.lows[start:stop], self._high)
        if not self.span.first:
            return low_enough
        return low_enough & less_equal(self._low, self.ranked.highs[start:stop])

    def doubtful(self, start: int, stop: int) -> Mask:
        """Where the code does not settle it."""
        return np.isin(self.codes[start:stop], self.unsure)

    def holds(self, rows: NDArray[np.int32]) -> Mask:
        return self.range.holds(self.column.exact[rows])

    def admits(self, row: int) -> bool:
        return self.range.admits(self.column.exact.item(row))


def _between(codes: Codes, low: Codes, width: Codes) -> Mask:
    """Codes below `low` wrap round to large ones, and NaN's stays above: one comparison for both ends."""
    return less_equal(np.subtract(codes, low), width)
