"""Predictors that always answer the same class: an accuracy that says nothing about learning.

Of our own trials the answers are counted, so nothing has to be guessed. Of a published accuracy only the number is
known, but where it is an unweighted mean over test batches whose last one is smaller, a constant answer leaves its own
value at each batch size, which the labels reproduce.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

TOLERANCE: Final = 5e-9  # published with nine decimals
SINGLE: Final = 3e-8  # what float32 batch means leave uncertain

Labels = NDArray[Any]


@dataclass(frozen=True)
class Flag:
    """A side that answers one class always."""

    trial: str
    framework: str
    classes: tuple[int, ...]  # which it may be
    # "answers" were counted; "batch means" equal the constant predictor's; "class share" only means that as many are
    # right as a class has, which is possible without being constant.
    evidence: Literal["answers", "batch means", "class share"]
    accuracy: float | None
    error: float = 0.0  # distance from the constant predictor's accuracy

    @property
    def certain(self) -> bool:
        return self.evidence != "class share"

    def __str__(self) -> str:
        names = " or ".join(map(str, self.classes))
        if self.evidence == "answers":
            return f"{self.framework} answers class {names} for every test sample (collapsed predictor)"
        if self.evidence == "batch means":
            return (
                f"{self.framework} always answers class {names} (collapsed predictor): its accuracy is what that gives "
                f"as a mean of batch means, to {self.error:.1e}"
            )
        return f"{self.framework} may always answer one class: exactly as many are right as a class has samples"


def batch_mean_accuracies(labels: Labels, batch: int) -> NDArray[np.float64]:
    """What each constant predictor scores where accuracy is the unweighted mean over batches of this size."""
    starts = np.arange(0, len(labels), batch)
    sizes = np.diff(np.append(starts, len(labels)))
    hits = labels[:, None] == np.arange(int(labels.max()) + 1)
    return np.asarray((np.add.reduceat(hits.astype(np.int64), starts) / sizes[:, None]).mean(axis=0))


def correct_counts(mean: float, samples: int, batch: int, tolerance: float = SINGLE) -> tuple[int, ...]:
    """How many samples may be right in truth where the mean of batch means is this; none: it is not such a mean."""
    batches = -(-samples // batch)
    last = samples - (batches - 1) * batch
    right_in_last = np.arange(last + 1)
    right_before = np.round(batch * (batches * mean - right_in_last / last))
    means = (right_before / batch + right_in_last / last) / batches
    fits = (np.abs(means - mean) <= tolerance) & (right_before >= 0) & (right_before <= samples - last)
    return tuple(sorted({int(count) for count in (right_before + right_in_last)[fits]}))


def flag(study: Study, labels: Labels | None = None, *, tolerance: float = TOLERANCE) -> tuple[Flag, ...]:
    """The collapsed sides of a study. `labels` of the test set, in its order, are needed where no answers were kept;
    published batch means also need the hyperparameter "batch_size"."""
    constants = lru_cache(maxsize=None)(lambda batch: batch_mean_accuracies(np.asarray(labels), batch))

    def judge(trial: Trial, side: TrainedSide) -> Iterator[Flag]:
        if side.answered:
            if side.collapsed:
                yield Flag(trial.id, side.framework, (int(np.argmax(side.answered)),), "answers", side.accuracy)
        elif labels is not None and len(labels) and side.accuracy is not None:
            batch = trial.hyperparameters.get("batch_size")
            averaged = not side.exact and isinstance(batch, int) and len(labels) % batch != 0
            scores = constants(batch if averaged else len(labels))
            away = np.abs(scores - side.accuracy)
            near = np.flatnonzero(away <= tolerance)
            if len(near):
                evidence: Literal["batch means", "class share"] = "batch means" if averaged else "class share"
                classes = tuple(int(label) for label in near)
                yield Flag(trial.id, side.framework, classes, evidence, side.accuracy, float(away[near].min()))

    return tuple(verdict for trial in study.trials for side in trial.sides for verdict in judge(trial, side))
