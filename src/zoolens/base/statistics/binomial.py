"""Exact Clopper–Pearson bounds on a share, from how often something held in n independent inputs.

A bound is a promise: it holds at least as often as its confidence says, for every n. An interval that describes a share
is `intervals.wilson`. Bounds are about the distribution that the inputs were drawn from, and about nothing else. Tests
pin them to scipy; `benchmarks/bounds.py` simulates their coverage.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_STEPS: Final = 60  # of Newton, with bisection where it would leave the bracket; about six are taken
_PRECISION: Final = 1e-14
_SIGMAS: Final = 10  # terms of a tail beyond this many standard deviations are below 1e-21 of the first


def binomial_lower(successes: int, n: int, alpha: float) -> float:
    """The one-sided Clopper–Pearson bound: the true share is at least this, with confidence 1 − alpha."""
    _check(successes, n, alpha)
    if successes == 0:
        return 0.0
    if successes == n:
        return float(alpha ** (1 / n))
    return _solved(successes, n, math.log(alpha))


def binomial_upper(successes: int, n: int, alpha: float) -> float:
    """The true share is at most this, with confidence 1 − alpha."""
    _check(successes, n, alpha)
    return 1.0 - binomial_lower(n - successes, n, alpha)


def binomial_lowers(successes: NDArray[Any], n: int, alpha: float) -> NDArray[np.float64]:
    """The lower bound of many counts over the same inputs; equal counts are solved once."""
    counts, places = np.unique(np.asarray(successes), return_inverse=True)
    solved = np.array([binomial_lower(int(count), n, alpha) for count in counts], np.float64)
    return solved[places].reshape(np.shape(successes))


def needed_successes(n: int, share: float, alpha: float) -> int | None:
    """The fewest successes among n whose lower bound is at least `share`; None where not even n of n suffice.

    A demand for confidence is thereby a stricter threshold on the count, found once for all candidates.
    """
    _check(0, n, alpha)
    if share <= 0:
        return 0
    if share >= 1 or share**n > alpha:
        return None
    enough, too_few = n, 0
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if binomial_tail(middle, n, share) <= alpha:
            enough = middle
        else:
            too_few = middle
    return enough


def binomial_tail(successes: int, n: int, share: float) -> float:
    """Returns the probability of at least this many successes among n."""
    if successes <= 0:
        return 1.0
    if successes > n or share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    if successes < n * share:  # the other tail is the short one
        return 1.0 - binomial_tail(n - successes + 1, n, 1 - share)
    steps = _log_steps(successes, n, _short(successes, n))
    return math.exp(_log_mass(successes, n, share) + _log_tail_over_mass(steps, share))


def _check(successes: int, n: int, alpha: float) -> None:
    if not 0 <= successes <= n or n < 1:
        raise ValueError(f"{successes} of {n} is not a share.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}: it must lie between 0 and 1.")


def _solved(k: int, n: int, log_alpha: float) -> float:
    """Where the probability of k or more successes is alpha; it grows with the share, so a bracket closes in on it."""
    steps = _log_steps(k, n, _short(k, n) if log_alpha <= math.log(0.5) else n - k)
    low, high = 0.0, (k / n if log_alpha <= math.log(0.5) else 1.0)
    share = k / n * 0.9
    for _ in range(_STEPS):
        over_mass = _log_tail_over_mass(steps, share)
        excess = _log_mass(k, n, share) + over_mass - log_alpha
        low, high = (share, high) if excess < 0 else (low, share)
        # Of the log tail: mass · k / share, over the tail.
        slope = k / share * math.exp(-over_mass)
        closer = share - excess / slope
        if not low < closer < high:
            closer = (low + high) / 2
        if abs(closer - share) <= _PRECISION * share:
            return closer
        share = closer
    return low


def _log_mass(k: int, n: int, share: float) -> float:
    """Returns log P(exactly k of n)."""
    log_ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    log_successes = k * math.log(share)
    log_failures = (n - k) * math.log1p(-share)
    return log_ways + log_successes + log_failures


def _short(k: int, n: int) -> int:
    """How many terms the tail from k on takes while the share is at most k / n."""
    deviation = math.sqrt(k * (n - k) / n)
    return min(n - k, int(_SIGMAS * deviation) + 60)


def _log_steps(k: int, n: int, terms: int) -> NDArray[np.float64]:
    """The logarithm of (ways to have k + j) / (ways to have k), for j from 0 to `terms`."""
    after = np.arange(terms, dtype=np.float64)
    ratios = (n - k - after) / (k + 1 + after)
    return np.concatenate([[0.0], np.cumsum(np.log(ratios))])


def _log_tail_over_mass(steps: NDArray[np.float64], share: float) -> float:
    """Returns log(P(k or more) / P(k))."""
    log_odds = math.log(share) - math.log1p(-share)
    logs = steps + np.arange(len(steps)) * log_odds
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))
