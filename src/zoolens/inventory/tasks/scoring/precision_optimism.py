"""How far average precision of few inputs lies above that of many.

The precision at a true object is too high on average where few objects have been ranked, and COCO's more so, which is
the largest at a recall or above it: the largest of a noisy curve is too large. Of a class that m images have, simulated
detectors have an AP that is too high by about 0.08 / √m at AP of 0.06 to 0.5: by 0.05 in the mean over 24 classes, half
of which are in one to three of 50 images. A mean over many classes has little noise and all of that. Resampling does
not show it, since a class that is in one image is in one image of a resample too. Intervals of such an AP covered in
87 % of the cases, with 50 images and with 200 (`benchmarks/task_intervals.py`).

How much it is depends on the model, and is measured on its own answers: by how much the AP of a class rises where the
inputs are halved. What is too high by c / m^p rises by (2^p − 1) c / m^p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.inventory.tasks.scoring.score import Floats, Integers

# Powers p, near to what was simulated: 0.6 of the largest precision at a recall or above, 0.8 of plain precision.
OF_LARGEST: Final = 0.5
OF_PLAIN: Final = 1.0
SPLITS: Final = 32  # into halves
_CELLS: Final = 1 << 18  # weights at once, 2 MB; what AP makes of them has some times that


@dataclass(frozen=True)
class PrecisionOptimism:
    """`factor` and `power`: c and p above."""

    factor: float
    power: float

    def of_class(self, having: int) -> float:
        """By how much AP is too high of a class that so many inputs have; 0 where none has."""
        return self.of_mean(np.array([having]))

    def of_mean(self, having: Integers) -> float:
        """That of the mean AP of the classes that inputs have. `having`: how many have each class."""
        known = having[having > 0]
        return self.factor * float(np.mean(known.astype(np.float64) ** -self.power)) if len(known) else 0.0


def precision_optimism(
    class_precisions: Callable[[Integers], Floats], inputs: int, having: Integers, power: float
) -> PrecisionOptimism:
    """`class_precisions`: the AP of each class (columns) for several weights of inputs (rows), NaN where it is absent.
    `having`: how many inputs have each class."""
    random = np.random.default_rng(0)
    whole = class_precisions(np.ones((1, inputs), np.int64))[0]
    at_once = max(1, _CELLS // max(inputs, 1))
    rose = np.concatenate(
        [
            _rise(class_precisions, whole, _halves(random, min(at_once, SPLITS - first), inputs))
            for first in range(0, SPLITS, at_once)
        ]
    )
    compared = np.isfinite(rose).any(axis=0)
    if not compared.any():
        # No class is in two inputs: nothing is known of how far the figure is too high, but that it is at most 1.
        return PrecisionOptimism(1.0, power)
    risen = float(np.nanmean(rose[:, compared], axis=0).sum())
    expected = float(((2**power - 1) / having[compared] ** power).sum())
    return PrecisionOptimism(max(0.0, risen / expected), power)


def _halves(random: np.random.Generator, splits: int, inputs: int) -> Integers:
    """Weights of some of the splits: 1 in one half, 0 in the other."""
    halves = np.zeros((splits, inputs), np.int64)
    for half in halves:
        half[random.permutation(inputs)[: inputs // 2]] = 1
    return halves


def _rise(class_precisions: Callable[[Integers], Floats], whole: Floats, halves: Integers) -> Floats:
    """By how much the AP of each class (columns) is higher in halves. Both halves of a split count: where one has too
    many of the easy inputs, the other has too few."""
    return np.asarray((class_precisions(halves) + class_precisions(1 - halves)) / 2 - whole)
