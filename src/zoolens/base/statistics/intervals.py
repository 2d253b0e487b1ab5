"""Intervals that describe what was measured: each has about the confidence it states, and is as narrow as that allows.

Each is a few lines of arithmetic; tests pin them to scipy and to simulation. What must hold without fail is a bound:
see `binomial` and `anytime`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
BLOCKS = 500
RESAMPLES = 1000
_FEWEST: Final = 5  # values of a sample whose median is compared
_HALVINGS: Final = 60  # of a bracket that is at most 2 wide: more digits than a float has


class Interval(NamedTuple):
    low: float
    high: float

    def with_all_of(self, other: Interval) -> Interval:
        """The smallest interval that holds both."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def median_difference(a: NDArray[Any], b: NDArray[Any]) -> Interval:
    """Returns the bootstrap interval of the difference of two medians, b − a, of independent samples; seeded.

    It is unbounded with fewer than five values: with three it would cover in 80 % of the cases.
    """
    if min(len(a), len(b)) < _FEWEST:
        return Interval(-math.inf, math.inf)
    random = np.random.default_rng(0)
    medians_a = np.median(random.choice(a, (RESAMPLES, len(a))), axis=1)
    medians_b = np.median(random.choice(b, (RESAMPLES, len(b))), axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians_b - medians_a, [tail, 1 - tail])
    estimate = float(np.median(b) - np.median(a))
    return Interval(float(low), float(high)).with_all_of(Interval(estimate, estimate))


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson score interval of a proportion: sensible also at 0 %, 100 % and small n."""
    return wilson_share(successes / n, n, confidence) if n else Interval(0.0, 1.0)


def wilson_share(p: float, n: float, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's interval of a share among n inputs, where n need not be whole: dependent inputs count in part."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    variance = p * (1 - p) / n + z * z / (4 * n * n)
    half = z / scale * math.sqrt(variance)
    # Rounding would miss the end by 1e-19.
    low = max(0.0, centre - half) if p > 0 else 0.0
    high = min(1.0, centre + half) if p < 1 else 1.0
    return Interval(low, high)


def paired_difference(only_a: int, only_b: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Score interval of (share of B) − (share of A) on the same n inputs (Tango 1998).

    `only_a` counts the inputs on which only A is correct, `only_b` those on which only B is. The interval holds every
    difference that the score test does not reject, as Wilson's does for one share. Its coverage stays near the nominal
    one also where the two disagree on a handful of inputs, all in one direction. An interval made of a standard error,
    such as that of Agresti and Min, then covers only 86 % instead of 95 %.
    """
    if n == 0:
        return Interval(-1.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    return Interval(_score_lower(only_a, only_b, n, z), -_score_lower(only_b, only_a, n, z))


def _score_lower(only_a: int, only_b: int, n: int, z: float) -> float:
    """The smallest difference whose score statistic is at most z. The statistic falls as the difference grows."""
    low, high = -1.0, (only_b - only_a) / n
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if _score(only_a, only_b, n, middle) > z else (low, middle)
    return low


def _score(only_a: int, only_b: int, n: int, difference: float) -> float:
    """How many standard errors the counts lie above a supposed difference.

    The error is the one under that difference: the share on which only A is correct is the most likely one that the
    supposed difference allows, which is the larger root of a quadratic equation.
    """
    linear = (2 * n - (only_b - only_a)) * difference - (only_a + only_b)
    constant = -only_a * difference * (1 - difference)
    discriminant = max(0.0, linear * linear - 8 * n * constant)
    share = (math.sqrt(discriminant) - linear) / (4 * n)
    variance = n * (2 * share + difference * (1 - difference))
    excess = only_b - only_a - n * difference
    return excess / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, excess)


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
    shuffled = np.random.default_rng(seed).permutation(n)
    return np.asarray(shuffled % min(n, BLOCKS))


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
    low, high = np.quantile(statistic(block_draws(len(sums), seed) @ sums), [tail, 1 - tail])
    estimate = float(statistic(sums.sum(axis=0, keepdims=True))[0])
    return Interval(min(float(low), estimate), max(float(high), estimate))


@lru_cache(maxsize=4)
def block_draws(blocks: int, seed: int) -> NDArray[np.float64]:
    """How often each block is drawn in each resample."""
    drawn = np.random.default_rng(seed).multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES)
    return drawn.astype(np.float64)


def bootstrap_mean(values: NDArray[Any], blocks: NDArray[np.int64] | None = None) -> Interval:
    """The interval of a mean. `blocks`: the block of each value, whose values are drawn together; None: at random."""
    if blocks is None:
        blocks = random_blocks(len(values))
    sums, counts = np.bincount(blocks, values), np.bincount(blocks)
    by_block = np.stack([sums, counts], axis=1).astype(np.float64)
    return bootstrap(by_block, lambda totals: totals[:, 0] / totals[:, 1])
