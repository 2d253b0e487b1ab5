"""Average precision, area under the ROC curve and equal error rate of scores that should rank true above false.

Inputs are sorted once; then every weighting costs a few sums, so that thousands of resamplings are affordable.
Equal scores are one threshold, as in scikit-learn: an order inside a tie would be an order of the dataset's rows.
Scores of −∞ and ∞ are ranked as any others; where a score is NaN, there is no ranking and everything is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.score import Flags, Floats, Integers, Score, checked_weights, undefined


@dataclass(frozen=True)
class RankedScores:
    """`order`: places of the inputs by descending score. `ties`: where in this order each distinct score begins.
    `true`: in this order. `unknown`: inputs whose score is NaN."""

    order: Integers
    ties: Integers
    true: Flags
    unknown: int


def rank_scores(scores: NDArray[np.floating], true: NDArray[np.bool_]) -> RankedScores:
    """Sorts the inputs of one class. `true`: inputs that belong to the class."""
    if scores.ndim != 1 or scores.shape != true.shape:
        raise ZoolensError(f"Scores and labels must be rows of one length; got {scores.shape} and {true.shape}.")
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    sorted_scores = scores[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = sorted_scores[1:] != sorted_scores[:-1]
    unknown = int(np.isnan(scores).sum())
    return RankedScores(order, np.flatnonzero(begins), true[order].astype(np.bool_), unknown)


@dataclass(frozen=True)
class _Curve:
    """True and false inputs at or above each threshold, which descends."""

    true: Integers
    false: Integers


def average_precision(ranked: RankedScores, weights: ArrayLike | None = None) -> Score:
    """Mean precision over the true inputs, each at its own threshold, without interpolation."""
    curve = _curve(ranked, weights)
    if isinstance(curve, Score):
        return curve
    if not curve.true[-1]:
        return undefined("No input belongs to the class.")
    gained = np.diff(curve.true, prepend=0)
    # Without an input at or above a threshold nothing is gained there.
    precision = curve.true / np.maximum(curve.true + curve.false, 1)
    return Score(float(gained @ precision) / int(curve.true[-1]))


def roc_auc(ranked: RankedScores, weights: ArrayLike | None = None) -> Score:
    """Share of pairs of a true and a false input that are ranked rightly; a tie counts one half."""
    curve = _both_kinds(ranked, weights)
    if isinstance(curve, Score):
        return curve
    false_here = np.diff(curve.false, prepend=0)
    true_above = np.concatenate([[0], curve.true[:-1]])
    # Twice the area in exact integers, up to 2⁶³; beyond, Python's own would be needed.
    doubled = float((false_here * (true_above + curve.true)).sum())
    return Score(doubled / 2 / int(curve.true[-1]) / int(curve.false[-1]))


def equal_error_rate(ranked: RankedScores, weights: ArrayLike | None = None) -> Score:
    """Where the ROC curve, linear between thresholds, has as many false acceptances as false rejections (in shares)."""
    curve = _both_kinds(ranked, weights)
    if isinstance(curve, Score):
        return curve
    accepted = _shares(curve.false)
    rejected = 1 - _shares(curve.true)
    gap = accepted - rejected
    after = int(np.argmax(gap >= 0))
    before = after - 1
    part = -gap[before] / (gap[after] - gap[before])
    return Score(float(accepted[before] + part * (accepted[after] - accepted[before])))


def _shares(counts: Integers) -> Floats:
    return np.concatenate([[0.0], counts / counts[-1]])


def _both_kinds(ranked: RankedScores, weights: ArrayLike | None) -> _Curve | Score:
    curve = _curve(ranked, weights)
    if isinstance(curve, Score):
        return curve
    if not curve.true[-1]:
        return undefined("No input belongs to the class.")
    if not curve.false[-1]:
        return undefined("All inputs belong to the class.")
    return curve


def _curve(ranked: RankedScores, weights: ArrayLike | None) -> _Curve | Score:
    counts = checked_weights(weights, len(ranked.order))[ranked.order]
    if ranked.unknown:
        return undefined(f"The scores of {ranked.unknown} of {len(ranked.order)} inputs are NaN.")
    if not counts.any():
        return undefined("There are no inputs.")
    true = np.add.reduceat(np.where(ranked.true, counts, 0), ranked.ties)
    every = np.add.reduceat(counts, ranked.ties)
    return _Curve(np.cumsum(true), np.cumsum(every - true))


# --- many weightings at once

_AT_ONCE: Final = 1 << 16  # weights: with 5,000 inputs, fewer or more than this take up to twice as long


def weighted_areas(ranked: RankedScores, weights: Floats) -> tuple[Floats, Floats]:
    """`average_precision` and `roc_auc` for each column of weights (inputs × resamples); NaN where one is undefined.

    Resamples lie side by side, so that sums over inputs run over all of them at once.
    """
    inputs, resamples = weights.shape
    if ranked.unknown or not inputs:
        return np.full(resamples, np.nan), np.full(resamples, np.nan)
    step = max(1, _AT_ONCE // inputs)
    found = [_areas(ranked, weights[:, low : low + step]) for low in range(0, resamples, step)]
    precisions, areas = (np.concatenate(each) for each in zip(*found, strict=True))
    return precisions, areas


def _areas(ranked: RankedScores, weights: Floats) -> tuple[Floats, Floats]:
    here = weights[ranked.order]
    gained = here * ranked.true[:, np.newaxis]
    every, true = np.cumsum(here, axis=0), np.cumsum(gained, axis=0)
    lost = here - gained
    if len(ranked.ties) < len(here):
        ends = np.append(ranked.ties[1:], len(here)) - 1
        every, true = every[ends], true[ends]
        gained, lost = (np.add.reduceat(part, ranked.ties, axis=0) for part in (gained, lost))
    precisions = np.einsum("ij,ij->j", gained, true / np.maximum(every, 1))
    # A true input with the same score counts one half.
    above = np.einsum("ij,ij->j", lost, true) - np.einsum("ij,ij->j", lost, gained) / 2
    return _ratio(precisions, true[-1]), _ratio(above, true[-1] * (every[-1] - true[-1]))


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0))
