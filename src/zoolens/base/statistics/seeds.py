"""How much of a difference is seed noise: the same pair under several seeds.

- each side's own noise is the standard deviation of its accuracy over the seeds;
- both sides of a seed share it, so differences are paired: a t interval of their mean, and a sign-flip test, which
  assumes only that without a difference b − a is as likely as a − b (with n seeds its p-value is at least 2 / 2^n);
- `level` is the |difference| that one pair of runs shows on average if the sides do not differ: √(2/π) · s of the
  paired differences. Sides that share weights or batches are correlated, and only the differences know by how much;
- `excess` is |mean difference| − level, Δ minus noise. Its interval is that of a generalised pivotal quantity: means
  and variances are drawn as normal differences would have them (a test simulates its coverage, with and without
  shared weights);
- an accuracy is a count of right answers, so a difference of two is known to one image. Intervals add the variance of
  that rounding where the number of test images is known: two seeds whose differences happen to be equal have an
  interval with a width, and equal sides are called different in at most 5 % of the cases (a test counts them exactly).

One seed says nothing of noise. A paired test of one seed answers only whether two networks differ on these images.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from zoolens.base.statistics.intervals import CONFIDENCE, Interval
from zoolens.base.statistics.significance import sign_flip
from zoolens.base.statistics.student import Estimate, Values, count_rounding, mean_estimate

_DRAWS: Final = 20_000  # of the pivotal quantity
_HALF_NORMAL: Final = math.sqrt(2 / math.pi)  # mean |x| of a standard normal x
_TAILS: Final = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class SeedNoise:
    """Two sides under several seeds. What needs two seeds is None with one."""

    a: str
    b: str
    accuracies_a: tuple[float, ...]  # in the order of the seeds
    accuracies_b: tuple[float, ...]
    spread_a: float | None  # standard deviation over the seeds
    spread_b: float | None
    difference: Estimate  # b − a
    p_value: float | None  # of the sign-flip test
    exact: bool  # whether all sign flips were tried
    level: float | None  # see the module's docstring
    excess: Estimate | None

    @property
    def seeds(self) -> int:
        return len(self.accuracies_a)

    @property
    def beyond_noise(self) -> bool | None:
        """Whether there is something to explain: the t interval of the mean difference excludes 0, and the mean is
        larger than what two seeds of the same side show, since a few seeds may happen to give almost equal differences.
        None: one seed cannot tell."""
        if self.excess is None:
            return None
        return self.difference.excludes_zero and self.excess.value > 0 and not self.within_seeds

    @property
    def within_seeds(self) -> bool:
        """The mean difference is no larger than that of two seeds of the same side, on average."""
        between = _HALF_NORMAL * math.hypot(self.spread_a or 0.0, self.spread_b or 0.0)
        return abs(self.difference.value) <= between

    @property
    def least_p(self) -> float:
        """The smallest p-value that a sign-flip test with this number of seeds can give."""
        return 2.0 ** (1 - self.seeds)


def seed_noise(
    a: str, accuracies_a: Sequence[float], b: str, accuracies_b: Sequence[float], images: int | None = None
) -> SeedNoise:
    """Returns how much of the difference of two sides is seed noise.

    `accuracies_a[k]` and `accuracies_b[k]` belong to the same seed. `images`: number of test images, if known.
    """
    ours = np.asarray(accuracies_a, np.float64)
    theirs = np.asarray(accuracies_b, np.float64)
    differences = theirs - ours
    rounding = 2 * count_rounding(images)
    mean = mean_estimate(differences, rounding)
    known = a, b, tuple(accuracies_a), tuple(accuracies_b)
    if len(ours) < 2:
        return SeedNoise(*known, None, None, mean, None, False, None, None)
    p_value, exact = sign_flip(differences)
    level = _HALF_NORMAL * float(differences.std(ddof=1))
    return SeedNoise(
        *known,
        spread_a=float(ours.std(ddof=1)),
        spread_b=float(theirs.std(ddof=1)),
        difference=mean,
        p_value=p_value,
        exact=exact,
        level=level,
        excess=_excess(differences, level, rounding),
    )


def _excess(differences: Values, level: float, rounding: float) -> Estimate:
    """Returns |mean| − level with its interval, the quantiles of a generalised pivotal quantity."""
    n = len(differences)
    size = abs(float(differences.mean()))
    spread = math.sqrt(float(differences.var(ddof=1)) + rounding)
    normal, ratio = _pivots(n)
    pivots = size - spread * ratio * (normal / math.sqrt(n) + _HALF_NORMAL)
    low, high = np.quantile(pivots, _TAILS)
    excess = size - level
    interval = Interval(float(low), float(high)).with_all_of(Interval(excess, excess))
    return Estimate(excess, interval)


@lru_cache(maxsize=16)
def _pivots(n: int) -> tuple[Values, Values]:
    """Draws of (mean − μ)·√n / σ, and of σ / s. Always the same ones, so that an interval is a function of its data."""
    generator = np.random.default_rng(0)
    return generator.normal(size=_DRAWS), np.sqrt((n - 1) / generator.chisquare(n - 1, _DRAWS))
