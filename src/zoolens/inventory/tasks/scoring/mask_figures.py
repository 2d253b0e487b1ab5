"""Parts of each image from which mIoU and its relatives follow, for any weights of the images.

The figures of a set of images are those of the summed counts of pixels, not means over images. Beside all pixels, those
near a boundary are counted: boundary IoU of Cheng et al., "Boundary IoU: Improving Object-Centric Image Segmentation
Evaluation" (CVPR 2021), with their width of 2 % of the image's diagonal. As in their code, the image's edge is a
boundary of what touches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.mask_runs import ELSEWHERE, UNJUDGED, MaskRuns, overlap

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WIDTH: Final = 0.02  # of the band along boundaries, as a share of the image's diagonal
FIGURES: Final = ("miou", "miou_or_answered", "pixel_accuracy", "mean_accuracy", "fw_iou", "boundary_iou")
_CODES: Final = 1 << 16


@dataclass(frozen=True)
class PixelCounts:
    """Pixels of each image and class (images × classes): answered rightly, true, and answered."""

    right: Counts
    true: Counts
    answered: Counts

    def summed(self, weights: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
        """Sums over images (resamples × classes). Sums of pixels below 2⁵³ are exact in float64, and quicker there."""
        rows = weights.astype(np.float64)
        right, true, answered = (rows @ part.astype(np.float64) for part in (self.right, self.true, self.answered))
        return right, true, answered


@dataclass(frozen=True)
class MaskParts:
    """`classes`: the numbers of the columns. Pixels without a truth are in no count."""

    classes: NDArray[np.int64]
    everywhere: PixelCounts
    near_boundaries: PixelCounts

    @property
    def in_truth(self) -> Flags:
        """Classes that at least one true pixel has."""
        return np.asarray(self.everywhere.true.any(axis=0))

    @property
    def answered(self) -> Flags:
        """Classes of the dataset that at least one judged pixel was answered with."""
        return np.asarray(self.everywhere.answered.any(axis=0) & (self.classes != ELSEWHERE))


def mask_parts(true: Sequence[MaskRuns], answered: Sequence[MaskRuns]) -> MaskParts:
    """Counts of all images. The two masks of an image must have one size."""
    found = np.unique(np.concatenate([np.unique(mask.classes) for mask in (*true, *answered)] or [np.zeros(0)]))
    classes = found[found != UNJUDGED].astype(np.int64)
    columns = np.zeros(_CODES, np.int64)
    columns[classes] = np.arange(len(classes))
    rows = [_counts(*pair, columns, len(classes)) for pair in zip(true, answered, strict=True)]
    stacked = np.array(rows, np.int64).reshape(len(rows), 2, 3, len(classes))
    everywhere, near = (PixelCounts(*stacked[:, place].transpose(1, 0, 2)) for place in range(2))
    return MaskParts(classes, everywhere, near)


def _counts(true: MaskRuns, answered: MaskRuns, columns: Counts, width: int) -> Counts:
    """Everywhere and near boundaries: pixels answered rightly, true and answered, of each class."""
    both = overlap(true, answered)
    judged = both.first != UNJUDGED
    firsts, seconds = columns[both.first], columns[both.second]
    everywhere = [
        np.bincount(codes[chosen], both.pixels[chosen], width)
        for codes, chosen in ((firsts, judged & both.equal), (firsts, judged), (seconds, judged))
    ]
    return np.array([everywhere, _near_boundaries(true.pixels, answered.pixels, columns, width)], np.int64)


def _near_boundaries(
    true: NDArray[np.uint16], answered: NDArray[np.uint16], columns: Counts, width: int
) -> list[Counts]:
    judged = true != UNJUDGED
    # An unjudged region then has the same boundary in both masks.
    seen = np.where(judged, answered, np.uint16(UNJUDGED))
    distance = band_width(*true.shape)
    of_true, of_answer = (boundary_band(mask, distance) & judged for mask in (true, seen))
    shared = of_true & of_answer & (true == seen)
    return [
        np.bincount(columns[mask[band]], minlength=width)
        for mask, band in ((true, shared), (true, of_true), (seen, of_answer))
    ]


def band_width(height: int, width: int) -> int:
    return max(1, round(WIDTH * float(np.hypot(height, width))))


def boundary_band(mask: NDArray[Any], distance: int) -> Flags:
    """Pixels from which a square of 2·distance + 1 pixels reaches another class or leaves the image."""
    height, width = mask.shape
    across = _reaches(mask[:, 1:] != mask[:, :-1], distance)
    down = _reaches((mask[1:] != mask[:-1]).T, distance).T
    # A square has one class where each of its rows has, and its middle column has.
    sums = np.zeros((height + 1, width), np.int32)
    np.cumsum(across, axis=0, dtype=np.int32, out=sums[1:])
    places = np.arange(height)
    low, high = np.maximum(places - distance, 0), np.minimum(places + distance + 1, height)
    band = down | (sums[high] > sums[low])
    band[:distance], band[height - min(distance, height) :] = True, True
    band[:, :distance], band[:, width - min(distance, width) :] = True, True
    return np.asarray(band)


def _reaches(changes: Flags, distance: int) -> Flags:
    """Whether a row changes within a distance of each pixel. `changes`: between each pixel and the next."""
    rows, gaps = changes.shape
    sums = np.zeros((rows, gaps + 1), np.int32)
    np.cumsum(changes, axis=1, dtype=np.int32, out=sums[:, 1:])
    places = np.arange(gaps + 1)
    low, high = np.maximum(places - distance, 0), np.minimum(places + distance, gaps)
    return np.asarray(sums[:, high] > sums[:, low])


def mask_figures(parts: MaskParts, weights: NDArray[Any]) -> Floats:
    """FIGURES for each row of weights (resamples × images), NaN where a class that they are about is absent."""
    right, true, answered = parts.everywhere.summed(weights)
    iou = _ratio(right, true + answered - right)
    # A class without true pixels in a resample leaves nothing to measure it on: what is answered there says no more
    # than how often it is answered wrongly.
    present = parts.in_truth
    defined = np.where(true > 0, 1.0, np.nan)[:, present]
    pixels = true.sum(axis=1)
    columns = (
        (iou[:, present] * defined).mean(axis=1),
        iou[:, present | parts.answered].mean(axis=1),
        _ratio(right.sum(axis=1), pixels),
        _ratio(right, true)[:, present].mean(axis=1),
        _ratio((true[:, present] * np.nan_to_num(iou[:, present])).sum(axis=1), pixels),
        (boundary_iou(parts, weights)[:, present] * defined).mean(axis=1),
    )
    return np.stack(columns, axis=1)


def class_iou(parts: MaskParts, weights: NDArray[Any]) -> Floats:
    """IoU of each class of `parts` (resamples × classes), NaN where no true pixel has the class."""
    right, true, answered = parts.everywhere.summed(weights)
    return np.where(true > 0, _ratio(right, true + answered - right), np.nan)


def boundary_iou(parts: MaskParts, weights: NDArray[Any]) -> Floats:
    right, true, answered = parts.near_boundaries.summed(weights)
    return _ratio(right, true + answered - right)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))
