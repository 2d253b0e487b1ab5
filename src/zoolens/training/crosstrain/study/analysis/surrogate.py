"""A small Gaussian process over hyperparameters: what the trials say about settings that nobody ran.

Squared-exponential kernel with one length per hyperparameter, constant mean, noise. Lengths and noise maximise the
marginal likelihood (scikit-learn's `GaussianProcessRegressor`, from fixed starts). `r_squared` is out of sample: each
trial predicted from all others. A fit without it near 0 or below says nothing, whatever its curves look like.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency
from zoolens.training.crosstrain.study.analysis.information import TooFewTrials
from zoolens.training.crosstrain.study.analysis.scales import LARGEST, logarithmic

Matrix = NDArray[np.float64]

FEWEST: Final = 20
MOST: Final = 600  # trials that are fitted: time grows with the cube
MOST_LEARNT_FROM: Final = 240  # trials of which the likelihood is taken, many times
MOST_INPUTS: Final = 12
STARTS: Final = (0.3, 1.0)  # all lengths, as a share of the range
LENGTHS: Final = (0.03, 30.0)
NOISE: Final = (1e-6, 10.0)  # variance, as a share of the signal's


@dataclass(frozen=True)
class SurrogateInput:
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
    """A Gaussian process fitted to the trials of a study."""

    inputs: tuple[SurrogateInput, ...]
    columns: tuple[NDArray[Any], ...]
    target: Matrix
    mean: float
    lengths: tuple[float, ...]
    noise: float  # variance, as a share of the signal's
    scale: float  # variance of the signal
    weights: Matrix  # what each trial adds to a prediction
    inverse: Matrix
    similar: tuple[Matrix, ...]  # per input, the kernel between the fitted trials
    r_squared: float
    left_out: int  # trials without a target or without one of the hyperparameters, or beyond the most
    ignored: tuple[str, ...]  # hyperparameters that are no inputs

    @property
    def n(self) -> int:
        return len(self.target)

    def kernel(self, position: int, values: NDArray[Any]) -> Matrix:
        """Between values of one hyperparameter (rows) and the fitted trials (columns)."""
        given = self.inputs[position]
        return _bell(given.seen(values), given.seen(self.columns[position]), self.lengths[position])

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
        prediction: Matrix = self.mean + kernel @ self.weights
        return prediction


def fit(
    columns: Mapping[str, NDArray[Any]], target: Matrix, *, log: Collection[str] | None = None, seed: int = 0
) -> Surrogate:
    """Inputs are the hyperparameters that at least half of the trials have, up to the most; trials need all of them.
    `log`: those that are seen on a logarithmic scale; None: as their values suggest."""
    log = logarithmic(columns) if log is None else log
    given = {name: _present(column) for name, column in columns.items()}
    used = {name: columns[name] for name, present in given.items() if 2 * present.sum() >= len(present)}
    known = np.isfinite(target) & np.logical_and.reduce([np.ones(len(target), bool), *(given[name] for name in used)])
    rows = _sampled(used, target, np.flatnonzero(known), seed)
    if len(rows) < FEWEST:
        raise TooFewTrials("a surrogate, complete ones", len(rows), FEWEST)
    inputs = [_input(name, column[rows], name in log) for name, column in used.items()]
    varying = tuple(each for each in inputs if each.levels[1:] or each.low < each.high)[:MOST_INPUTS]
    kept = tuple(used[each.name][rows] for each in varying)
    ignored = tuple(name for name in columns if name not in {each.name for each in varying})
    return _fitted(varying, kept, target[rows], len(target) - len(rows), ignored, seed)


def _present(column: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(np.abs(column) < LARGEST if column.dtype.kind == "f" else column != "")


def _sampled(columns: Mapping[str, NDArray[Any]], target: Matrix, rows: NDArray[Any], seed: int) -> NDArray[Any]:
    """Returns the trials in an order of their own, so that their order in the study does not matter; a seeded share
    where there are many."""
    keys = [column[rows] for column in columns.values()]
    ordered = rows[np.lexsort((target[rows], *keys))]
    if len(ordered) <= MOST:
        return ordered
    return ordered[np.sort(np.random.default_rng(seed).choice(len(ordered), MOST, replace=False))]


def _input(name: str, column: NDArray[Any], log: bool) -> SurrogateInput:
    if column.dtype.kind != "f":
        return SurrogateInput(name, levels=tuple(str(level) for level in np.unique(column)))
    return SurrogateInput(name, float(column.min()), float(column.max()), log)


def _fitted(
    inputs: tuple[SurrogateInput, ...],
    columns: tuple[NDArray[Any], ...],
    target: Matrix,
    left_out: int,
    ignored: tuple[str, ...],
    seed: int,
) -> Surrogate:
    mean = float(target.mean())
    centred = target - mean if np.ptp(target) > 0 else np.zeros(len(target))  # no rounding to explain
    seen = [given.seen(column) for given, column in zip(inputs, columns, strict=True)]
    lengths, noise = _learnt(seen, centred, seed) if inputs and centred.any() else ((1.0,) * len(inputs), NOISE[1])
    similar = tuple(_bell(places, places, length) for places, length in zip(seen, lengths, strict=True))
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


def _learnt(seen: Sequence[Matrix], centred: Matrix, seed: int) -> tuple[tuple[float, ...], float]:
    """The length of each input and the noise, as they make the trials most likely. Of many trials a seeded random draw
    is asked: every second trial of a sorted grid could have only one of the two levels of an input."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    except ImportError as error:
        raise MissingDependency("Fitting a surrogate", "scikit-learn", "reports") from error

    class SharedLengths(RBF):  # type: ignore[misc]
        """A text has a column for each of its levels, and one length for all of them."""

        def __init__(
            self, widths: tuple[int, ...], length_scale: Any = 1.0, length_scale_bounds: Any = LENGTHS
        ) -> None:
            super().__init__(length_scale, length_scale_bounds)
            self.widths = widths

        def __call__(self, X: Matrix, Y: Matrix | None = None, eval_gradient: bool = False) -> Any:  # noqa: N803
            each = RBF(np.repeat(np.atleast_1d(self.length_scale), self.widths))
            if not eval_gradient:
                return each(X, Y)
            kernel, gradient = each(X, Y, eval_gradient=True)
            return kernel, np.add.reduceat(gradient, np.cumsum((0, *self.widths[:-1])), axis=2)

    widths = tuple(places.shape[1] for places in seen)
    drawn = np.sort(np.random.default_rng(seed).permutation(len(centred))[:MOST_LEARNT_FROM])
    settings, scaled = np.concatenate(seen, axis=1)[drawn], centred[drawn] / centred.std()
    fits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound is an answer
        for start in STARTS:
            shape = SharedLengths(widths, np.full(len(widths), start))
            kernel = ConstantKernel(1.0, (1e-3, 1e3)) * shape + WhiteKernel(0.1, NOISE)
            fits.append(GaussianProcessRegressor(kernel, alpha=1e-10).fit(settings, scaled))
    best = max(fits, key=lambda fit: float(fit.log_marginal_likelihood_value_)).kernel_
    noise = float(np.clip(best.k2.noise_level / best.k1.k1.constant_value, *NOISE))
    return tuple(float(length) for length in np.atleast_1d(best.k1.k2.length_scale)), noise


def _bell(a: Matrix, b: Matrix, length: float) -> Matrix:
    squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)
    kernel: Matrix = np.exp(-0.5 * squares / length**2)
    return kernel
