"""One query over a ranking, made ready: called, it returns the best rows that satisfy every range.

Positions are scanned in score order, in pieces that grow, until enough rows are found. Where the first piece was not
enough, zone maps leave out blocks that cannot hold any; and where one range holds few rows at all, those are gathered
and the best of them picked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.search.range_filter import BLOCK, Mask, RangeFilter

LEAST_PIECE: Final = 8192  # below it, a numpy call costs more than its work
NEXT_PIECE: Final = 32768  # so many positions are scanned in the time that a look at the zone maps takes
MOST_PIECE: Final = 131072  # above it, masks leave the fast cache
FORESIGHT: Final = 32  # scores hang together with figures: a search may have to go so many times as far as expected
FEW: Final = 64  # so many results are picked one by one, faster than by array …
MOST_ROUNDS: Final = 4  # … unless some of them only look right so many times
LEAST_PART: Final = 512
# What gathering costs in positions scanned: random access to every figure of a row, and sorting out the best.
GATHER_ROW: Final = 50
GATHER_CALL: Final = 100_000

Rows = NDArray[np.int64]
Strategy = Literal["nothing", "prefix", "scan", "gather"]

logical_and: Callable[[Mask, Mask, Mask], Mask] = np.logical_and  # as a ufunc it is typed to return anything


class Search:
    """A search over positions in score order; call it for the best rows that satisfy all ranges.

    It is called many times, so all that does not depend on the figures is settled when it is made.
    """

    __slots__ = (
        "_first",
        "_parts",
        "_unsure",
        "admitted",
        "begin",
        "end",
        "filters",
        "limit",
        "order",
        "ranks",
        "strategy",
        "touched",
    )

    def __init__(
        self,
        order: NDArray[np.int32],
        filters: list[RangeFilter],
        limit: int,
        window: tuple[int, int],  # the positions whose score is high enough
        share: float,  # of the positions, expected to satisfy all ranges
        admitted: Mask | None,  # by position
        ranks: Callable[[], NDArray[np.int32]],  # the position of each row, -1 without a score
    ) -> None:
        self.order, self.filters, self.limit = order, filters, max(limit, 0)
        self.admitted, self.ranks = admitted, ranks
        self.begin, self.end = window
        size = self.end - self.begin
        # Positions that a scan is expected to look at, were the ranges independent of the score.
        self.touched = int(self.limit / share) if share * size > self.limit else size
        self.strategy = self._chosen()
        self._first = min(self.begin + min(max(FORESIGHT * self.touched, LEAST_PIECE), NEXT_PIECE), self.end)
        self._parts = self._cut(self.begin, self._first) if self.strategy == "scan" else []
        self._unsure = [(filter_.ranked.lookup, code, filter_) for filter_ in filters for code in filter_.span.unsure]

    def _chosen(self) -> Strategy:
        if not self.limit or self.end <= self.begin:
            return "nothing"
        if not self.filters and self.admitted is None:
            return "prefix"
        return "gather" if self._gathers(self.touched) else "scan"

    def __call__(self) -> Rows:
        if self.strategy == "scan":
            return self._scanned()
        if self.strategy == "gather":
            return self._gathered()
        if self.strategy == "prefix":
            return self.order[self.begin : min(self.begin + self.limit, self.end)].astype(np.int64)
        return np.empty(0, np.int64)

    def _gathers(self, positions: int) -> bool:
        """Gathering the rows of the most selective range is cheaper than scanning so many positions."""
        return bool(self.filters) and GATHER_CALL + GATHER_ROW * self.filters[0].span.expected < positions

    def _scanned(self) -> Rows:
        begin, first, end = self.begin, self._first, self.end
        if self._best_fit():
            return self.order[begin : begin + self.limit].astype(np.int64)
        accepted: list[int] = []
        if not self._scan(begin, _all_of(self._parts), accepted) and first < end:
            near = min(first + NEXT_PIECE, end)
            if not self._scan(first, self._mask(first, near), accepted) and near < end:
                pieces = self._pieces(near)
                if self._gathers(sum([stop - start for start, stop in pieces])):
                    return self._gathered()
                for start, stop in pieces:
                    if self._scan(start, self._mask(start, stop), accepted):
                        break
        if accepted and len(accepted) < self.limit <= FEW:
            accepted = self._right(accepted)
        return self.order.take(accepted).astype(np.int64) if accepted else np.empty(0, np.int64)

    def _best_fit(self) -> bool:
        """Whether the best rows, as many as are wanted, all satisfy every range: the fastest models are small too."""
        begin, stop = self.begin, self.begin + self.limit
        if self.limit > FEW or stop > self.end or self.admitted is not None:
            return False
        for filter_ in self.filters:  # noqa: SIM110 - a generator takes as long as what it checks
            if not filter_.surely(begin, stop):
                return False
        return True

    def _cut(self, start: int, stop: int) -> list[Callable[[], Mask]]:
        """The functions whose masks together make the mask of a piece."""
        parts = [filter_.view(start, stop) for filter_ in self.filters]
        if self.admitted is not None:
            parts.append(self.admitted[start:stop].copy)
        return parts

    def _mask(self, start: int, stop: int) -> Mask:
        return _all_of(self._cut(start, stop))

    def _scan(self, start: int, flags: Mask, accepted: list[int]) -> bool:
        """Add a piece's positions to `accepted`. True if they are enough; else `_right` must still check them."""
        if self.limit > FEW:
            return self._add_crowd(flags, start, accepted)
        find, at, left = flags.tobytes().find, -1, self.limit - len(accepted)
        for _ in range(MOST_ROUNDS):
            while left and (at := find(1, at + 1)) >= 0:
                accepted.append(start + at)
                left -= 1
            if left:
                return False
            accepted[:] = self._right(accepted)
            left = self.limit - len(accepted)
            if not left:
                return True
        return self._add_crowd(flags[at + 1 :], start + at + 1, accepted)

    def _right(self, positions: list[int]) -> list[int]:
        """Keep the positions whose exact value satisfies the uncertain ranges. Meant for a few positions."""
        # Of one position alone it would make no tuple.
        pick, row_at = itemgetter(0, 0, *positions), self.order.item
        for codes, code, filter_ in self._unsure:
            if code in pick(codes):
                positions = [at for at in positions if codes[at] != code or filter_.admits(row_at(at))]
        return positions

    def _add_crowd(self, flags: Mask, start: int, accepted: list[int]) -> bool:
        """Add positions to `accepted` by array, in parts that grow. Returns whether they are enough."""
        low, part = 0, len(flags) if self.limit > FEW else LEAST_PART
        while low < len(flags):
            positions = self._settled(flags[low : low + part].nonzero()[0] + (start + low))
            accepted += positions[: self.limit - len(accepted)].tolist()
            if len(accepted) >= self.limit:
                return True
            low, part = low + part, 8 * part
        return False

    def _settled(self, positions: Rows) -> Rows:
        """Keep the positions whose exact value satisfies every range whose code leaves it uncertain."""
        for filter_ in self.filters:
            if filter_.span.unsure and len(positions):
                positions = positions[filter_.holds(self.order[positions])]
        return positions

    def _pieces(self, start: int) -> list[tuple[int, int]]:
        """What is left to scan from `start` on: runs of blocks that no zone map rules out, cut to size."""
        first, last = start // BLOCK, -(-self.end // BLOCK)
        alive = np.ones(last - first, np.bool_)
        for filter_ in self.filters:
            alive &= filter_.alive(first, last)
        runs = [(low + first, high + first) for low, high in _runs(alive.tobytes())]
        return [piece for low, high in runs for piece in _cut(max(low * BLOCK, start), min(high * BLOCK, self.end))]

    def _gathered(self) -> Rows:
        first, *others = self.filters
        rows = first.column.rows_within(first.range, first.span)
        for filter_ in others:
            rows = rows[filter_.holds(rows)]
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
        if not self.filters and self.admitted is None:
            return self.end - self.begin
        return sum(self._count(start, stop) for start, stop in self._pieces(self.begin))

    def _count(self, start: int, stop: int) -> int:
        flags = self._mask(start, stop)
        doubt = np.zeros(stop - start, np.bool_)
        for filter_ in self.filters:
            if filter_.span.unsure:
                doubt |= filter_.doubtful(start, stop)
        doubtful = (flags & doubt).nonzero()[0] + start
        return int(np.count_nonzero(flags)) - len(doubtful) + len(self._settled(doubtful))


def _all_of(parts: list[Callable[[], Mask]]) -> Mask:
    mask = parts[0]()
    for part in parts[1:]:
        logical_and(mask, part(), mask)
    return mask


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
