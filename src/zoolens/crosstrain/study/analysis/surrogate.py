"""A small Gaussian process over hyperparameters: what the trials say about settings that nobody ran.

Squared-exponential kernel with one length per hyperparameter, constant mean, noise; lengths and noise maximise the
marginal likelihood (coordinate search from fixed starts). `r_squared` is out of sample: each trial predicted from all
others. A fit without it near 0 or below says nothing, whatever its curves look like.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.study.analysis.information import TooFewTrials
from zoolens.crosstrain.study.analysis.scales import LARGEST, logarithmic

Matrix = NDArray[np.float64]
Block = tuple[Sequence[Matrix], Matrix]  # squared distances per input, centred target

FEWEST: Final = 20
MOST: Final = 600  # trials that are fitted: time grows with the cube
TOGETHER: Final = 120  # trials of which the likelihood is taken at once: threads of BLAS do not pay off below
MOST_INPUTS: Final = 12
STARTS: Final = (-1.2, 0.0)  # ln of all lengths, as a share of the range
NOISE: Final = (np.log(1e-6), np.log(10.0))
LENGTHS: Final = (np.log(0.03), np.log(30.0))
STEPS: Final = (1.2, 0.5, 0.2)  # of the search, in ln
SWEEPS: Final = 4


@dataclass(frozen=True)
class Input:
    """One hyperparameter as the kernel sees it: numbers on 0 … 1 (of their logarithm where `log`), texts as levels."""

    name: str
    low: float = 0.0
    high: float = 1.0
    log: bool = False
    levels: tuple[str, ...] = ()

    def seen(self, values: NDArray[Any]) -> Matrix:
        """One row per value; two different levels are as far apart as the two ends of a range."""
        if self.levels:
            same = values[:, None] == np.array(self.levels)[None, :]
            return np.where(same, np.sqrt(0.5), 0.0)
        numbers = np.asarray(values, np.float64)
        low, high = (np.log(self.low), np.log(self.high)) if self.log else (self.low, self.high)
        scaled = ((np.log(numbers) if self.log else numbers) - low) / (high - low)
        return scaled[:, None]

    def grid(self, points: int) -> NDArray[Any]:
        if self.levels:
            return np.array(self.levels)
        if self.log:
            return np.geomspace(self.low, self.high, points)
        return np.linspace(self.low, self.high, points)


@dataclass(frozen=True)
class Surrogate:
    """`similar`: per input, the kernel between the fitted trials; `weights`: what each trial adds to a prediction."""

    inputs: tuple[Input, ...]
    columns: tuple[NDArray[Any], ...]
    target: Matrix
    mean: float
    lengths: tuple[float, ...]
    noise: float  # variance, as a share of the signal's
    scale: float  # variance of the signal
    weights: Matrix
    inverse: Matrix
    similar: tuple[Matrix, ...]
    r_squared: float
    left_out: int  # trials without a target or without one of the hyperparameters, or beyond the most
    ignored: tuple[str, ...]  # hyperparameters that are no inputs

    @property
    def n(self) -> int:
        return len(self.target)

    def kernel(self, position: int, values: NDArray[Any]) -> Matrix:
        """Between values of one hyperparameter (rows) and the fitted trials (columns)."""
        one = self.inputs[position]
        return _bell(_squares(one.seen(values), one.seen(self.columns[position])), self.lengths[position])

    def others(self, *positions: int) -> Matrix:
        """The kernel between the fitted trials of all hyperparameters but these."""
        total = np.ones((self.n, self.n))
        for position, part in enumerate(self.similar):
            if position not in positions:
                total = total * part
        return total

    def predict(self, *values: NDArray[Any]) -> Matrix:
        kernel = np.ones((len(values[0]), self.n))
        for position, column in enumerate(values):
            kernel = kernel * self.kernel(position, column)
        found: Matrix = self.mean + kernel @ self.weights
        return found


def fit(
    columns: Mapping[str, NDArray[Any]], target: Matrix, *, log: Collection[str] | None = None, seed: int = 0
) -> Surrogate:
    """Inputs are the hyperparameters that at least half of the trials have, up to the most; trials need all of them.
    `log`: those that are seen on a logarithmic scale; None: as their values suggest."""
    log = logarithmic(columns) if log is None else log
    given = {name: _present(column) for name, column in columns.items()}
    used = {name: columns[name] for name, one in given.items() if 2 * one.sum() >= len(one)}
    known = np.isfinite(target) & np.logical_and.reduce([np.ones(len(target), bool), *(given[name] for name in used)])
    rows = _sampled(used, target, np.flatnonzero(known), seed)
    if len(rows) < FEWEST:
        raise TooFewTrials("a surrogate, complete ones", len(rows), FEWEST)
    inputs = [_input(name, column[rows], name in log) for name, column in used.items()]
    varying = tuple(one for one in inputs if one.levels[1:] or one.low < one.high)[:MOST_INPUTS]
    kept = tuple(used[one.name][rows] for one in varying)
    ignored = tuple(name for name in columns if name not in {one.name for one in varying})
    return _fitted(varying, kept, target[rows], len(target) - len(rows), ignored)


def _present(column: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.abs(column) < LARGEST if column.dtype.kind == "f" else column != "")


def _sampled(columns: Mapping[str, NDArray[Any]], target: Matrix, rows: NDArray[Any], seed: int) -> NDArray[Any]:
    """In an order of their own, so that the order of the trials is nothing; a seeded share where there are many."""
    keys = [column[rows] for column in columns.values()]
    ordered = rows[np.lexsort((target[rows], *keys))]
    if len(ordered) <= MOST:
        return ordered
    return ordered[np.sort(np.random.default_rng(seed).choice(len(ordered), MOST, replace=False))]


def _input(name: str, column: NDArray[Any], log: bool) -> Input:
    if column.dtype.kind != "f":
        return Input(name, levels=tuple(str(one) for one in np.unique(column)))
    return Input(name, float(column.min()), float(column.max()), log)


def _fitted(
    inputs: tuple[Input, ...],
    columns: tuple[NDArray[Any], ...],
    target: Matrix,
    left_out: int,
    ignored: tuple[str, ...],
) -> Surrogate:
    mean = float(target.mean())
    centred = target - mean if np.ptp(target) > 0 else np.zeros(len(target))  # no rounding to explain
    apart = [_squares(one.seen(column), one.seen(column)) for one, column in zip(inputs, columns, strict=True)]
    settings = _best(_blocks(apart, centred))
    lengths, noise = tuple(float(one) for one in np.exp(settings[:-1])), float(np.exp(settings[-1]))
    similar = tuple(_bell(one, length) for one, length in zip(apart, lengths, strict=True))
    kernel = np.prod(similar, axis=0) if similar else np.ones((len(target), len(target)))
    inverse = np.linalg.inv(kernel + noise * np.eye(len(target)))
    weights = inverse @ centred
    scale = float(centred @ weights / len(target))
    missed = weights / np.diag(inverse)  # a trial's value less what the others predict for it
    spread = float(centred @ centred)
    r_squared = 1 - float(missed @ missed) / spread if spread > 0 else 0.0
    return Surrogate(
        inputs, columns, target, mean, lengths, noise, scale, weights, inverse, similar, r_squared, left_out, ignored
    )


def _blocks(apart: Sequence[Matrix], centred: Matrix) -> list[Block]:
    """The trials dealt into blocks, whose likelihoods are multiplied as if they were independent (a composite
    likelihood): all trials count, at a small share of the cost."""
    count = -(-len(centred) // TOGETHER)
    dealt = [np.arange(first, len(centred), count) for first in range(count)]
    return [([part[np.ix_(rows, rows)] for part in apart], centred[rows]) for rows in dealt]


def _best(blocks: Sequence[Block]) -> Matrix:
    """ln of the lengths and of the noise."""
    inputs = len(blocks[0][0])
    low = np.array([LENGTHS[0]] * inputs + [NOISE[0]])
    high = np.array([LENGTHS[1]] * inputs + [NOISE[1]])
    best, most = low, -np.inf
    for start in STARTS:
        place = np.array([start] * inputs + [-2.0])
        value = _likelihood(place, blocks)
        for step in STEPS:
            place, value = _climbed(place, value, step, low, high, blocks)
        if value > most:
            best, most = place, value
    return best


def _climbed(
    place: Matrix, value: float, step: float, low: Matrix, high: Matrix, blocks: Sequence[Block]
) -> tuple[Matrix, float]:
    for _ in range(SWEEPS):
        before = value
        for position in range(len(place)):
            for direction in (step, -step):
                tried = place.copy()
                tried[position] = np.clip(tried[position] + direction, low[position], high[position])
                found = _likelihood(tried, blocks)
                if found > value:
                    place, value = tried, found
                    break
        if value <= before:
            break
    return place, value


def _likelihood(settings: Matrix, blocks: Sequence[Block]) -> float:
    """Log marginal likelihood with the signal's variance at its best, up to a constant."""
    parts = [_whitened(settings, apart, centred) for apart, centred in blocks]
    n = sum(len(centred) for _, centred in blocks)
    variance = max(sum(squares for squares, _ in parts) / n, 1e-300)
    return float(-0.5 * n * np.log(variance) - sum(logs for _, logs in parts))


def _whitened(settings: Matrix, apart: Sequence[Matrix], centred: Matrix) -> tuple[float, float]:
    """(centred · K⁻¹ · centred, half the log determinant of K)"""
    n, noise = len(centred), float(np.exp(settings[-1]))
    exponent = np.zeros((n, n))
    for part, setting in zip(apart, settings, strict=False):
        exponent -= part * (0.5 * np.exp(-2 * setting))
    bordered = np.empty((n + 1, n + 1))  # the factor's last row is then what a triangular solver would give
    bordered[:n, :n] = np.exp(exponent) + noise * np.eye(n)
    bordered[n, :n] = bordered[:n, n] = centred
    bordered[n, n] = 2 * centred @ centred / noise + 1
    lower = np.linalg.cholesky(bordered)
    return float(lower[n, :n] @ lower[n, :n]), float(np.log(np.diag(lower)[:n]).sum())


def _squares(a: Matrix, b: Matrix) -> Matrix:
    found: Matrix = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    return found


def _bell(squares: Matrix, length: float) -> Matrix:
    found: Matrix = np.exp(-0.5 * squares / length**2)
    return found
