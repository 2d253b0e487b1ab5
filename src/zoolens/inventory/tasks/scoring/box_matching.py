"""COCO's matching of detections with true boxes, image by image, as pycocotools 2.0.11 does it.

In each image and class, detections are taken by descending score. Each takes the free true box of the largest overlap
that is at least the threshold; of equal overlaps, the last one. True boxes that do not count (crowd regions, and those
outside the range of areas) are taken only where none that counts is free, and what takes them does not count either.

What is kept of an image suffices for every figure of every weighted set of images: `box_figures` has the sums.
One thing differs from pycocotools: there, a true box whose id is 0 can never be matched. Here boxes have no ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.box_lists import Detections, Flags, Floats, Integers, Truths

THRESHOLDS: Final = np.linspace(0.5, 0.95, 10)  # of overlap; np.arange would give values that are slightly larger
# Smallest and largest area in pixels, both inclusive.
AREAS: Final = {"all": (0.0, 1e10), "small": (0.0, 32.0**2), "medium": (32.0**2, 96.0**2), "large": (96.0**2, 1e10)}
MOST_DETECTIONS: Final = 100  # of one class in one image; those of lower score are dropped, as COCO drops them

MATCHED: Final = 1
FALSE: Final = 0
IGNORED: Final = -1

_OVERLAPS: Final = 1 << 16  # computed at once, 0.5 MB
# pycocotools lowers a threshold of 1 by this much; the literal is its own.
_LARGEST_THRESHOLD: Final = 1 - 1e-10


@dataclass(frozen=True)
class ImageParts:
    """What the figures need of one image. Detections are sorted by class, then by descending score."""

    classes: Integers  # of each detection
    scores: Floats
    # areas × thresholds × detections: MATCHED, FALSE or IGNORED
    outcomes: NDArray[np.int8]
    truth_classes: Integers  # ascending, each once
    truth_counts: Integers  # areas × truth_classes: the true boxes that count


def match_boxes(found: Detections, true: Truths) -> ImageParts:
    """Matches the boxes of one image, class by class."""
    order = best_of_each_class(found)
    boxes, classes, scores = found.boxes[order], found.classes[order], found.scores[order]
    ranges = np.array(list(AREAS.values()))
    outcomes = np.zeros((len(ranges), len(THRESHOLDS), len(order)), np.int8)
    outcomes -= _outside(boxes[:, 2] * boxes[:, 3], ranges)[:, np.newaxis]
    uncounted = true.crowds | _outside(true.areas, ranges)
    truth_classes = np.unique(true.classes)
    counts = np.zeros((len(ranges), len(truth_classes)), np.int64)
    for place, label in enumerate(truth_classes):
        members = np.flatnonzero(true.classes == label)
        first, last = np.searchsorted(classes, [label, label + 1])
        counts[:, place] = (~uncounted[:, members]).sum(axis=1)
        if first == last:
            continue
        matching = _Matching(true.crowds[members], uncounted[:, members])
        for detection, overlap in _near(boxes[first:last], true.boxes[members], true.crowds[members]):
            matching.take(overlap, outcomes[:, :, first + detection])
    return ImageParts(classes, scores, outcomes, truth_classes, counts)


def _near(boxes: Floats, others: Floats, crowds: Flags) -> Iterator[tuple[int, Floats]]:
    """The overlaps of each detection that reaches the least threshold with some true box."""
    rows = max(1, _OVERLAPS // len(others))
    for start in range(0, len(boxes), rows):
        found = overlaps(boxes[start : start + rows], others, crowds)
        for row in np.flatnonzero((found >= THRESHOLDS[0]).any(axis=1)).tolist():
            yield start + row, found[row]


def overlaps(boxes: Floats, others: Floats, crowds: Flags) -> Floats:
    """Intersection over union of detections with true boxes (detections × true boxes); over the detection's own area
    for crowd regions."""
    left, top, wide, high = (side[:, np.newaxis] for side in boxes.T)
    width = np.minimum(wide + left, others[:, 2] + others[:, 0]) - np.maximum(left, others[:, 0])
    height = np.minimum(high + top, others[:, 3] + others[:, 1]) - np.maximum(top, others[:, 1])
    meet = (width > 0) & (height > 0)
    shared = width * height
    area = wide * high
    union = np.where(crowds, area, area + others[:, 2] * others[:, 3] - shared)
    # Areas may underflow to 0 where widths do not; such boxes do not overlap.
    result: Floats = np.divide(shared, union, out=np.zeros(shared.shape), where=meet & (union > 0))
    return result


class _Matching:
    """The true boxes of one class in one image, and which of them are taken, for each area range and threshold."""

    def __init__(self, crowds: Flags, uncounted: Flags) -> None:
        self._crowds = crowds
        self._uncounted = uncounted
        self._thresholds = np.minimum(THRESHOLDS, _LARGEST_THRESHOLD)[:, np.newaxis]
        self._taken = np.zeros((len(uncounted), len(THRESHOLDS), len(crowds)), bool)

    def take(self, overlap: Floats, outcome: NDArray[np.int8]) -> None:
        """Matches the next detection, and writes its outcome (areas × thresholds) where it is matched."""
        near = np.flatnonzero(overlap >= self._thresholds[0])
        # Backwards, since argmax returns the first of equal values and the last is wanted.
        near = near[::-1]
        free = ~self._taken[:, :, near] & (overlap[near] >= self._thresholds)
        uncounted = self._uncounted[:, np.newaxis, near]
        counted = free & ~uncounted
        eligible = np.where(counted.any(axis=2, keepdims=True), counted, free)
        best = np.where(eligible, overlap[near], -1).argmax(axis=2)
        ranges, thresholds = np.nonzero(eligible.any(axis=2))
        chosen = near[best[ranges, thresholds]]
        self._taken[ranges, thresholds, chosen] = ~self._crowds[chosen]
        outcome[ranges, thresholds] = np.where(self._uncounted[ranges, chosen], IGNORED, MATCHED)


def best_of_each_class(found: Detections) -> Integers:
    """Places of the detections that are scored, by class and then by descending score."""
    # A stable sort: of equal scores, the detection that the model gave first comes first.
    order = np.argsort(-found.scores, kind="stable")
    order = order[np.argsort(found.classes[order], kind="stable")]
    kept: Integers = order[ranks(found.classes[order]) < MOST_DETECTIONS]
    return kept


def ranks(classes: Integers) -> Integers:
    """The place of each element of a sorted list among those of its class, from 0."""
    starts = np.searchsorted(classes, classes, side="left")
    result: Integers = np.arange(len(classes)) - starts
    return result


def _outside(areas: Floats, ranges: Floats) -> Flags:
    """Whether each area lies outside each range: ranges × areas."""
    result: Flags = (areas < ranges[:, :1]) | (areas > ranges[:, 1:])
    return result
