"""COCO's twelve figures of detections, from the parts of images, each counted as often as its weight says.

A weight of 2 gives what pycocotools gives where the image and its boxes are in the dataset twice, one after the other.
A bootstrap over images is thus one call of `resampled`; the sort by score is done once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, ImageParts
from zoolens.inventory.tasks.scoring.box_pools import LIMITS, RECALLS, found_shares, pooled, precisions

_ROWS: Final = 16  # weights at once: the curves of 80 classes then have 41 MB


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
        precision, recall = self.curves(weights)
        return _figures(precision, recall)

    def curves(self, weights: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Precision (thresholds × recalls × classes × areas) and recall (thresholds × classes × areas × limits), with
        NaN for classes without true boxes."""
        times = _checked(weights, self._images)
        precision, recall = self._curves(times[np.newaxis])
        return precision[0], recall[0]

    def resampled(self, weights: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """The twelve figures, and the AP of each class (columns), for several weights at once (rows): far quicker than
        one by one."""
        for row in weights:
            _checked(row, self._images)
        figures, classes = [np.zeros((0, len(fields(BoxFigures))))], [np.zeros((0, len(self.classes)))]
        for start in range(0, len(weights), _ROWS):
            precision, recall = self._curves(weights[start : start + _ROWS])
            figures.append(np.array([astuple(_figures(*one)) for one in zip(precision, recall, strict=True)]))
            classes.append(precision[..., 0].mean(axis=(1, 2)))
        return np.concatenate(figures), np.concatenate(classes)

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

    def _curves(self, times: Integers) -> tuple[Floats, Floats]:
        # Products of whole numbers are exact in float64, and much quicker there.
        counts = np.tensordot(times.astype(np.float64), self._truths, axes=1)
        shape = (len(times), len(THRESHOLDS), len(self.classes), len(AREAS))
        precision = np.full((*shape[:2], len(RECALLS), *shape[2:]), np.nan)
        recall = np.full((*shape, len(LIMITS)), np.nan)
        for label, pool in enumerate(self._pools):
            for area, events in enumerate(pool.events):
                known = np.flatnonzero(counts[:, area, label])
                count = counts[known, area, label]
                if len(known):
                    recall[known, :, label, area] = found_shares(events, times[known], count)
                    precision[known, :, :, label, area] = precisions(pool, area, times[known], count)
        return precision, recall


def _figures(precision: Floats, recall: Floats) -> BoxFigures:
    return BoxFigures(
        ap=_mean(precision[:, :, :, 0]),
        ap50=_mean(precision[0, :, :, 0]),
        ap75=_mean(precision[5, :, :, 0]),
        ap_small=_mean(precision[:, :, :, 1]),
        ap_medium=_mean(precision[:, :, :, 2]),
        ap_large=_mean(precision[:, :, :, 3]),
        ar1=_mean(recall[:, :, 0, 0]),
        ar10=_mean(recall[:, :, 0, 1]),
        ar100=_mean(recall[:, :, 0, 2]),
        ar_small=_mean(recall[:, :, 1, 2]),
        ar_medium=_mean(recall[:, :, 2, 2]),
        ar_large=_mean(recall[:, :, 3, 2]),
    )


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
