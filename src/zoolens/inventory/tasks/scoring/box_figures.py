"""COCO's twelve figures of detections, from the parts of images, each counted as often as its weight says.

A weight of 2 gives what pycocotools gives where the image and its boxes are in the dataset twice, one after the other.
A bootstrap over images is thus one call of `resampled`; the sort by score is done once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.tasks.scoring.box_curves import curve_means, limited_matches
from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, ImageParts
from zoolens.inventory.tasks.scoring.box_parts import BoxParts
from zoolens.inventory.tasks.scoring.box_pools import Pool, pooled

_FIELDS: Final = 12  # of `BoxFigures`
# Those of each range of areas: of all boxes ap, ap50, ap75, ar1, ar10 and ar100.
_FIELDS_OF: Final = ([0, 1, 2, 6, 7, 8], [3, 9], [4, 10], [5, 11])
_NARROW: Final = 1 << 24  # images at most, of which each has at most 100 detections of a class


@dataclass(frozen=True)
class BoxFigures:
    """Averages over classes that have true boxes, in [0, 1]; NaN where there are none (pycocotools writes −1)."""

    ap: float
    ap50: float
    ap75: float
    ap_small: float
    ap_medium: float
    ap_large: float
    ar1: float
    ar10: float
    ar100: float
    ar_small: float
    ar_medium: float
    ar_large: float


class BoxAccumulator:
    """The parts of all images, in the order of their ids: of equal scores, those of the first image come first."""

    def __init__(self, parts: Sequence[ImageParts] | BoxParts) -> None:
        if not isinstance(parts, BoxParts):
            listed, parts = parts, BoxParts()
            parts.add(listed)
        self.images = parts.images
        self.classes: Integers = parts.classes
        self._pools = pooled(parts, self.classes)

    def figures(self, weights: ArrayLike | None = None) -> BoxFigures:
        """`weights`: how often each image counts, integers of at least 0; each once if not given."""
        times = _checked(weights, self.images)
        figures, _ = self.resampled(times[np.newaxis])
        return BoxFigures(*figures[0].tolist())

    def resampled(self, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The twelve figures, and the AP of each class (columns), for several weights at once (rows): far quicker than
        one by one."""
        for row in weights:
            _checked(row, self.images)
        return self._averages(weights, len(AREAS))

    def average_precision(self, weights: NDArray[np.int64]) -> Floats:
        """AP alone, of boxes of all sizes, for several weights at once: half the time of all twelve figures."""
        figures, _ = self._averages(weights, 1)
        return figures[:, 0]

    def class_precisions(self, weights: NDArray[np.int64]) -> Floats:
        """The AP of each class (columns), of boxes of all sizes; NaN where no image has it."""
        _, classes = self._averages(weights, 1)
        return classes

    @property
    def images_with_truth(self) -> Integers:
        """How many images have a true box that counts: areas × classes."""
        having = [np.count_nonzero(pool.truths, axis=1) for pool in self._pools]
        return np.array(having, np.int64).reshape(len(self._pools), len(AREAS)).T

    def _averages(self, weights: Integers, areas: int) -> tuple[Floats, Floats]:
        """`resampled`, of the first ranges of areas."""
        sums, defined = np.zeros((len(weights), _FIELDS)), np.zeros((len(weights), _FIELDS))
        classes = np.full((len(weights), len(self.classes)), np.nan)
        # Whole numbers of half the size take half the time; no sum over detections comes near their largest.
        narrow: NDArray[Any] = weights.astype(np.int32 if weights.sum(axis=1).max(initial=0) < _NARROW else np.int64)
        for label, pool in enumerate(self._pools):
            local, same = _different_rows(narrow[:, pool.images])
            counts = local.astype(np.float64) @ pool.truths.T.astype(np.float64)
            for area in range(areas):
                fields = _FIELDS_OF[area]
                known = np.flatnonzero(counts[:, area])
                own, there = np.zeros((len(local), len(fields))), np.zeros(len(local))
                own[known], there[known] = _of_class(pool, area, local[known], counts[known, area]), 1
                sums[:, fields] += own[same]
                defined[:, fields] += there[same, np.newaxis]
                if not area:
                    classes[:, label] = np.where(there > 0, own[:, 0], np.nan)[same]
            pool.rest()
        with np.errstate(invalid="ignore"):
            return sums / defined, classes


def _of_class(pool: Pool, area: int, local: Integers, count: Floats) -> Floats:
    """The figures of one class in a range of areas: rows × `_FIELDS_OF[area]`."""
    precision, found = curve_means(pool, area, local, count)
    recall = (found / count[:, np.newaxis]).mean(axis=1)
    if area:
        return np.stack([precision.mean(axis=1), recall], axis=1)
    limited = limited_matches(pool, local) / count[:, np.newaxis, np.newaxis]
    columns = precision.mean(axis=1), precision[:, 0], precision[:, 5], *limited.mean(axis=1).T, recall
    return np.stack(columns, axis=1)


def _different_rows(local: Integers) -> tuple[Integers, Integers]:
    """The rows without all but one of those that count every image once, and where each row is among what is left.

    To leave out an image changes only the classes that it has: most of such rows are alike.
    """
    plain = np.flatnonzero((local == 1).all(axis=1))
    kept = np.ones(len(local), bool)
    kept[plain[1:]] = False
    places = np.cumsum(kept) - 1
    places[plain[1:]] = places[plain[:1]]
    return local[kept], places


def _checked(weights: ArrayLike | None, images: int) -> Integers:
    if weights is None:
        return np.ones(images, np.int64)
    given = np.asarray(weights)
    if given.shape != (images,) or given.dtype.kind not in "iu" or (given < 0).any():
        raise DatasetError(
            f"Weights must be {images} integers of at least 0, one for each image; got {given.dtype} of shape "
            f"{given.shape}."
        )
    return given.astype(np.int64)
