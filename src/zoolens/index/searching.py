"""One query over a ranking, made ready: called, it returns the best rows that satisfy every range.

Positions are scanned in score order, in pieces that grow, until enough rows are found. Where the first piece was not
enough, zone maps leave out blocks that cannot hold any; and where one range holds few rows at all, those are gathered
and the best of them picked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.index.filters import BLOCK, Filter, Mask

LEAST_PIECE: Final = 8192  # below it, a numpy call costs more than its work
LEAST_ZONED: Final = 32768  # so many positions are scanned in the time that a look at the zone maps takes
MOST_PIECE: Final = 131072  # above it, masks leave the fast cache
FEW: Final = 64  # so many results are picked one by one, faster than by array …
MOST_WRONG: Final = 12  # … unless so many only look right
LEAST_PART: Final = 512
# What gathering costs in positions scanned: random access to every figure of a row, and sorting out the best.
GATHER_ROW: Final = 50
GATHER_CALL: Final = 100_000

Rows = NDArray[np.int64]


class Search:
    """`begin` to `end`: the positions whose score is high enough. `admitted`: by position. `share`: of the positions,
    expected to satisfy all ranges. `ranks` gives the position of each row, -1 where it has no score."""

    __slots__ = (
        "_first",
        "_unsure",
        "_views",
        "admitted",
        "begin",
        "end",
        "filters",
        "limit",
        "order",
        "ranks",
        "share",
    )

    def __init__(
        self,
        order: NDArray[np.int32],
        filters: list[Filter],
        limit: int,
        window: tuple[int, int],
        share: float,
        admitted: Mask | None,
        ranks: Callable[[], NDArray[np.int32]],
    ) -> None:
        self.order, self.filters, self.limit, self.share = order, filters, max(limit, 0), share
        self.admitted, self.ranks = admitted, ranks
        self.begin, self.end = window
        self._unsure = [(one.ranked.code_at, code, one) for one in filters for code in one.unsure]
        # What the first piece is made of, cut once: a search is called many times, and most end there.
        self._first = min(self.begin + min(max(2 * self.touched, LEAST_PIECE), MOST_PIECE), self.end)
        self._views = [one.view(self.begin, self._first) for one in filters]

    def __call__(self) -> Rows:
        begin, end, first = self.begin, self.end, self._first
        if not self.limit or end <= begin:
            return np.empty(0, np.int64)
        if self.unconditional:
            return self.order[begin : min(begin + self.limit, end)].astype(np.int64)
        if self.gathers(self.touched):
            return self._gathered()
        found: list[int] = []
        if not self._scan(begin, self._first_mask(), found) and first < end:
            pieces = self._pieces(first) if end - first > LEAST_ZONED else [(first, end)]
            if self.gathers(sum([stop - start for start, stop in pieces])):
                return self._gathered()
            for start, stop in pieces:
                if self._scan(start, self._mask(start, stop), found):
                    break
        return self.order.take(found).astype(np.int64) if found else np.empty(0, np.int64)

    @property
    def unconditional(self) -> bool:
        return not self.filters and self.admitted is None

    @property
    def touched(self) -> int:
        """Positions that a scan is expected to look at, were the ranges independent of the score."""
        window = self.end - self.begin
        return int(self.limit / self.share) if self.share * window > self.limit else window

    def gathers(self, positions: int) -> bool:
        """Gathering the rows of the most selective range is cheaper than scanning so many positions."""
        return bool(self.filters) and GATHER_CALL + GATHER_ROW * self.filters[0].span.expected < positions

    def _mask(self, start: int, stop: int) -> Mask:
        mask = None if self.admitted is None else self.admitted[start:stop]
        for one in self.filters:
            mask = one.mask(start, stop) if mask is None else np.logical_and(mask, one.mask(start, stop))
        assert mask is not None, "a search without conditions reads the order itself"
        return mask

    def _first_mask(self) -> Mask:
        """`_mask` of the first piece."""
        mask = None if self.admitted is None else self.admitted[self.begin : self._first]
        for view in self._views:
            mask = view() if mask is None else np.logical_and(mask, view())
        assert mask is not None, "a search without conditions reads the order itself"
        return mask

    def _scan(self, start: int, flags: Mask, found: list[int]) -> bool:
        """Adds what a piece holds to `found`; True when that is enough."""
        if self.limit > FEW:
            return self._add_crowd(flags, start, found, part=len(flags))
        seen, wrong, left = flags.tobytes(), 0, self.limit - len(found)
        find, unsure = seen.find, self._unsure
        first = at = find(1)
        while at >= 0:
            position = start + at
            for code_at, code, one in unsure:  # in place: a call for each position takes longer than the rest
                if code_at(position) == code and not one.admits(self.order.item(position)):
                    wrong += 1
                    break
            else:
                found.append(position)
                left -= 1
                if not left:
                    return True
            if wrong == MOST_WRONG:
                part = max(LEAST_PART, 20 * (at - first))  # some 200 of them
                return self._add_crowd(flags[at + 1 :], position + 1, found, part=part)
            at = find(1, at + 1)
        return False

    def _add_crowd(self, flags: Mask, start: int, found: list[int], *, part: int) -> bool:
        """The same by array, in parts that grow."""
        low = 0
        while low < len(flags):
            positions = self._settled(flags[low : low + part].nonzero()[0] + (start + low))
            found += positions[: self.limit - len(found)].tolist()
            if len(found) >= self.limit:
                return True
            low, part = low + part, 8 * part
        return False

    def _settled(self, positions: Rows) -> Rows:
        """Those that satisfy every range, by value where the code does not tell."""
        for one in self.filters:
            if one.unsure and len(positions):
                positions = positions[one.holds(self.order[positions])]
        return positions

    def _pieces(self, start: int) -> list[tuple[int, int]]:
        """What is left to scan from `start` on: runs of blocks that no zone map rules out, cut to size."""
        first, last = start // BLOCK, -(-self.end // BLOCK)
        alive = np.ones(last - first, np.bool_)
        for one in self.filters:
            alive &= one.alive(first, last)
        runs = [(low + first, high + first) for low, high in _runs(alive.tobytes())]
        return [piece for low, high in runs for piece in _cut(max(low * BLOCK, start), min(high * BLOCK, self.end))]

    def _gathered(self) -> Rows:
        first, *others = self.filters
        rows = first.column.rows_within(first.range, first.span)
        for one in others:
            rows = rows[one.holds(rows)]
        positions = self.ranks()[rows]
        positions = positions[(positions >= self.begin) & (positions < self.end)]
        if self.admitted is not None:
            positions = positions[self.admitted[positions]]
        if len(positions) > self.limit:
            positions = np.partition(positions, self.limit - 1)[: self.limit]
        return self.order[np.sort(positions)].astype(np.int64)

    def count(self) -> int:
        """How many rows satisfy every range, whatever the limit."""
        if self.end <= self.begin:
            return 0
        if self.unconditional:
            return self.end - self.begin
        return sum(self._count(start, stop) for start, stop in self._pieces(self.begin))

    def _count(self, start: int, stop: int) -> int:
        flags = self._mask(start, stop)
        doubt = np.zeros(stop - start, np.bool_)
        for one in self.filters:
            if one.unsure:
                doubt |= one.doubtful(start, stop)
        doubtful = (flags & doubt).nonzero()[0] + start
        return int(np.count_nonzero(flags)) - len(doubtful) + len(self._settled(doubtful))


def _runs(flags: bytes) -> Iterator[tuple[int, int]]:
    """Where runs of ones start and end."""
    start = flags.find(1)
    while start >= 0:
        stop = flags.find(0, start)
        stop = len(flags) if stop < 0 else stop
        yield start, stop
        start = flags.find(1, stop)


def _cut(low: int, high: int) -> Iterator[tuple[int, int]]:
    for start in range(low, high, MOST_PIECE):
        yield start, min(start + MOST_PIECE, high)
