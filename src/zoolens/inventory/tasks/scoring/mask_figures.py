"""Parts of each image from which mIoU and its relatives follow, for any weights of the images.

The figures of a set of images are those of the summed counts of pixels, not means over images. Beside all pixels, those
near a boundary are counted: boundary IoU of Cheng et al., "Boundary IoU: Improving Object-Centric Image Segmentation
Evaluation" (CVPR 2021), with their width of 2 % of the image's diagonal. As in their code, the image's edge is a
boundary of what touches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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


# What is counted of a class, everywhere and then near boundaries: pixels answered rightly, true, and answered.
_RIGHT, _TRUE, _ANSWERED = range(3)
_KINDS: Final = 3


@dataclass(frozen=True)
class MaskParts:
    """Pixels of each class in each image that has it, sorted by class. Pixels without a truth are in no count."""

    classes: NDArray[np.int64]
    bounds: Counts  # class i has the rows bounds[i] to bounds[i + 1]
    image: NDArray[np.int32]
    pixels: NDArray[np.int32]  # rows × (everywhere, near boundaries) · (right, true, answered)

    @property
    def in_truth(self) -> Flags:
        """Classes that at least one true pixel has."""
        return self._any(_TRUE)

    @property
    def answered(self) -> Flags:
        """Classes of the dataset that at least one judged pixel was answered with."""
        return np.asarray(self._any(_ANSWERED) & (self.classes != ELSEWHERE))

    def summed(self, weights: NDArray[Any]) -> Floats:
        """Sums over images: resamples × classes × (everywhere, near boundaries) × (right, true, answered)."""
        # Sums of pixels below 2⁵³ are exact in float64, and quicker there.
        rows = weights.astype(np.float64)
        sums = np.zeros((len(rows), len(self.classes), self.pixels.shape[1]))
        for place, (first, last) in enumerate(pairwise(self.bounds)):
            sums[:, place] = rows[:, self.image[first:last]] @ self.pixels[first:last].astype(np.float64)
        return sums.reshape(len(rows), len(self.classes), 2, _KINDS)

    @property
    def true_pixels(self) -> Counts:
        """How many judged pixels each class has, over all images."""
        return np.array([self.pixels[first:last, _TRUE].sum() for first, last in pairwise(self.bounds)], np.int64)

    def _any(self, kind: int) -> Flags:
        there = self.pixels[:, kind] != 0
        return np.array([there[first:last].any() for first, last in pairwise(self.bounds)], bool)


class MaskCounts:
    """Counts of images, which are added in pieces: some 30 bytes for each class that an image has."""

    def __init__(self) -> None:
        self._images = 0
        self._accuracies: list[Floats] = []
        self._pieces: list[tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.int32]]] = []
        self._columns = np.zeros(_CODES, np.int64)

    def add(self, pairs: Sequence[tuple[MaskRuns, MaskRuns]]) -> None:
        """The true and the answered mask of images that follow; both have one size."""
        if not pairs:
            return
        classes = [_classes(*pair) for pair in pairs]
        counts = []
        for pair, own in zip(pairs, classes, strict=True):
            self._columns[own] = np.arange(len(own))
            counts.append(_counts(*pair, self._columns, len(own)))
        right, judged = (np.array([count[0, kind].sum() for count in counts]) for kind in (_RIGHT, _TRUE))
        self._accuracies.append(np.where(judged > 0, right / np.maximum(judged, 1), 1.0))
        places = np.arange(self._images, self._images + len(pairs), dtype=np.int32)
        image = np.repeat(places, [len(own) for own in classes])
        pixels = np.concatenate([count.reshape(2 * _KINDS, -1) for count in counts], axis=1).T
        self._pieces.append((image, np.concatenate(classes).astype(np.uint16), pixels.astype(np.int32)))
        self._images += len(pairs)

    @property
    def accuracies(self) -> Floats:
        """The share of the judged pixels of each image that are answered rightly; 1 where none is judged."""
        return np.concatenate([*self._accuracies, np.zeros(0)])

    def parts(self) -> MaskParts:
        image, label, pixels = (np.concatenate(column) for column in zip(_NOTHING, *self._pieces, strict=True))
        order = np.argsort(label, kind="stable")
        classes, starts = np.unique(label[order], return_index=True)
        return MaskParts(classes.astype(np.int64), np.append(starts, len(order)), image[order], pixels[order])


_NOTHING: Final = (np.zeros(0, np.int32), np.zeros(0, np.uint16), np.zeros((0, 2 * _KINDS), np.int32))


def mask_parts(true: Sequence[MaskRuns], answered: Sequence[MaskRuns]) -> MaskParts:
    """Counts of all images. The two masks of an image must have one size."""
    counts = MaskCounts()
    counts.add(list(zip(true, answered, strict=True)))
    return counts.parts()


def _classes(true: MaskRuns, answered: MaskRuns) -> Counts:
    found = np.unique(np.concatenate([true.classes, answered.classes]))
    return np.asarray(found[found != UNJUDGED], np.int64)


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
    return _figures(parts, parts.summed(weights))


def class_iou(parts: MaskParts, weights: NDArray[Any]) -> Floats:
    """IoU of each class of `parts` (resamples × classes), NaN where no true pixel has the class."""
    return _class_iou(parts.summed(weights))


def figures_and_classes(parts: MaskParts, weights: NDArray[Any]) -> Floats:
    """`mask_figures`, and then `class_iou` of the classes that the truth has."""
    sums = parts.summed(weights)
    return np.concatenate([_figures(parts, sums), _class_iou(sums)[:, parts.in_truth]], axis=1)


def _figures(parts: MaskParts, sums: Floats) -> Floats:
    right, true, answered = np.moveaxis(sums[:, :, 0], 2, 0)
    iou = _ratio(right, true + answered - right)
    # A class without true pixels in a resample leaves nothing to measure it on: what is answered there says no more
    # than how often it is answered wrongly.
    present = parts.in_truth
    defined = np.where(true > 0, 1.0, np.nan)[:, present]
    pixels = true.sum(axis=1)
    columns = (
        (iou[:, present] * defined).mean(axis=1),
        iou[:, present | parts.answered].mean(axis=1) * defined.mean(axis=1),
        _ratio(right.sum(axis=1), pixels),
        _ratio(right, true)[:, present].mean(axis=1),
        _ratio((true[:, present] * np.nan_to_num(iou[:, present])).sum(axis=1), pixels),
        (_boundary_iou(sums)[:, present] * defined).mean(axis=1),
    )
    return np.stack(columns, axis=1)


def _class_iou(sums: Floats) -> Floats:
    right, true, answered = np.moveaxis(sums[:, :, 0], 2, 0)
    return np.where(true > 0, _ratio(right, true + answered - right), np.nan)


def _boundary_iou(sums: Floats) -> Floats:
    right, true, answered = np.moveaxis(sums[:, :, 1], 2, 0)
    return _ratio(right, true + answered - right)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.asarray(np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0))
