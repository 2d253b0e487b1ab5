"""Numbers against true numbers: Spearman's and Pearson's correlation, mean absolute error, R².

An integer weight repeats an input, also in the ranks: those of tied inputs are the mean of the places they take.
Where a number is NaN or infinite, all are undefined; leaving such inputs out would flatter a model that fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.score import Floats, Integers, Score, checked_weights, undefined


@dataclass(frozen=True)
class PairedNumbers:
    """Predicted and true number of each input. `predicted_place`, `true_place`: the place of each number among the
    distinct ones, in ascending order. `unknown`: inputs of which a number is NaN or infinite."""

    predicted: Floats
    true: Floats
    predicted_place: Integers
    true_place: Integers
    unknown: int


def pair_numbers(predicted: NDArray[np.floating], true: NDArray[np.floating]) -> PairedNumbers:
    """Sorts both rows once for all weightings."""
    if predicted.ndim != 1 or predicted.shape != true.shape:
        raise ZoolensError(
            f"Predicted and true numbers must be rows of one length; got {predicted.shape} and {true.shape}."
        )
    ours, theirs = predicted.astype(np.float64), true.astype(np.float64)
    unknown = int((~(np.isfinite(ours) & np.isfinite(theirs))).sum())
    return PairedNumbers(ours, theirs, _places(ours), _places(theirs), unknown)


def _places(values: Floats) -> Integers:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def spearman(pairs: PairedNumbers, weights: ArrayLike | None = None) -> Score:
    """Pearson's correlation of the ranks."""
    counts = checked_weights(weights, len(pairs.true))
    if failed := _failure(pairs, counts):
        return undefined(failed)
    return _correlation(_ranks(pairs.predicted_place, counts), _ranks(pairs.true_place, counts), counts)


def _ranks(places: Integers, counts: Integers) -> Floats:
    groups = np.bincount(places, counts)
    before = np.cumsum(groups) - groups
    return np.asarray(before + (groups + 1) / 2)[places]


def pearson(pairs: PairedNumbers, weights: ArrayLike | None = None) -> Score:
    counts = checked_weights(weights, len(pairs.true))
    if failed := _failure(pairs, counts):
        return undefined(failed)
    return _correlation(pairs.predicted, pairs.true, counts)


def mean_absolute_error(pairs: PairedNumbers, weights: ArrayLike | None = None) -> Score:
    counts = checked_weights(weights, len(pairs.true))
    if failed := _failure(pairs, counts):
        return undefined(failed)
    with np.errstate(over="ignore"):
        total = float(counts @ np.abs(pairs.predicted - pairs.true))
    return _finite(total / int(counts.sum()))


def r_squared(pairs: PairedNumbers, weights: ArrayLike | None = None) -> Score:
    """Coefficient of determination: 1 − squared errors / squared deviations from the true mean. It may be negative."""
    counts = checked_weights(weights, len(pairs.true))
    if failed := _failure(pairs, counts):
        return undefined(failed)
    if _is_constant(pairs.true, counts):
        return undefined("All true numbers are equal.")
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = _centred(pairs.true, counts)
        # Both are divided by the largest deviation first, so that no square overflows or vanishes needlessly.
        scale = np.abs(deviations[counts > 0]).max()
        errors = counts @ ((pairs.predicted - pairs.true) / scale) ** 2
        return _finite(1 - float(errors) / float(counts @ (deviations / scale) ** 2))


def _failure(pairs: PairedNumbers, counts: Integers) -> str:
    if pairs.unknown:
        return f"A number is NaN or infinite for {pairs.unknown} of {len(pairs.true)} inputs."
    return "" if counts.any() else "There are no inputs."


def _correlation(predicted: Floats, true: Floats, counts: Integers) -> Score:
    for values, which in ((predicted, "predicted"), (true, "true")):
        if _is_constant(values, counts):
            return undefined(f"All {which} numbers are equal.")
    with np.errstate(over="ignore", invalid="ignore"):
        ours, theirs = (_unit(_centred(values, counts), counts) for values in (predicted, true))
        # Rounding may exceed the limits by a few units in the last place.
        return _finite(float(np.clip(counts @ (ours * theirs), -1, 1)))


def _finite(value: float) -> Score:
    return Score(value) if math.isfinite(value) else undefined("The numbers are too large to be added up.")


def _is_constant(values: Floats, counts: Integers) -> bool:
    # Compared before means are taken: the mean of equal numbers may differ from them by rounding.
    there = values[counts > 0]
    return bool((there == there[0]).all())


def _centred(values: Floats, counts: Integers) -> Floats:
    return np.asarray(values - (counts @ values) / counts.sum())


def _unit(values: Floats, counts: Integers) -> Floats:
    # Divided by the largest first, so that no square overflows or vanishes.
    scaled = values / np.abs(values[counts > 0]).max()
    return np.asarray(scaled / np.sqrt(counts @ scaled**2))
