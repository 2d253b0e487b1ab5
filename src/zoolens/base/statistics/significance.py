"""Tests: how often chance alone would show as much as was seen. All but that of a mean are exact."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.binomial import binomial_tail
from zoolens.base.statistics.intervals import CONFIDENCE

FLIPS: Final = 20_000  # signs drawn where there are too many values to try all of them
_ALL_FLIPS: Final = 14  # values up to which all sign flips are tried
_EQUAL: Final = 1e-12  # accuracies are counts over counts: smaller differences are rounding


def exact_mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided exact p-value that the inputs on which only one of two is right fall on either side by a fair coin."""
    discordant = only_a + only_b
    return min(1.0, 2 * binomial_tail(max(only_a, only_b), discordant, 0.5)) if discordant else 1.0


def no_better_than_guessing(correct: NDArray[np.bool_], labels: NDArray[Any]) -> bool:
    """Whether so many right answers are what an even guess among the dataset's classes gives, or fewer.

    The binomial tail is exact: the answer is False as soon as guessing would be right so often in fewer than one case
    of twenty.
    """
    n = len(correct)
    right = int(np.count_nonzero(correct))
    classes = len(np.unique(labels))
    if classes < 2 or right / n > 2 / classes:
        return False
    return binomial_tail(right, n, 1 / classes) >= 1 - CONFIDENCE


def sign_flip(differences: NDArray[np.float64]) -> tuple[float, bool]:
    """The two-sided p-value of the paired sign-flip test, and whether all flips were tried.

    Where flips are drawn at random, the observed one counts among them.
    """
    n = len(differences)
    observed = abs(float(differences.sum())) - _EQUAL
    if n <= _ALL_FLIPS:
        signs = np.array(list(product((1.0, -1.0), repeat=n)))
        as_large = np.abs(signs @ differences) >= observed
        return float(np.mean(as_large)), True
    drawn = np.random.default_rng(0).choice((1.0, -1.0), (FLIPS, n))
    as_large = np.abs(drawn @ differences) >= observed
    return float((1 + np.sum(as_large)) / (1 + FLIPS)), False


def mean_not_below_zero(values: NDArray[np.float64]) -> float:
    """One-sided p-value that the mean is not below zero, by the normal distribution: for dozens of values or more."""
    if len(values) < 2:
        return 1.0
    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return NormalDist().cdf(float(values.mean()) / error) if error else 1.0
