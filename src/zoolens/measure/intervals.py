"""Intervals and exact tests. Each is a few lines of arithmetic; tests pin them to scipy and to simulation."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95


class Interval(NamedTuple):
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson score interval of a proportion: sensible also at 0 %, 100 % and small n."""
    if n == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return Interval(max(0.0, centre - half), min(1.0, centre + half))


def paired_difference(only_a: int, only_b: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Interval of (share of B) − (share of A) on the same inputs, from the discordant counts.

    Agresti and Min's adjusted Wald interval: half a pseudo-observation in each of the four cells. `only_a` is the
    number of inputs on which only A is right.
    """
    if n == 0:
        return Interval(-1.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    a, b, total = only_a + 0.5, only_b + 0.5, n + 2.0
    difference = (b - a) / total
    half = z * math.sqrt((a + b) - (b - a) ** 2 / total) / total
    return Interval(max(-1.0, difference - half), min(1.0, difference + half))


def exact_mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value that the discordant inputs fall on either side by a fair coin."""
    n = only_a + only_b
    if n == 0:
        return 1.0
    log_half = n * math.log(0.5)
    log_factorial = math.lgamma(n + 1)
    tail = math.fsum(
        math.exp(log_factorial - math.lgamma(k + 1) - math.lgamma(n - k + 1) + log_half)
        for k in range(min(only_a, only_b) + 1)
    )
    return min(1.0, 2 * tail)


def quantile(sorted_values: NDArray[Any], q: float, confidence: float = CONFIDENCE) -> tuple[float, Interval]:
    """A quantile of sorted samples with its distribution-free interval from order statistics.

    The ranks come from the normal approximation of the binomial; they are clamped to the sample, so at few samples
    the interval of an extreme quantile ends at the extreme value seen.
    """
    n = len(sorted_values)
    if n == 0:
        return math.nan, Interval(math.nan, math.nan)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    half = z * math.sqrt(n * q * (1 - q))
    low = math.floor(n * q - half)
    high = math.ceil(n * q + half)
    value = float(np.quantile(sorted_values, q))
    return value, Interval(
        float(sorted_values[min(max(low, 0), n - 1)]), float(sorted_values[min(max(high, 0), n - 1)])
    )


def bootstrap_mean(
    values: NDArray[Any], confidence: float = CONFIDENCE, resamples: int = 1000, seed: int = 0
) -> Interval:
    """Percentile bootstrap interval of a mean; seeded, so that the same predictions give the same figures."""
    n = len(values)
    if n == 0:
        return Interval(math.nan, math.nan)
    generator = np.random.default_rng(seed)
    means = np.empty(resamples)
    for index in range(resamples):  # one resample at a time: memory stays at n whatever the number of resamples
        means[index] = values[generator.integers(0, n, n)].mean()
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return Interval(float(low), float(high))
