"""One predicate with its quantity in absolute units: who passes, and by how much the others fail."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.findings.index.search.search_columns import Range
from zoolens.findings.queries.language.syntax import Bound
from zoolens.findings.queries.planning.metrics import ResolvedMetric

Values = NDArray[np.float64]
_EXACT: Final = Context(prec=60, traps=[])


class Predicate(NamedTuple):
    """`threshold` is in the metric's unit. `share`: of the reference's figure `reference`, where that was asked."""

    metric: ResolvedMetric
    comparison: Literal["<", "<=", ">", ">=", "="]
    threshold: float
    share: float | None = None
    reference: float | None = None
    note: str = ""  # how the threshold came about

    @property
    def range(self) -> Range:
        column, comparison, threshold = self.metric.column, self.comparison, self.threshold
        if comparison in ("<", "<="):
            return Range(column, -math.inf, threshold, False, comparison == "<")
        return Range(column, threshold, threshold if comparison == "=" else math.inf, comparison == ">")

    def passes(self, values: Values) -> NDArray[np.bool_]:
        """Whether each value satisfies the predicate; an unknown value never does."""
        compare: dict[str, Any] = {
            "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "=": np.equal,
        }  # fmt: skip
        return np.asarray(compare[self.comparison](values, self.threshold))

    @property
    def has_scale(self) -> bool:
        """Whether a violation can be told as a share of the limit, or in points: of nothing there is not a share."""
        return self.metric.unit == "fraction" or self.threshold != 0

    def violation(self, values: Values) -> Values:
        """How far beyond the limit: as a share of the limit, or in points (hundredths) for metrics that are fractions
        themselves. 0 where it passes, NaN where the figure is unknown."""
        beyond = np.abs(values - self.threshold)
        with np.errstate(all="ignore"):
            relative = beyond if self.metric.unit == "fraction" else beyond / (abs(self.threshold) or 1.0)
        # A value at the limit itself fails only a strict comparison: by the least that can be told.
        failing = np.where(np.isnan(values), np.nan, np.maximum(relative, np.finfo(np.float64).tiny))
        return np.where(self.passes(values), 0.0, failing)


def resolve(bound: Bound, metric: ResolvedMetric, reference: float | None, note: str = "") -> Predicate:
    """A predicate as asked, with the reference's own figure where the quantity is relative to it."""
    quantity = bound.quantity
    if not quantity.relative:
        return Predicate(metric, bound.comparison, quantity.value)
    assert reference is not None  # the planner has it, or has refused
    threshold = _share_of(quantity.value, reference)
    return Predicate(metric, bound.comparison, threshold, quantity.value, reference, note)


def _share_of(share: float, figure: float) -> float:
    """Rounded once, from the decimals as they are written: 29 % of 100 is 29, not 28.999999999999996."""
    return float(_EXACT.multiply(_as_written(share), _as_written(figure)))


@lru_cache(maxsize=1_000)
def _as_written(number: float) -> Decimal:
    # The shortest decimals that give this float: what a person has written or read.
    return Decimal(repr(number))
