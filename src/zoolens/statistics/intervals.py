"""Intervals and exact tests. Each is a few lines of arithmetic; tests pin them to scipy and to simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
BLOCKS = 500
RESAMPLES = 1000


class Interval(NamedTuple):
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


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


def no_better_than_guessing(correct: NDArray[np.bool_], labels: NDArray[Any]) -> bool:
    """Whether so many right answers are what an even guess among the data's classes gives, or fewer.

    Exact binomial: False as soon as guessing would be right so often in fewer than one case of twenty.
    """
    n, right, classes = len(correct), int(np.count_nonzero(correct)), len(np.unique(labels))
    if classes < 2 or right / n > 2 / classes:
        return False
    return _binomial_tail(right, n, 1 / classes) >= 1 - CONFIDENCE


def _binomial_tail(k: int, n: int, p: float) -> float:
    """Chance of k successes or more among n."""
    terms = (
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * math.log(p) + (n - i) * math.log1p(-p)
        for i in range(k, n + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))


def quantile(
    sorted_values: NDArray[Any], q: float, confidence: float = CONFIDENCE
) -> tuple[float, float | None, float | None]:
    """A quantile of sorted samples, and both ends of its distribution-free interval from order statistics.

    An end whose rank lies outside the sample is None: so few samples do not tell how far out it may be (the upper
    end of a 99th percentile takes some 400). Ranks come from the normal approximation of the binomial.
    """
    n = len(sorted_values)
    if n == 0:
        return math.nan, None, None
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    half = z * math.sqrt(n * q * (1 - q))
    low, high = math.floor(n * q - half), math.ceil(n * q + half)
    value = float(np.quantile(sorted_values, q))
    return (
        value,
        float(sorted_values[low]) if low >= 0 else None,
        float(sorted_values[high]) if high < n else None,
    )


def random_blocks(n: int, seed: int = 0) -> NDArray[np.int64]:
    """A block number for each of n items: at most 500 blocks of equal size, filled at random."""
    return np.asarray(np.random.default_rng(seed).permutation(n) % min(n, BLOCKS))


def bootstrap(
    sums: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic of column sums, from sums by block (blocks × columns).

    Up to 500 items each one is its own block and this is the ordinary bootstrap; beyond that, blocks of random items
    are drawn instead, which gives the same interval for a fraction of the work. Seeded, so that it is repeatable.

    The statistic of the sample itself always lies inside. A statistic that resampling pushes one way (an expected
    calibration error only grows with noise) would otherwise be outside its own interval.
    """
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(_draws(len(sums), seed) @ sums), [tail, 1 - tail])
    estimate = float(statistic(sums.sum(axis=0, keepdims=True))[0])
    return Interval(min(float(low), estimate), max(float(high), estimate))


@lru_cache(maxsize=4)
def _draws(blocks: int, seed: int) -> NDArray[np.float64]:
    """How often each block is drawn in each resample."""
    drawn = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES)
    return drawn.astype(np.float64)


def bootstrap_mean(values: NDArray[Any]) -> Interval:
    n = len(values)
    blocks = random_blocks(n)
    by_block = np.stack([np.bincount(blocks, values), np.bincount(blocks)], axis=1).astype(np.float64)
    return bootstrap(by_block, lambda totals: totals[:, 0] / totals[:, 1])
