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
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, ImageParts
from zoolens.inventory.tasks.scoring.box_parts import BoxParts
from zoolens.inventory.tasks.scoring.box_pools import LIMITS, pooled

_FIELDS: Final = 12  # of `BoxFigures`
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
        self._images = parts.images
        self.classes: Integers = parts.classes
        self._pools = pooled(parts, self.classes)

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
        precision, recall = self._curves(weights, len(AREAS))
        everywhere, found = precision[:, 0], recall[:, 0]
        figures[:, 0] = _means(everywhere)
        figures[:, 1] = _means(everywhere[:, 0])
        figures[:, 2] = _means(everywhere[:, 5])
        for area in range(1, len(AREAS)):
            figures[:, 2 + area] = _means(precision[:, area])
            figures[:, 8 + area] = _means(recall[:, area, :, :, -1])
        for limit in range(len(LIMITS)):
            figures[:, 6 + limit] = _means(found[..., limit])
        return figures, everywhere.mean(axis=1)

    def average_precision(self, weights: NDArray[np.int64]) -> Floats:
        """AP alone, of boxes of all sizes, for several weights at once: a third of the time of all twelve figures."""
        precision, _ = self._curves(weights, 1)
        return _means(precision[:, 0])

    def _curves(self, weights: Integers, areas: int) -> tuple[Floats, Floats]:
        """Mean precision (rows × areas × thresholds × classes) and recall (… × limits); NaN without true boxes."""
        shape = (len(weights), areas, len(THRESHOLDS), len(self.classes))
        precision, recall = np.full(shape, np.nan), np.full((*shape, len(LIMITS)), np.nan)
        # Whole numbers of half the size take half the time; no sum over detections comes near their largest.
        narrow: NDArray[Any] = weights.astype(np.int32 if weights.sum(axis=1).max(initial=0) < _NARROW else np.int64)
        for label, pool in enumerate(self._pools):
            local, same = _different_rows(narrow[:, pool.images])
            counts = local.astype(np.float64) @ pool.truths.T.astype(np.float64)
            for area in range(areas):
                known = np.flatnonzero(counts[:, area])
                if not len(known):
                    continue
                count = counts[known, area]
                means, found = curve_means(pool, area, local[known], count)
                own = np.full((len(local), len(THRESHOLDS), 1 + len(LIMITS)), np.nan)
                own[known, :, 0] = means
                own[known, :, -1] = found / count[:, np.newaxis]
                if not area:
                    own[known, :, 1:-1] = limited_matches(pool, local[known]) / count[:, np.newaxis, np.newaxis]
                precision[:, area, :, label], recall[:, area, :, label] = own[same, :, 0], own[same, :, 1:]
        return precision, recall


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


def _means(values: Floats) -> Floats:
    """The mean of each row over all that is known; NaN where nothing is."""
    rows = values.reshape(len(values), int(np.prod(values.shape[1:])))
    known = ~np.isnan(rows)
    with np.errstate(invalid="ignore"):
        result: Floats = np.where(known, rows, 0.0).sum(axis=1) / known.sum(axis=1)
    return result
