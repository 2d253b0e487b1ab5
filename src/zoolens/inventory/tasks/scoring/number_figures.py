"""Errors and correlations of many weightings of the same numbers at once, as resampling needs them.

They equal the functions of `rank_correlation.py`, which take one weighting at a time. A figure is NaN where it is not
defined: R² of equal true numbers, a correlation of equal numbers, everything where a number is NaN or infinite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.rank_correlation import PairedNumbers
from zoolens.inventory.tasks.scoring.score import Floats, Integers

ERRORS = 3  # columns of `error_figures`: mean absolute error, root mean squared error, R²


def error_figures(pairs: PairedNumbers, weights: NDArray[np.int64]) -> Floats:
    """MAE, RMSE and R² of each weighting: weightings × 3."""
    if pairs.unknown:
        return np.full((len(weights), ERRORS), np.nan)
    counts = weights.sum(axis=1)
    with np.errstate(all="ignore"):
        errors = pairs.predicted - pairs.true
        # Divided by the largest first, so that no square overflows or vanishes.
        unit = _unit(errors)
        absolute = weights @ np.abs(errors / unit) / counts * unit
        squared = weights @ (errors / unit) ** 2
        spread = _spread(pairs.true, weights, unit)
        return _finite(np.stack([absolute, np.sqrt(squared / counts) * unit, 1 - squared / spread], axis=1))


def correlation_figures(pairs: PairedNumbers, weights: NDArray[np.int64]) -> Floats:
    """Spearman's and Pearson's correlation of each weighting: weightings × 2."""
    if pairs.unknown:
        return np.full((len(weights), 2), np.nan)
    ranks, true_ranks = (_centred_ranks(places, weights) for places in (pairs.predicted_place, pairs.true_place))
    values, true_values = (_centred(numbers / _unit(numbers), weights) for numbers in (pairs.predicted, pairs.true))
    constant = _is_constant(pairs.predicted_place, weights) | _is_constant(pairs.true_place, weights)
    both = np.stack([_correlation(ranks, true_ranks, weights), _correlation(values, true_values, weights)], axis=1)
    both[constant] = np.nan
    return _finite(both)


def _unit(numbers: Floats) -> float:
    return float(np.abs(numbers).max(initial=0.0)) or 1.0


def _spread(true: Floats, weights: NDArray[np.int64], unit: float) -> Floats:
    """The sum of squared deviations from the mean of each weighting, in squared units; NaN where all numbers are
    equal."""
    deviations = true - true.mean()
    own_unit = _unit(deviations)
    numbers = deviations / own_unit
    counts = weights.sum(axis=1)
    total = weights @ numbers**2 - (weights @ numbers) ** 2 / counts
    total[_is_constant(true, weights)] = np.nan
    return np.asarray(total * (own_unit / unit) ** 2)


def _is_constant(numbers: NDArray[np.generic], weights: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Compared, not computed: the spread of equal numbers may differ from 0 by rounding."""
    if not len(numbers):
        return np.ones(len(weights), np.bool_)
    first = numbers[(weights > 0).argmax(axis=1)]
    return np.asarray(~((weights > 0) & (numbers[None] != first[:, None])).any(axis=1))


def _centred_ranks(places: Integers, weights: NDArray[np.int64]) -> Floats:
    """Ranks less their mean. Inputs of the same place share the mean of the ranks that they take."""
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(places.max(initial=-1) + 1))
    groups = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(groups, axis=1) - (groups - 1) / 2
    middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
    return np.asarray((ranks - middle)[:, places])


def _centred(numbers: Floats, weights: NDArray[np.int64]) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(numbers - (weights @ numbers / weights.sum(axis=1))[:, None])


def _correlation(a: Floats, b: Floats, weights: NDArray[np.int64]) -> Floats:
    with np.errstate(all="ignore"):
        products, ours, theirs = ((weights * x * y).sum(axis=1) for x, y in ((a, b), (a, a), (b, b)))
        # Rounding may exceed the limits by a few units in the last place.
        return np.asarray(np.clip(products / np.sqrt(ours * theirs), -1, 1))


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)
