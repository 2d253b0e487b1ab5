"""Intervals of figures over time, such as latencies under load.

Intervals for independent samples would be too narrow: requests wait in one queue, so that the figures of neighbours
rise and fall together. How long they do is the integrated autocorrelation time: n values that depend on each other for
τ of them say as much as n / τ independent ones. It is estimated from the same values, and rather too short than too
long, so that its excess over 1 is doubled. Simulated queues decide how many values are enough
(`tests/test_interval_coverage.py`); with fewer there is no interval, since one that is too narrow is worse than none.
A queue that is 80 % busy needs some 10,000 requests for the interval of its median, and more for that of its p95.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import Interval, wilson_share

ENOUGH: Final = 100  # values, had they been independent
ENOUGH_BEYOND: Final = 10  # of them above a quantile, and below it
_EXCESS: Final = 2.0  # times which the estimated dependence is taken
_WINDOW: Final = 5.0  # autocorrelation times that are summed over (Sokal 1997); what lies beyond is noise

Floats = NDArray[np.float64]


def series_quantile(values: NDArray[Any], q: float) -> tuple[float, float | None, float | None]:
    """A quantile of values in the order of time, and both ends of its interval; None where they are not known."""
    n = len(values)
    if n == 0:
        return math.nan, None, None
    ordered = np.sort(values)
    value = float(np.quantile(ordered, q))
    effective = _independent(values, values <= value)
    if effective < ENOUGH or effective * min(q, 1 - q) < ENOUGH_BEYOND:
        return value, None, None
    low, high = wilson_share(q, effective)
    above = math.ceil(high * n)
    if above >= n:
        return value, None, None
    return value, float(ordered[math.floor(low * n)]), float(ordered[above])


def series_share(hits: NDArray[np.bool_], values: NDArray[Any] | None = None) -> Interval | None:
    """The interval of the share of hits among events in the order of time; None where too few are independent.
    `values`: what decides about hits, such as latencies, which shows dependence also where nearly all events are."""
    if not len(hits):
        return None
    effective = _independent(hits if values is None else values, hits)
    return wilson_share(float(np.mean(hits)), effective) if effective >= ENOUGH else None


def _independent(values: NDArray[Any], hits: NDArray[np.bool_]) -> float:
    """How many independent values say as much, by the slower of two: the ranks of the values, and the hits."""
    ranks = np.unique(values, return_inverse=True)[1]  # equal values have the same rank
    time = max(autocorrelation_time(ranks), autocorrelation_time(hits))
    return len(values) / (1 + _EXCESS * (time - 1))


def autocorrelation_time(values: NDArray[Any]) -> float:
    """The integrated autocorrelation time of a series, in values; 1 where they are independent, or all the same."""
    n = len(values)
    apart = np.asarray(values, np.float64) - np.mean(values)
    variance = float(np.mean(apart**2))
    if variance == 0:
        return 1.0
    spectrum = np.abs(np.fft.rfft(apart, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum)[:n] / (n * variance)
    times: Floats = 2 * np.cumsum(correlation) - 1
    settled = np.arange(n) >= _WINDOW * times
    place = int(np.argmax(settled)) if settled.any() else n - 1
    return max(1.0, float(times[place]))
