"""How much of a difference is seed noise: the same pair under several seeds.

- each side's own noise is the standard deviation of its accuracy over the seeds;
- both sides of a seed share it, so differences are paired: a t interval of their mean, and a sign-flip test, which
  assumes only that without a difference b − a is as likely as a − b (with n seeds its p-value is at least 2 / 2^n);
- `level` is the |difference| that one pair of runs shows on average if the sides do not differ: √(2/π) · s of the
  paired differences. Sides that share weights or batches are correlated, and only the differences know by how much;
- `excess` is |mean difference| − level, Δ minus noise. Its interval is that of a generalised pivotal quantity: means
  and variances are drawn as normal differences would have them (a test simulates its coverage, with and without
  shared weights).

One seed says nothing of noise: `paired.paired_sides` then answers only whether these two networks differ on these
images.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.study import Trial
from zoolens.errors import ZoolensError
from zoolens.statistics.intervals import CONFIDENCE, Interval

Values = NDArray[np.float64]

_EXACT: Final = 14  # seeds up to which all sign flips are tried
_FLIPS: Final = 20_000  # drawn beyond
_EQUAL: Final = 1e-12  # accuracies are counts over counts: smaller differences are rounding
_DRAWS: Final = 20_000  # of the pivotal quantity
_HALF_NORMAL: Final = math.sqrt(2 / math.pi)  # mean |x| of a standard normal x
_SIGNIFICANT: Final = 1 - CONFIDENCE
_TAILS: Final = (_SIGNIFICANT / 2, 1 - _SIGNIFICANT / 2)


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and its 95 % t interval; None: one seed has none."""

    value: float
    interval: Interval | None = None

    @property
    def excludes_zero(self) -> bool:
        return self.interval is not None and not self.interval.contains(0.0)


@dataclass(frozen=True)
class Noise:
    """Accuracies are in the order of the seeds. `difference`: b − a. `exact`: all sign flips were tried. What needs two
    seeds is None with one."""

    a: str
    b: str
    accuracies_a: tuple[float, ...]
    accuracies_b: tuple[float, ...]
    spread_a: float | None
    spread_b: float | None
    difference: Estimate
    p_value: float | None
    exact: bool
    level: float | None
    excess: Estimate | None

    @property
    def seeds(self) -> int:
        return len(self.accuracies_a)

    @property
    def beyond_noise(self) -> bool | None:
        """Whether there is something to explain: the t interval of the mean difference excludes 0, and the mean is
        larger than what two seeds of the same side show, since a few seeds may happen to give almost equal differences.
        None: one seed cannot tell. `verdict` says how sure that is."""
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
        """The smallest p-value that a sign-flip test of so many seeds can give."""
        return 2.0 ** (1 - self.seeds)

    @property
    def verdict(self) -> str:
        """In words that go with the intervals and the p-value beside them."""
        if self.excess is None or self.p_value is None:
            return "One seed cannot tell"
        if not self.difference.excludes_zero:
            return "Seeds alone may explain the difference"
        if self.within_seeds:
            return "The sides may differ, by less than two seeds of the same side do"
        if not self.excess.excludes_zero or self.excess.value <= 0:
            return f"The sides may differ; that it is more than noise is not certain with {self.seeds} seeds"
        if self.p_value <= _SIGNIFICANT:
            return "The sides differ"
        if self.least_p > _SIGNIFICANT:
            return (
                "The sides differ if their differences are normally distributed, as the t interval assumes; the "
                "sign-flip test, which does not, needs 6 seeds to say so"
            )
        return "The t interval says that the sides differ, the sign-flip test does not: more seeds decide"


def noise_of(trials: Iterable[Trial], a: str, b: str) -> Noise:
    """From one trial and its replicates. A seed counts if both of its sides have an accuracy."""
    pairs = [(trial.side(a).accuracy, trial.side(b).accuracy) for trial in trials]
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    if not both:
        raise ZoolensError(f"No trial has an accuracy of both {a} and {b}.", hint="See the notes of the trials.")
    return noise(a, [one for one, _ in both], b, [other for _, other in both])


def noise(a: str, accuracies_a: Sequence[float], b: str, accuracies_b: Sequence[float]) -> Noise:
    """`accuracies_a[k]` and `accuracies_b[k]` belong to the same seed."""
    ours, theirs = np.asarray(accuracies_a, np.float64), np.asarray(accuracies_b, np.float64)
    difference = mean_estimate(theirs - ours)
    told = a, b, tuple(accuracies_a), tuple(accuracies_b)
    if len(ours) < 2:
        return Noise(*told, None, None, difference, None, False, None, None)
    spreads = float(ours.std(ddof=1)), float(theirs.std(ddof=1))
    p_value, exact = sign_flip(theirs - ours)
    level = _HALF_NORMAL * float((theirs - ours).std(ddof=1))
    return Noise(*told, *spreads, difference, p_value, exact, level, _excess(theirs - ours, level))


def mean_estimate(values: Values) -> Estimate:
    """The mean, and its t interval."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(mean)
    half = t_quantile(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, Interval(mean - half, mean + half))


def sign_flip(differences: Values) -> tuple[float, bool]:
    """The two-sided p-value of the paired sign-flip test, and whether all flips were tried. Drawn ones count the
    observed one among them."""
    observed, n = abs(float(differences.sum())) - _EQUAL, len(differences)
    if n <= _EXACT:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
        return float(np.mean(np.abs(signs @ differences) >= observed)), True
    drawn = np.random.default_rng(0).choice((1.0, -1.0), (_FLIPS, n))
    return float((1 + np.sum(np.abs(drawn @ differences) >= observed)) / (1 + _FLIPS)), False


@lru_cache(maxsize=64)
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The value that Student's t with whole degrees of freedom exceeds in size with probability 1 − confidence."""
    low, high = 0.0, 1.0
    while _t_within(high, freedom) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_within(middle, freedom) < confidence else (low, middle)
    return (low + high) / 2


def _t_within(t: float, freedom: int) -> float:
    """P(|T| ≤ t); Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    square, sine = math.cos(angle) ** 2, math.sin(angle)
    odd = freedom % 2 == 1
    term, total = (math.cos(angle), 0.0) if odd else (1.0, 0.0)
    for k in range(1 if odd else 0, freedom - 1, 2):
        total += term
        term *= square * (k + 1) / (k + 2)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _excess(differences: Values, level: float) -> Estimate:
    """|mean| − level. A generalised pivotal quantity holds all values of mean and standard deviation that normal
    differences leave possible; its quantiles are the interval."""
    n, size, spread = len(differences), abs(float(differences.mean())), float(differences.std(ddof=1))
    normal, ratio = _pivots(n)
    low, high = np.quantile(size - spread * ratio * (normal / math.sqrt(n) + _HALF_NORMAL), _TAILS)
    return Estimate(size - level, Interval(min(float(low), size - level), max(float(high), size - level)))


@lru_cache(maxsize=16)
def _pivots(n: int) -> tuple[Values, Values]:
    """Draws of (mean − μ)·√n / σ, and of σ / s. Always the same ones, so that an interval is a function of its data."""
    generator = np.random.default_rng(0)
    return generator.normal(size=_DRAWS), np.sqrt((n - 1) / generator.chisquare(n - 1, _DRAWS))


def lines(found: Noise) -> list[str]:
    """For a terminal, in points of accuracy."""
    gap = f"{found.b} − {found.a}: {signed(found.difference)}"
    if found.level is None or found.excess is None or found.p_value is None:
        return [
            f"{gap} from one seed.",
            "How much of it is seed noise is not known: that takes replicates. A paired test of one seed answers only "
            "whether these two networks differ on these images.",
        ]
    how = "exact" if found.exact else f"{_FLIPS:,} draws"
    least = f", the least that {found.seeds} seeds can give" if found.p_value == found.least_p else ""
    own = ", ".join(
        f"{name} {100 * (spread or 0):.2f}" for name, spread in ((found.a, found.spread_a), (found.b, found.spread_b))
    )
    return [
        f"{gap} over {found.seeds} seeds (95 % t interval; sign-flip test, {how}: p = {found.p_value:.2g}{least}).",
        f"Standard deviation over seeds: {own} points; pairs with the same seed vary so that one without a difference "
        f"shows {100 * found.level:.2f} on average.",
        f"Δ minus noise: {signed(found.excess)}. {found.verdict}.",
    ]


def signed(one: Estimate, unit: str = " points") -> str:
    """+12.30 points [+10.10, +14.50]."""
    said = f"{100 * one.value:+z.2f}{unit}"
    return said if one.interval is None else f"{said} [{100 * one.interval.low:+z.2f}, {100 * one.interval.high:+z.2f}]"
