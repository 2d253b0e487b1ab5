"""COCO's twelve figures of detections, from the parts of images, each counted as often as its weight says.

A weight of 2 gives what pycocotools gives where the image and its boxes are in the dataset twice, one after the other.
A bootstrap over images is thus one call of `resampled`; the sort by score is done once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, ImageParts
from zoolens.inventory.tasks.scoring.box_pools import LIMITS, RECALLS, found_shares, pooled, precisions

_ROWS: Final = 64  # weights at once: the curves of 80 classes and one range of areas then have 41 MB
_FIELDS: Final = 12  # of `BoxFigures`


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

    def __init__(self, parts: Sequence[ImageParts]) -> None:
        self._images = len(parts)
        found = [part.truth_classes for part in parts]
        self.classes: Integers = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
        # Detections of a class without true boxes enter no figure.
        self._pools = pooled(parts, self.classes)
        self._truths = np.zeros((self._images, len(AREAS), len(self.classes)))
        for image, part in enumerate(parts):
            self._truths[image][:, np.searchsorted(self.classes, part.truth_classes)] = part.truth_counts

    def figures(self, weights: ArrayLike | None = None) -> BoxFigures:
        """`weights`: how often each image counts, integers of at least 0; each once if not given."""
        times = _checked(weights, self._images)
        figures, _ = self.resampled(times[np.newaxis])
        return BoxFigures(*figures[0].tolist())

    def resampled(self, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The twelve figures, and the AP of each class (columns), for several weights at once (rows): far quicker than
        one by one."""
        for row in weights:
            _checked(row, self._images)
        figures = np.zeros((len(weights), _FIELDS))
        classes = np.zeros((len(weights), len(self.classes)))
        for start in range(0, len(weights), _ROWS):
            some = slice(start, start + _ROWS)
            counts = self._counts(weights[some])
            for area in range(len(AREAS)):
                precision, recall = self._curves_of(area, weights[some], counts[:, area])
                for row, one in enumerate(zip(precision, recall, strict=True), start):
                    for place, value in _figures_of(area, *one):
                        figures[row, place] = value
                if not area:
                    classes[some] = precision.mean(axis=(1, 2))
        return figures, classes

    def average_precision(self, weights: NDArray[np.int64]) -> Floats:
        """AP alone, of boxes of all sizes, for several weights at once: an eighth of the time of all twelve figures."""
        counts = weights.astype(np.float64) @ self._truths[:, 0]
        sums = np.zeros(len(weights))
        for label, pool in enumerate(self._pools):
            known = np.flatnonzero(counts[:, label])
            # Without a detection that is matched somewhere it is 0.
            if len(known) and len(pool.events[0].image):
                sums[known] += precisions(pool, 0, weights[known], counts[known, label]).mean(axis=(1, 2))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / np.count_nonzero(counts, axis=1))

    def _counts(self, times: Integers) -> Floats:
        """True boxes: rows × areas × classes."""
        # Products of whole numbers are exact in float64, and much quicker there.
        return np.asarray(np.tensordot(times.astype(np.float64), self._truths, axes=1))

    def _curves_of(self, area: int, times: Integers, counts: Floats) -> tuple[Floats, Floats]:
        """Precision (rows × thresholds × recalls × classes) and recall (rows × thresholds × classes × limits)."""
        shape = (len(times), len(THRESHOLDS))
        precision = np.full((*shape, len(RECALLS), len(self.classes)), np.nan)
        recall = np.full((*shape, len(self.classes), len(LIMITS)), np.nan)
        for label, pool in enumerate(self._pools):
            known = np.flatnonzero(counts[:, label])
            if len(known):
                count = counts[known, label]
                recall[known, :, label] = found_shares(pool.events[area], times[known], count)
                precision[known, :, :, label] = precisions(pool, area, times[known], count)
        return precision, recall


def _figures_of(area: int, precision: Floats, recall: Floats) -> Iterator[tuple[int, float]]:
    """The figures of one range of areas, by their places among the fields of `BoxFigures`."""
    if area:
        yield 2 + area, _mean(precision)
        yield 8 + area, _mean(recall[:, :, -1])
        return
    yield from ((0, _mean(precision)), (1, _mean(precision[0])), (2, _mean(precision[5])))
    for limit in range(len(LIMITS)):
        yield 6 + limit, _mean(recall[:, :, limit])


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


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
