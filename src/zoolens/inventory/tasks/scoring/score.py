"""What a metric returns: a number, or NaN with the reason why it is undefined; and how inputs are weighted.

An integer weight says how often an input counts. The score of weighted inputs is the score of a dataset that repeats
each input as often, which is what resampling draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Score:
    """`reason`: why the value is NaN; empty where it is a number."""

    value: float
    reason: str = ""

    @property
    def defined(self) -> bool:
        return not math.isnan(self.value)


@dataclass(frozen=True)
class MeanScore:
    """The mean over those classes or inputs that have a score. `used` of `total` have one."""

    value: float
    used: int
    total: int
    reason: str = ""

    @property
    def defined(self) -> bool:
        return not math.isnan(self.value)


def undefined(reason: str) -> Score:
    return Score(math.nan, reason)


def ratio(numerator: float, denominator: float, reason: str) -> Score:
    """`reason` applies where the denominator is zero."""
    return Score(float(numerator) / float(denominator)) if denominator else undefined(reason)


def mean_of_scores(scores: Sequence[Score]) -> MeanScore:
    """The unweighted mean of the defined scores, as macro averages take it over classes."""
    values = [score.value for score in scores if score.defined]
    if values:
        return MeanScore(math.fsum(values) / len(values), len(values), len(scores))
    reasons = [score.reason for score in scores]
    return MeanScore(math.nan, 0, len(scores), reasons[0] if reasons else "There are no classes.")


def weighted_mean(values: ArrayLike, weights: ArrayLike | None, reason: str) -> MeanScore:
    """The mean over inputs with a value; NaN marks those without. `reason` applies where no input has one."""
    numbers = np.asarray(values, np.float64)
    counts = checked_weights(weights, len(numbers))
    there = ~np.isnan(numbers)
    used, total = int(counts[there].sum()), int(counts.sum())
    if not used:
        return MeanScore(math.nan, 0, total, reason if total else "There are no inputs.")
    return MeanScore(float(numbers[there] @ counts[there]) / used, used, total)


def checked_weights(weights: ArrayLike | None, count: int) -> Integers:
    """How often each of `count` inputs counts: once where nothing is given."""
    if weights is None:
        return np.ones(count, np.int64)
    given = np.asarray(weights)
    if given.shape != (count,):
        raise ValueError(f"Weights must have the shape ({count},); got {given.shape}.")
    if given.dtype.kind not in "iu" or (given < 0).any():
        raise ValueError("Weights must be integers of at least 0.")
    return given.astype(np.int64)
