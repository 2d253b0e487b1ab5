"""Intervals of figures over time, such as latencies under load.

Intervals for independent samples would be too narrow: requests wait in one queue, so that the figures of neighbours
rise and fall together. Resampling whole stretches of the series keeps that, and the wider of the two intervals counts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.statistics.intervals import CONFIDENCE, Interval, bootstrap_mean, quantile, wilson

STRETCHES: Final = 40  # consecutive parts of a series that are resampled
FEWEST: Final = 5  # values that a stretch needs on average; with fewer a quantile has no interval
RESAMPLES: Final = 400


def series_quantile(values: NDArray[Any], q: float) -> tuple[float, float | None, float | None]:
    """A quantile of values in the order of time, and both ends of its interval; an end that is not known is None."""
    value, low, high = quantile(np.sort(values), q)
    if low is None or high is None:
        return value, low, high
    stretch = _stretches(len(values))
    if stretch is None:
        return value, None, None
    resampled = _resampled_quantile(values, stretch, q)
    return value, min(low, resampled.low), max(high, resampled.high)


def series_share(hits: NDArray[np.bool_]) -> Interval:
    """The interval of the share of hits among events in the order of time."""
    counted, stretch = wilson(int(hits.sum()), len(hits)), _stretches(len(hits))
    return counted if stretch is None else counted.with_all_of(bootstrap_mean(hits, stretch))


def _stretches(count: int) -> NDArray[np.int64] | None:
    """The number of the stretch that each value lies in."""
    return None if count < STRETCHES * FEWEST else np.arange(count) * STRETCHES // count


def _resampled_quantile(values: NDArray[Any], stretch: NDArray[np.int64], q: float) -> Interval:
    order = np.argsort(values)
    ordered, owner = values[order], stretch[order]
    draws = np.random.default_rng(0).multinomial(STRETCHES, np.full(STRETCHES, 1 / STRETCHES), size=RESAMPLES)
    resampled = np.empty(RESAMPLES)
    for row, weights in enumerate(draws):
        reached = np.cumsum(weights[owner])
        resampled[row] = ordered[np.searchsorted(reached, q * reached[-1])]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Interval(float(low), float(high))
