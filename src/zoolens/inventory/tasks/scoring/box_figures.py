"""COCO's twelve figures of detections, from the parts of images, each counted as often as its weight says.

A weight of 2 gives what pycocotools gives where the image and its boxes are in the dataset twice, one after the other.
A bootstrap over images is thus one call of `figures` for each draw; the sort by score is done once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, IGNORED, MATCHED, THRESHOLDS, ImageParts, ranks

RECALLS: Final = np.linspace(0, 1, 101)  # at which precision is read
LIMITS: Final = (1, 10, 100)  # of detections of a class in an image, for average recall
_AREA_NAMES: Final = tuple(AREAS)
_SPACING: Final = np.spacing(1)  # pycocotools adds it to a denominator that may be 0


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


@dataclass(frozen=True)
class _Pool:
    """Detections of one class in all images, by descending score; those of equal score in the order of images."""

    image: Integers
    rank: Integers  # among those of its class and image
    outcomes: NDArray[np.int8]
    # Where detections of one image and score begin: an image that is counted twice repeats them as a block.
    starts: Integers
    lengths: Integers


class BoxAccumulator:
    """The parts of all images, in the order of their ids: of equal scores, those of the first image come first."""

    def __init__(self, parts: Sequence[ImageParts]) -> None:
        self._images = len(parts)
        found = [part.truth_classes for part in parts]
        self.classes: Integers = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
        # Detections of a class without true boxes enter no figure.
        self._pools = _pools(parts, self.classes)
        self._truths = np.zeros((self._images, len(AREAS), len(self.classes)), np.int64)
        for image, part in enumerate(parts):
            self._truths[image][:, np.searchsorted(self.classes, part.truth_classes)] = part.truth_counts

    def figures(self, weights: ArrayLike | None = None) -> BoxFigures:
        """`weights`: how often each image counts, integers of at least 0; each once if not given."""
        precision, recall = self.curves(weights)
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

    def curves(self, weights: ArrayLike | None = None) -> tuple[Floats, Floats]:
        """Precision (thresholds × recalls × classes × areas) and recall (thresholds × classes × areas × limits), with
        NaN for classes without true boxes."""
        times = _checked(weights, self._images)
        counts = np.tensordot(times, self._truths, axes=1)
        shape = (len(THRESHOLDS), len(self.classes), len(AREAS))
        precision = np.full((shape[0], len(RECALLS), *shape[1:]), np.nan)
        recall = np.full((*shape, len(LIMITS)), np.nan)
        for label, pool in enumerate(self._pools):
            order = _repeated(pool, times)
            outcomes, rank = pool.outcomes[:, :, order], pool.rank[order]
            for area in np.flatnonzero(counts[:, label]):
                count = int(counts[area, label])
                for place, limit in enumerate(LIMITS):
                    matched = (outcomes[area] == MATCHED) & (rank < limit)
                    recall[:, label, area, place] = matched.sum(axis=1) / count
                precision[:, :, label, area] = _precision(outcomes[area], count)
        return precision, recall


def _pools(parts: Sequence[ImageParts], classes: Integers) -> list[_Pool]:
    if not parts:
        return []
    image = np.repeat(np.arange(len(parts)), [len(part.scores) for part in parts])
    label = np.concatenate([part.classes for part in parts])
    scores = np.concatenate([part.scores for part in parts])
    rank = np.concatenate([ranks(part.classes) for part in parts])
    outcomes = np.concatenate([part.outcomes for part in parts], axis=2)
    order = np.argsort(-scores, kind="stable")
    order = order[np.argsort(label[order], kind="stable")]
    bounds = np.searchsorted(label[order], [classes, classes + 1]).T
    return [_pool(order[first:last], image, scores, rank, outcomes) for first, last in bounds]


def _pool(chosen: Integers, image: Integers, scores: Floats, rank: Integers, outcomes: NDArray[np.int8]) -> _Pool:
    images, values = image[chosen], scores[chosen]
    new = (np.diff(images, prepend=-1) != 0) | (np.diff(values, prepend=np.nan) != 0)
    starts = np.flatnonzero(new)
    return _Pool(images, rank[chosen], outcomes[:, :, chosen], starts, np.diff(starts, append=len(chosen)))


def _repeated(pool: _Pool, times: Integers) -> Integers:
    """The pool's places in the order in which they come where images are repeated."""
    blocks = np.repeat(np.arange(len(pool.starts)), times[pool.image[pool.starts]])
    lengths = pool.lengths[blocks]
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    result: Integers = np.repeat(pool.starts[blocks], lengths) + within
    return result


def _precision(outcomes: NDArray[np.int8], count: int) -> Floats:
    """The largest precision at each recall or above it: thresholds × recalls."""
    matched = np.cumsum(outcomes == MATCHED, axis=1).astype(np.float64)
    taken = np.cumsum(outcomes != IGNORED, axis=1)
    precision = matched / (taken + _SPACING)
    envelope = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    # A recall that is not reached has precision 0, which is appended.
    envelope = np.pad(envelope, ((0, 0), (0, 1)))
    recall = matched / count
    return np.array([row[np.searchsorted(reached, RECALLS)] for row, reached in zip(envelope, recall, strict=True)])


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
