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
    """Return log(p of a class / p of the answer) in both runs, for each class that both kept, and the rows."""
    # Column 0 of `top` is the answer itself, whose ratio is 1.
    ranked, place_a, place_b = np.nonzero(a.top[:, 1:, None] == b.top[:, None, 1:])
    labelled = np.flatnonzero((a.labels >= 0) & (a.labels != a.top[:, 0]))
    rows = np.concatenate([ranked, labelled])
    ours = np.concatenate([a.score[ranked, place_a + 1], a.label_score[labelled]]).astype(np.float64)
    theirs = np.concatenate([b.score[ranked, place_b + 1], b.label_score[labelled]]).astype(np.float64)
    kept = (ours > _SMALLEST) & (theirs > _SMALLEST)
    rows = rows[kept]
    return _log_ratio(a, rows, ours[kept]), _log_ratio(b, rows, theirs[kept]), rows


def _log_ratio(side: Predictions, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    best = side.score[rows, 0].astype(np.float64)
    return np.asarray(np.log(scores / best))
