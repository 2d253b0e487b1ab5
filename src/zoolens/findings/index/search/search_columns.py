"""Exact figures of all rows, one column for each metric.

    columns = given_columns({"params": params, "latency_p95": latency})
    Ranking(columns, agreement).top([Range("params", high=5e6), Range("latency_p95", high=0.010)], limit=5)

NaN means unknown, and fails every range.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import UnknownName
from zoolens.findings.index.search.buckets import Buckets, CodeRange, Codes, Floats, buckets_of, code_type, codes_of


class Range(NamedTuple):
    """The values from `low` to `high`, without an end that is open."""

    column: str
    low: float = -inf
    high: float = inf
    open_low: bool = False
    open_high: bool = False

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        # numpy would round the ends to float32 otherwise.
        exact = values.astype(np.float64, copy=False)
        above = exact > self.low if self.open_low else exact >= self.low
        below = exact < self.high if self.open_high else exact <= self.high
        return above & below

    def admits(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)


@dataclass(frozen=True)
class BucketedColumn:
    """A column made ready for search: its buckets, and the code of every row."""

    buckets: Buckets
    codes: Codes

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes + self.buckets.nbytes


class SearchColumn:
    """The figures of one metric. Sorting waits until the first search that uses them."""

    def __init__(self, values: NDArray[np.float64]) -> None:
        self.exact = _smallest(np.asarray(values, np.float64))

    @cached_property
    def arranged(self) -> BucketedColumn:
        order = self._sorted_rows()
        unknown = np.iinfo(code_type(len(self.exact))).max  # as many codes lie below it
        buckets = buckets_of(self.exact[order], unknown)
        return BucketedColumn(buckets, codes_of(order, buckets, len(self.exact)))

    @cached_property
    def order(self) -> NDArray[np.int32]:
        """Known rows by value. Four bytes a row that only a selective gather needs."""
        return self._sorted_rows()

    @property
    def nbytes(self) -> int:
        made = [vars(self)[name].nbytes for name in ("arranged", "order") if name in vars(self)]
        return int(self.exact.nbytes + sum(made))

    def _sorted_rows(self) -> NDArray[np.int32]:
        known = len(self.exact) - int(np.count_nonzero(np.isnan(self.exact)))
        return np.argsort(self.exact)[:known].astype(np.int32)  # NaN sorts last

    def span(self, range_: Range) -> CodeRange:
        _, low, high, open_low, open_high = range_
        return self.arranged.buckets.span(low, high, open_low, open_high)

    def rows_within(self, range_: Range, span: CodeRange) -> NDArray[np.int32]:
        """Exactly the rows of a range, by value."""
        if not span.rows:
            return self.order[:0]
        starts, order, value = self.arranged.buckets.starts, self.order, self.exact.item
        find_low = bisect_right if range_.open_low else bisect_left
        find_high = bisect_left if range_.open_high else bisect_right
        low = find_low(order, range_.low, starts[span.first], starts[span.first + 1], key=value)
        high = find_high(order, range_.high, starts[span.last], starts[span.last + 1], key=value)
        return order[low:high]


class SearchColumns:
    """Figures by metric and row, which never change. A column is made when it is asked for."""

    def __init__(self, names: Iterable[str], values: Callable[[str], NDArray[np.float64]], rows: int) -> None:
        self.names = tuple(names)
        self.rows = rows
        self._values = values
        self._known = frozenset(self.names)
        self._columns: dict[str, SearchColumn] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays at hand, codes and orders included as far as they were needed."""
        return sum(column.nbytes for column in self._columns.values())

    def __getitem__(self, name: str) -> SearchColumn:
        column = self._columns.get(name)
        if column is None:
            if name not in self._known:
                raise UnknownName("metric", name, self.names)
            column = self._columns[name] = SearchColumn(self._values(name))
        return column

    def value(self, column: str, row: int) -> float:
        return float(self[column].exact.item(row))

    def values(self, column: str) -> NDArray[np.float64]:
        return self[column].exact.astype(np.float64)


def given_columns(values: Mapping[str, NDArray[np.float64]]) -> SearchColumns:
    """The columns of arrays that are in memory already; they are copied."""
    lengths = {len(column) for column in values.values()}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    columns = SearchColumns(values, values.__getitem__, lengths.pop() if lengths else 0)
    for name in values:
        _ = columns[name]
    return columns


def _smallest(values: NDArray[np.float64]) -> Floats:
    """Half the memory where nothing is lost: page counts, small integers."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    return narrow if np.array_equal(narrow, values, equal_nan=True) else values.copy()
