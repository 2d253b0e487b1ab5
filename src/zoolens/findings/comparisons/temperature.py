"""Whether two classifiers differ by a temperature only: the logits of one are those of the other times a constant.

Of each input the best classes and the label are kept with their probabilities. A constant that multiplies all logits
multiplies every logarithm of a ratio of probabilities, whatever the other classes have; so one constant is fitted to
all of them, and is named only if next to nothing of the difference is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.numerics.common_factor import common_factor
from zoolens.findings.measure.predictions import Predictions

_SMALLEST: Final = 1e-30  # a probability below this has few digits in float32
_FEWEST: Final = 20  # ratios to fit one constant to


@dataclass(frozen=True)
class Temperature:
    """The softmax temperature by which two classifiers differ."""

    factor: float  # the logits of B are those of A times this
    ratios: int
    inputs: int
    before: float  # largest difference of a log ratio of two classes
    left: float  # what remains of it with the factor applied

    @property
    def words(self) -> str:
        return (
            f"The logits of B are those of A × {self.factor:.4g}, which is a temperature of {1 / self.factor:.4g}: the "
            "answers are the same, confidences and calibration are not. The largest difference of a log ratio of two "
            f"classes goes from {self.before:.2g} to {self.left:.2g} ({self.ratios:,} ratios of the best classes and "
            f"labels of {self.inputs:,} inputs)."
        )


def fitted_temperature(a: Predictions, b: Predictions) -> Temperature | None:
    """The temperature between two runs on the same inputs; None if it does not explain the whole difference."""
    if not all("top" in side.main.columns and side.scored for side in (a, b)):
        return None
    if not np.array_equal(a.top[:, 0], b.top[:, 0]):
        return None
    ours, theirs, rows = _log_ratios(a, b)
    found = common_factor(ours, theirs) if len(ours) >= _FEWEST else None
    if found is None:
        return None
    return Temperature(found.factor, len(ours), len(np.unique(rows)), found.before, found.left)


def _log_ratios(a: Predictions, b: Predictions) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """log(p of a class / p of the answer) in both runs, for every class that both kept, and the rows they are of."""
    rows, place_a, place_b = np.nonzero(a.top[:, 1:, None] == b.top[:, None, 1:])
    pairs = [(rows, a.score[rows, place_a + 1], b.score[rows, place_b + 1])]
    labelled = np.flatnonzero((a.labels >= 0) & (a.labels != a.top[:, 0]))
    pairs.append((labelled, a.label_score[labelled], b.label_score[labelled]))
    where = np.concatenate([one for one, _, _ in pairs])
    ours = np.concatenate([one for _, one, _ in pairs]).astype(np.float64)
    theirs = np.concatenate([one for _, _, one in pairs]).astype(np.float64)
    kept = (ours > _SMALLEST) & (theirs > _SMALLEST)
    where, ours, theirs = where[kept], ours[kept], theirs[kept]
    best_a, best_b = (side.score[where, 0].astype(np.float64) for side in (a, b))
    return np.log(ours / best_a), np.log(theirs / best_b), where
