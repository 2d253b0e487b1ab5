"""What one variant answered on some images, and how two variants compare on the same ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.intervals import Interval, paired_difference, wilson
from zoolens.base.statistics.significance import exact_mcnemar, mean_not_below_zero
from zoolens.findings.measure.predictions import Predictions

ALPHA: Final = 0.05
WORTH_SEEING: Final = 0.1  # of accuracy: a fault in a manifest costs as much or more
_FLOOR: Final = 1e-6  # a probability of 0 is rounding, and must not outweigh all other images


@dataclass(frozen=True)
class Evidence:
    """`distance`: answered class − true class, where there is an answer. A variant that cannot run got none right."""

    run: str | None
    inputs: NDArray[Any]
    correct: NDArray[np.bool_]
    log_score: NDArray[np.float64]  # of the true class
    distance: NDArray[np.int64]
    error: str | None = None

    @property
    def n(self) -> int:
        return len(self.correct)

    @property
    def right(self) -> int:
        return int(np.count_nonzero(self.correct))

    @property
    def accuracy(self) -> float:
        return self.right / self.n

    @property
    def interval(self) -> Interval:
        return wilson(self.right, self.n)

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Higher is better: runs at all, images right, probability of the true class."""
        return self.error is None, self.right, float(self.log_score.mean())

    def without(self, inputs: NDArray[Any]) -> Evidence:
        """Return the evidence without the images of `inputs`."""
        kept = ~np.isin(self.inputs, inputs)
        return Evidence(
            self.run,
            self.inputs[kept],
            self.correct[kept],
            self.log_score[kept],
            self.distance[kept],
            self.error,
        )


def from_predictions(run: str, predictions: Predictions) -> Evidence:
    return Evidence(
        run=run,
        inputs=predictions.inputs,
        correct=predictions.correct,
        log_score=np.log(np.maximum(predictions.label_score.astype(np.float64), _FLOOR)),
        distance=predictions.top[:, 0].astype(np.int64) - predictions.labels,
    )


def failed(run: str | None, inputs: NDArray[Any], error: str) -> Evidence:
    n = len(inputs)
    nothing = np.zeros(n, np.int64)
    return Evidence(run, inputs, np.zeros(n, bool), np.full(n, math.log(_FLOOR)), nothing, error)


@dataclass(frozen=True)
class Contrast:
    """How variant `other` compares with variant `base` on the same images."""

    base: Evidence
    other: Evidence

    @property
    def lost(self) -> int:
        return int(np.count_nonzero(self.base.correct & ~self.other.correct))

    @property
    def won(self) -> int:
        return int(np.count_nonzero(self.other.correct & ~self.base.correct))

    @property
    def change(self) -> float:
        return (self.won - self.lost) / self.base.n

    @property
    def interval(self) -> Interval:
        return paired_difference(self.lost, self.won, self.base.n)

    @property
    def p_value(self) -> float:
        return exact_mcnemar(self.lost, self.won)

    @property
    def better(self) -> bool:
        return self.change > 0 and self.p_value < ALPHA

    @property
    def worse(self) -> bool:
        return self.change < 0 and self.p_value < ALPHA

    @property
    def less_likely(self) -> bool:
        """Whether `other` clearly gives the truth less probability: sees much smaller faults than the answers do."""
        return mean_not_below_zero(self.other.log_score - self.base.log_score) < ALPHA / 2


def could_tell(n: int, tests: int) -> bool:
    """Whether a difference worth seeing, won image by image with none lost, would be significant on n images."""
    return exact_mcnemar(0, math.ceil(WORTH_SEEING * n)) * tests < ALPHA
