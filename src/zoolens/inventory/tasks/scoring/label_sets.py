"""Multi-label classification: each input has any number of classes.

Two kinds of parts. Scores rank the inputs of each class (average precision, area under the ROC curve); decided labels
are counted (subset accuracy, F1). Classes for which a metric is undefined are left out of its mean, which says how
many were used; scikit-learn counts most of them as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.ranked_scores import RankedScores, average_precision, rank_scores, roc_auc
from zoolens.inventory.tasks.scoring.score import (
    Flags,
    Floats,
    Integers,
    MeanScore,
    Score,
    checked_weights,
    mean_of_scores,
    ratio,
    weighted_mean,
)


def checked_labels(labels: ArrayLike) -> Flags:
    """Labels as inputs × classes, each 0 or 1."""
    given = np.asarray(labels)
    if given.ndim != 2:
        raise ZoolensError(f"Labels must be a table of inputs × classes; got the shape {given.shape}.")
    if not np.isin(given, (0, 1)).all():
        raise ZoolensError("Labels must be 0 or 1 for each input and class.")
    return given.astype(np.bool_)


def rank_classes(scores: NDArray[np.floating], true: ArrayLike) -> list[RankedScores]:
    """Sorts the inputs of each class by their scores, once for all weightings."""
    labels = checked_labels(true)
    if scores.shape != labels.shape:
        raise ZoolensError(f"Scores and labels must have one shape; got {scores.shape} and {labels.shape}.")
    return [rank_scores(scores[:, place], labels[:, place]) for place in range(labels.shape[1])]


def mean_average_precision(classes: list[RankedScores], weights: ArrayLike | None = None) -> MeanScore:
    """Mean over the classes with a true input, "macro" in scikit-learn."""
    return _mean_over_classes(average_precision, classes, weights)


def mean_roc_auc(classes: list[RankedScores], weights: ArrayLike | None = None) -> MeanScore:
    """Mean over the classes with a true and a false input, "macro" in scikit-learn."""
    return _mean_over_classes(roc_auc, classes, weights)


def _mean_over_classes(
    metric: Callable[[RankedScores, ArrayLike | None], Score], classes: list[RankedScores], weights: ArrayLike | None
) -> MeanScore:
    return mean_of_scores([metric(one, weights) for one in classes])


@dataclass(frozen=True)
class LabelParts:
    """Decided and true labels, inputs × classes."""

    predicted: Flags
    true: Flags


def label_parts(predicted: ArrayLike, true: ArrayLike) -> LabelParts:
    parts = LabelParts(checked_labels(predicted), checked_labels(true))
    if parts.predicted.shape != parts.true.shape:
        raise ZoolensError(
            f"Predicted and true labels must have one shape; got {parts.predicted.shape} and {parts.true.shape}."
        )
    return parts


def subset_accuracy(parts: LabelParts, weights: ArrayLike | None = None) -> MeanScore:
    """Share of inputs of which all labels are right."""
    return weighted_mean((parts.predicted == parts.true).all(axis=1), weights, "")


def f1_by_class(parts: LabelParts, weights: ArrayLike | None = None) -> list[Score]:
    correct, total = _sums(parts, weights)
    reason = "No input has the class, neither true nor predicted."
    return [ratio(2 * both, every, reason) for both, every in zip(correct, total, strict=True)]


def macro_label_f1(parts: LabelParts, weights: ArrayLike | None = None) -> MeanScore:
    return mean_of_scores(f1_by_class(parts, weights))


def micro_label_f1(parts: LabelParts, weights: ArrayLike | None = None) -> Score:
    correct, total = _sums(parts, weights)
    return ratio(2 * correct.sum(), total.sum(), "No input has a label, neither true nor predicted.")


def mean_input_f1(parts: LabelParts, weights: ArrayLike | None = None) -> MeanScore:
    """Mean F1 of the inputs' sets of labels, "samples" in scikit-learn; without inputs that have no label at all."""
    return weighted_mean(_f1_of_inputs(parts), weights, "No input has a label, neither true nor predicted.")


def _f1_of_inputs(parts: LabelParts) -> Floats:
    correct = (parts.predicted & parts.true).sum(axis=1)
    total = parts.predicted.sum(axis=1) + parts.true.sum(axis=1)
    return np.where(total > 0, 2 * correct / np.maximum(total, 1), np.nan)


def _sums(parts: LabelParts, weights: ArrayLike | None) -> tuple[Integers, Integers]:
    counts = checked_weights(weights, len(parts.true))
    both = counts @ (parts.predicted & parts.true)
    every = counts @ (parts.predicted.astype(np.int64) + parts.true)
    return both, every
