"""The rows of an index in the order of one score, searched by ranges over their figures. Exact, and repeatable: ties
go by row number.

ranking = Ranking(columns, agreement)
ranking.top([Range("peak_memory", high=50e6)], limit=5, floor=0.95)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.search.prepared_search import Rows, Search, Strategy
from zoolens.findings.index.search.range_filter import RangeFilter, RankedCodes, ranked_codes
from zoolens.findings.index.search.score_order import score_order
from zoolens.findings.index.search.search_columns import Range, SearchColumns


@dataclass(frozen=True)
class SearchPlan:
    """How a query would be answered.

    Strategies: "prefix" takes the best rows as they stand; "scan" goes down the score order until enough are found;
    "gather" takes all rows of the most selective range and picks the best; "nothing": a range is empty.
    """

    strategy: Strategy
    touched: int  # rows expected to be looked at
    shares: Mapping[str, float]  # of all rows, the share that each range is expected to hold


class Ranking:
    """Obligation of the caller: `columns` and `score` describe the same rows. Safe to share between threads."""

    def __init__(self, columns: SearchColumns, score: NDArray[np.float64], descending: bool = True) -> None:
        if columns.names and len(score) != columns.rows:
            raise ValueError(f"{len(score)} scores for {columns.rows} rows")
        self._columns = columns
        self._scored = len(score)
        self._ordering = score_order(score, descending=descending)
        self._codes: dict[str, RankedCodes] = {}

    def __len__(self) -> int:
        """Rows that have a score."""
        return len(self._ordering.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of this order and of the codes that searches have asked for so far, without the columns."""
        ranks = vars(self).get("_positions")
        codes = sum(ranked.nbytes for ranked in self._codes.values())
        return self._ordering.nbytes + codes + (0 if ranks is None else int(ranks.nbytes))

    @property
    def arrays(self) -> int:
        """How many arrays it has: as long as they are as many, `nbytes` is the same."""
        return 1 + len(self._codes) + ("_positions" in vars(self))

    def top(
        self,
        ranges: Sequence[Range],
        limit: int,
        *,
        floor: float = -inf,
        admit: NDArray[np.bool_] | None = None,
    ) -> Rows:
        """The best rows that satisfy every range, are admitted, and have a score of at least `floor`; best first."""
        return self.prepare(ranges, limit, floor=floor, admit=admit)()

    def count(self, ranges: Sequence[Range], *, floor: float = -inf, admit: NDArray[np.bool_] | None = None) -> int:
        return self.prepare(ranges, 1, floor=floor, admit=admit).count()

    def prepare(
        self,
        ranges: Sequence[Range],
        limit: int,
        *,
        floor: float = -inf,
        admit: NDArray[np.bool_] | None = None,
    ) -> Search:
        """A search to be run again and again: call it."""
        filters = [self._filter(range_) for range_ in ranges]
        filters.sort(key=attrgetter("span.expected"))
        begin, end = (0, len(self)) if floor == -inf else self._ordering.window(floor)
        if filters and not filters[0].span.rows:
            end = begin
        order, rows = self._ordering.rows, self._columns.rows
        share = prod([filter_.span.expected / rows for filter_ in filters]) if rows else 1.0
        admitted = None if admit is None else admit[order]
        if admitted is not None:
            share *= np.count_nonzero(admitted) / (len(admitted) or 1)
        # A filter that every row passes is left out.
        filters = [filter_ for filter_ in filters if filter_.span.unsure or filter_.span.rows < rows]
        return Search(order, filters, limit, (begin, end), share, admitted, self._ranks)

    def plan(
        self,
        ranges: Sequence[Range],
        limit: int,
        *,
        floor: float = -inf,
        admit: NDArray[np.bool_] | None = None,
    ) -> SearchPlan:
        search = self.prepare(ranges, limit, floor=floor, admit=admit)
        shares = {range_.column: self._filter(range_).span.expected / (self._columns.rows or 1) for range_ in ranges}
        touched = {
            "nothing": 0,
            "prefix": min(limit, search.end - search.begin),
            "scan": search.touched,
            "gather": round(search.filters[0].span.expected) if search.filters else 0,
        }
        return SearchPlan(search.strategy, touched[search.strategy], shares)

    def _filter(self, range_: Range) -> RangeFilter:
        column = self._columns[range_.column]
        ranked = self._codes.get(range_.column)
        if ranked is None:
            ranked = self._codes.setdefault(range_.column, ranked_codes(column, self._ordering.rows))
        return RangeFilter(range_, column, ranked)

    def _ranks(self) -> NDArray[np.int32]:
        return self._positions

    @cached_property
    def _positions(self) -> NDArray[np.int32]:
        ranks = np.full(self._scored, -1, np.int32)
        ranks[self._ordering.rows] = np.arange(len(self), dtype=np.int32)
        return ranks
