"""Bounds on the mean of paired differences that hold at every moment: one may look, and stop, at any time.

A difference is what one input says about two models: 1 where only B is correct, −1 where only A is, 0 where both or
neither are; any number from −1 to 1 will do. On the same inputs only the disagreements are noise, which is why such a
bound is far narrower than the difference of two bounds.

"betting" (Waudby-Smith and Ramdas 2024): for every mean m that might be the true one, a gambler stakes a part of his
capital that the next difference lies above m. If m is true, his capital rarely ever grows twentyfold (Ville): a mean
against which it did is refuted. "bernstein" is their predictable empirical-Bernstein sequence, which has a closed form.
Stakes follow the variance seen before, never the input they are placed on.

A `horizon` is the number of inputs planned: stakes are set so that the bound is narrowest there. It is valid before and
beyond. It must be chosen before looking; whoever stopped early passes what was planned, not where he stopped.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import CONFIDENCE, Interval, wilson

Method = Literal["betting", "bernstein"]
Floats = NDArray[np.float64]

_STAKE: Final = 0.75  # of what may be lost at most, so that no single input ruins a gambler
_PRIOR_VARIANCE: Final = 0.25  # that of 25 % disagreement, counted as _PRIOR_WEIGHT inputs
_PRIOR_WEIGHT: Final = 4
_HALVINGS: Final = 24  # the bracket ends below 1e-6; its outer end is what is returned
_BLOCK: Final = 1 << 21  # numbers worked on at once
_GRID: Final = np.linspace(-1.0, 1.0, 2001)  # means that `StreamingBound` tries
_MOST_STAKED: Final = _STAKE / np.maximum(1 + _GRID, 1e-12)  # against each of them


def paired_interval(
    differences: NDArray[Any], alpha: float, method: Method = "betting", *, horizon: int | None = None, seed: int = 0
) -> Interval:
    """Returns both ends of an interval for the mean of differences of two models, with confidence 1 − alpha.

    Differences are put in a random order (seeded) first: files are often sorted by class. `horizon` is by default the
    number of differences, which is right where they are all of a dataset whose size was known beforehand.
    """
    return Interval(
        paired_lower(differences, alpha / 2, method, horizon=horizon, seed=seed),
        paired_upper(differences, alpha / 2, method, horizon=horizon, seed=seed),
    )


def paired_lower(
    differences: NDArray[Any], alpha: float, method: Method = "betting", *, horizon: int | None = None, seed: int = 0
) -> float:
    """The mean difference is at least this, with confidence 1 − alpha."""
    return float(paired_lowers(np.asarray(differences)[None], alpha, method, horizon=horizon, seed=seed)[0])


def paired_upper(
    differences: NDArray[Any], alpha: float, method: Method = "betting", *, horizon: int | None = None, seed: int = 0
) -> float:
    """The mean difference is at most this, with confidence 1 − alpha."""
    return -paired_lower(-np.asarray(differences, np.float64), alpha, method, horizon=horizon, seed=seed)


def paired_lowers(
    differences: NDArray[Any], alpha: float, method: Method = "betting", *, horizon: int | None = None, seed: int = 0
) -> Floats:
    """The lower bound of each row (candidates × inputs), each with confidence 1 − alpha by itself."""
    count = np.shape(differences)[1]
    # Files are often sorted by class, and the bound is for inputs that are drawn one by one. Seeded, so that it is
    # repeatable.
    order = np.random.default_rng(seed).permutation(count)
    return lowers_in_order(np.asarray(differences)[:, order], alpha, method, horizon or count)


def bounded_mean(values: NDArray[Any], largest: float, alpha: float) -> Interval:
    """Returns both ends of an interval for the mean of numbers from 0 to `largest`, with confidence 1 − alpha. It needs
    no spread in the values: a hundred equal ones may still be followed by another."""
    between = np.clip(2 * np.asarray(values, np.float64) / largest - 1, -1.0, 1.0)
    low, high = paired_interval(between, alpha)
    return Interval((1 + low) / 2 * largest, (1 + high) / 2 * largest)


def bounded_mean_lower(values: NDArray[Any], alpha: float) -> float:
    """The mean of numbers from 0 to 1 is at least this, with confidence 1 − alpha."""
    return (1 + paired_lower(2 * np.asarray(values, np.float64) - 1, alpha)) / 2


def is_all_or_nothing(shares: NDArray[Any]) -> bool:
    return bool(((shares == 0) | (shares == 1)).all())


def share_interval(shares: NDArray[Any], confidence: float = CONFIDENCE) -> tuple[Interval, str]:
    """The interval of a mean of numbers from 0 to 1, and the name of its method: Wilson's for counts, else that of any
    bounded mean."""
    if is_all_or_nothing(shares):
        return wilson(int(np.count_nonzero(shares)), len(shares), confidence), "wilson"
    return bounded_mean(shares, 1.0, 1 - confidence), "betting"


class RunningBound:
    """A bound that is asked for while inputs still come in, and may be believed at whichever moment one stops.

    Inputs must come in random order. Without a horizon the stakes shrink forever, which suits an open end.
    """

    def __init__(self, alpha: float, method: Method = "betting", *, horizon: int | None = None) -> None:
        self.alpha = alpha
        self.method: Method = method
        self.horizon = horizon
        self._seen: list[Floats] = []

    def update(self, differences: NDArray[Any]) -> None:
        self._seen.append(np.asarray(differences, np.float64).reshape(-1))

    @property
    def differences(self) -> Floats:
        return np.concatenate([np.empty(0), *self._seen])

    def __len__(self) -> int:
        return sum(map(len, self._seen))

    @property
    def interval(self) -> Interval:
        """The bound from all inputs so far; it never widens."""
        rows = self.differences[None]
        low, mirrored = (
            lowers_in_order(sign * rows, self.alpha / 2, self.method, self.horizon) for sign in (1.0, -1.0)
        )
        return Interval(float(low[0]), float(-mirrored[0]))


class StreamingBound:
    """A bound like `RunningBound` with "betting" and an open end, at the same cost for each input however many came
    before it.

    Only means on a grid are tried, and what was seen is not kept: each end lies up to 0.001 further out.
    """

    def __init__(self, alpha: float) -> None:
        if not 0 < alpha < 1:
            raise ValueError(f"alpha is {alpha}: it must lie between 0 and 1.")
        self.n = 0
        self._log_odds = math.log(2 / alpha)  # each end has half of alpha
        self._capital = np.zeros((2, len(_GRID)))  # its logarithm; bets that the mean is higher, and that it is lower
        self._refuted = np.zeros((2, len(_GRID)), np.bool_)
        self._first = [0, 0]  # the smallest mean on the grid that is not refuted, in either direction
        self._sum = 0.0
        self._squares = 0.0

    def update(self, differences: NDArray[Any]) -> None:
        values = np.asarray(differences, np.float64).reshape(-1)
        if values.size and not np.abs(values).max() <= 1:
            raise ValueError("A paired difference lies between −1 and 1.")
        for value in values.tolist():
            self._bet(value)

    @property
    def mean(self) -> float:
        return self._sum / self.n if self.n else 0.0

    @property
    def interval(self) -> Interval:
        """The bound from all inputs so far. It contains their mean, even where that has left what was not refuted."""
        if not self.n:
            return Interval(-1.0, 1.0)
        low, mirrored = (float(_GRID[max(0, first - 1)]) for first in self._first)
        return Interval(min(low, self.mean), max(-mirrored, self.mean))

    def _bet(self, value: float) -> None:
        variance = (self._squares + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / (_PRIOR_WEIGHT + self.n)
        self._squares += (value - self._sum / (self.n + 1)) ** 2
        self._sum += value
        self.n += 1
        stake = math.sqrt(2 * self._log_odds / (math.log1p(self.n) * self.n * variance))
        for side, gain in enumerate((value, -value)):
            left = slice(self._first[side], None)
            capital = self._capital[side, left]
            capital += np.log1p(np.minimum(stake, _MOST_STAKED[left]) * (gain - _GRID[left]))
            refuted = self._refuted[side, left]
            refuted |= capital >= self._log_odds
            if refuted[0]:
                self._first[side] += int(np.argmin(refuted)) if not refuted.all() else len(refuted) - 1


def lowers_in_order(differences: NDArray[Any], alpha: float, method: Method, horizon: int | None) -> Floats:
    """Returns what `paired_lowers` does for rows whose order is random already; without a horizon where it is None."""
    rows = np.asarray(differences, np.float64)
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}: it must lie between 0 and 1.")
    if rows.size and not np.abs(rows).max() <= 1:
        raise ValueError("A paired difference lies between −1 and 1.")
    if not rows.size:
        return np.full(len(rows), -1.0)
    bound = {"betting": _betting, "bernstein": _bernstein}[method]
    size = max(1, _BLOCK // rows.shape[1])
    pieces = [bound(rows[at : at + size], alpha, horizon) for at in range(0, len(rows), size)]
    return np.concatenate(pieces)


def _betting(rows: Floats, alpha: float, horizon: int | None) -> Floats:
    """The largest mean that was refuted at some moment: capital falls with m, so halving a bracket finds it."""
    stakes = _stakes(rows, alpha, horizon)
    low = np.full(len(rows), -1.0)
    high = np.maximum(low, rows.mean(axis=1))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        refuted = _best_capital(rows, stakes, middle) >= math.log(1 / alpha)
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def _best_capital(rows: Floats, stakes: Floats, mean: Floats) -> Floats:
    """The logarithm of the most that each gambler ever had, betting against one mean for each row."""
    most = (_STAKE / np.maximum(1 + mean, 1e-12))[:, None]
    gains = np.minimum(stakes, most)
    gains *= rows - mean[:, None]
    np.log1p(gains, out=gains)
    # The maximum over time may be used: the capital of a fair bet ever reaches 1/alpha with probability alpha at most
    # (Ville), so that whoever stops when the bound looks best still has the confidence.
    return np.asarray(np.cumsum(gains, axis=1, out=gains).max(axis=1))


def _bernstein(rows: Floats, alpha: float, horizon: int | None) -> Floats:
    """Computes the bound on differences moved to 0…1, as the sequence is stated; the maximum over time."""
    shares = (rows + 1) / 2
    stakes = np.minimum(2 * _stakes(rows, alpha, horizon), _STAKE)
    surprise = (shares - _means_before(shares, 0.5)) ** 2
    total = np.cumsum(stakes, axis=1)
    penalty = math.log(1 / alpha) + np.cumsum(surprise * (-np.log1p(-stakes) - stakes), axis=1)
    bounds = (np.cumsum(stakes * shares, axis=1) - penalty) / total
    highest = bounds.max(axis=1)
    means = np.maximum(-1.0, rows.mean(axis=1))
    return np.asarray(np.clip(2 * highest - 1, -1.0, means))


def _stakes(rows: Floats, alpha: float, horizon: int | None) -> Floats:
    """The stake that would be best for the variance seen so far, were it to be held until the horizon."""
    count = rows.shape[1]
    if horizon is None:
        inputs = np.arange(1, count + 1)
        length = np.log1p(inputs) * inputs
    else:
        length = np.full(count, float(max(1, horizon)))
    # The variance of the inputs before, never of this one: a stake that knows the outcome is no fair bet.
    squared = 2 * math.log(1 / alpha) / (length * _variances_before(rows))
    return np.asarray(np.sqrt(squared))


def _means_before(rows: Floats, prior: float) -> Floats:
    """The mean of all earlier inputs and one of value `prior`."""
    before = np.cumsum(rows, axis=1) - rows
    return np.asarray((before + prior) / np.arange(1, rows.shape[1] + 1))


def _variances_before(rows: Floats) -> Floats:
    squares = (rows - _means_before(rows, 0.0)) ** 2
    before = np.cumsum(squares, axis=1) - squares
    weight = _PRIOR_WEIGHT + np.arange(rows.shape[1])
    return np.asarray((np.maximum(before, 0.0) + _PRIOR_WEIGHT * _PRIOR_VARIANCE) / weight)
