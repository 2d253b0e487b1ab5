"""Means of a few values, their ratio, and the intervals of both, by Student's t distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import CONFIDENCE, Interval

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % t interval, which a single value does not have (None)."""

    value: float
    interval: Interval | None = None

    @property
    def without_spread(self) -> bool:
        """All values were equal, and nobody knows how far they were rounded: the interval has no width and says
        nothing."""
        return self.interval is not None and self.interval.low == self.interval.high

    @property
    def excludes_zero(self) -> bool:
        return self.interval is not None and not self.interval.contains(0.0)


def mean_estimate(values: Values, rounding: float = 0.0) -> Estimate:
    """The mean, and its t interval.

    `rounding` is the variance that each value has because it was rounded. It is added to the observed variance: a few
    rounded values may be equal by chance, and an interval without width would be wrong for sure.
    """
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(mean)
    half = t_quantile(n - 1) * math.sqrt((float(np.var(values, ddof=1)) + rounding) / n)
    return Estimate(mean, Interval(mean - half, mean + half))


def count_rounding(images: int | None) -> float:
    """The variance that an accuracy has because it is a count of right answers among `images`, 0 where nobody knows
    how many there are. A sum of accuracies with weights w has Σ w² times as much."""
    return 1 / 12 / images**2 if images else 0.0


def ratio_interval(part: Values, whole: Values, rounding: Values | None = None) -> Interval | None:
    """Fieller's 95 % interval of mean(part) / mean(whole): all r for which part − r · whole may have the mean 0.

    `rounding` is the 2 × 2 covariance that each pair of values has because it was rounded, as in `mean_estimate`.
    """
    n = len(part)
    if n < 2:
        return None
    observed = np.cov(np.stack([part, whole]))
    covariance = (observed if rounding is None else observed + rounding) * t_quantile(n - 1) ** 2 / n
    square = float(whole.mean()) ** 2 - covariance[1, 1]
    middle = float(part.mean() * whole.mean()) - covariance[0, 1]
    constant = float(part.mean()) ** 2 - covariance[0, 0]
    if square <= 0:
        return None
    half = math.sqrt(max(middle**2 - square * constant, 0.0))
    return Interval((middle - half) / square, (middle + half) / square)


@lru_cache(maxsize=64)
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The value that Student's t with whole degrees of freedom exceeds in size with probability 1 − confidence."""
    low, high = 0.0, 1.0
    while t_within(high, freedom) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def t_within(t: float, freedom: int) -> float:
    """P(|T| ≤ t); Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    square, sine = math.cos(angle) ** 2, math.sin(angle)
    odd = freedom % 2 == 1
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range(1 if odd else 0, freedom - 1, 2):
        total += term
        term *= square * (k + 1) / (k + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
