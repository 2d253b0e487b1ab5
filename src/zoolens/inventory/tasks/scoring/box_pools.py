"""All detections of a class by score, as points of a curve of precision over recall.

Precision can only be largest at a detection that is matched, so that ordinary false ones are only counted in between.
A detection of weight 3 is there three times, one after the other. Its last copy has the highest precision and recall,
since (m + 1) / (t + 1) is at least m / t: one point of weight 3 says all. Detections of one image with equal scores are
repeated together, as a block: of those every copy is a point of its own, which is there where the weight is larger than
its number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.array_file import ArrayFile, MappedValue
from zoolens.inventory.tasks.scoring.box_lists import Flags, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, FALSE, IGNORED, MATCHED
from zoolens.inventory.tasks.scoring.box_parts import BoxParts, FoundBoxes

LIMITS: Final = (1, 10, 100)  # of detections of a class in an image, for average recall

T = TypeVar("T")
Places = NDArray[np.int32]
Patterns = NDArray[np.uint16 | np.int32]


@dataclass(frozen=True)
class Weighted:
    """Detections that are counted: as often as their image, or once where the image counts more often than `copy`."""

    place: Places  # of the image among those of the pool
    copied: Places  # which of them are copies
    copy: Places  # the number of each of these copies, from 0

    def weights(self, local: Integers) -> Integers:
        """Rows × detections. `local`: how often each image of the pool counts, rows × images."""
        found: Integers = local[:, self.place]
        if len(self.copied):
            found[:, self.copied] = found[:, self.copied] > self.copy
        return found


@dataclass(frozen=True)
class Points:
    """Detections of one class in one range of areas, by descending score."""

    events: Weighted
    matched: Flags  # events × thresholds
    # Events × thresholds: the detection counts. One column where all thresholds have the same.
    taken: Flags
    ordinary: Weighted  # false ones
    before: Places  # how many of the ordinary come before each event


@dataclass(frozen=True)
class _Ranged:
    """The detections of one class that are not ignored at all thresholds of one range of areas."""

    place: Places
    block: Places
    event: Flags
    tied: Flags  # in a block of several detections of which one is an event
    pattern: Patterns  # a row of each of the following
    matched: Flags  # combinations of outcomes × thresholds
    taken: Flags

    def points(self, copies: int) -> Points:
        """`copies`: the largest weight of an image."""
        chosen, copy = self._copies(copies)
        events = self.event[chosen]
        pattern = self.pattern[chosen[events]]
        taken = self.taken[pattern]
        return Points(
            events=self._weighted(chosen[events], copy[events]),
            matched=self.matched[pattern],
            taken=taken[:, :1] if (taken == taken[:, :1]).all() else taken,
            ordinary=self._weighted(chosen[~events], copy[~events]),
            before=np.cumsum(~events)[events].astype(np.int32),
        )

    def _copies(self, copies: int) -> tuple[Places, Places]:
        """Detections in the order in which they are counted, and which copy each of them is."""
        count = len(self.place)
        if copies == 1:
            return np.arange(count, dtype=np.int32), np.zeros(count, np.int32)
        each = np.where(self.tied, copies, 1)
        chosen = np.repeat(np.arange(count), each)
        copy = np.arange(len(chosen)) - np.repeat(np.cumsum(each) - each, each)
        # All detections of a block, then all again.
        order = np.lexsort((chosen, copy, self.block[chosen]))
        return chosen[order].astype(np.int32), copy[order].astype(np.int32)

    def _weighted(self, chosen: Places, copy: Places) -> Weighted:
        copied = np.flatnonzero(self.tied[chosen]).astype(np.int32)
        return Weighted(self.place[chosen], copied, copy[copied])


@dataclass(frozen=True)
class _Patterns:
    """What each combination of outcomes means: combinations × areas, and × thresholds."""

    matched: Flags
    taken: Flags
    event: Flags
    ordinary: Flags

    @classmethod
    def of(cls, found: FoundBoxes) -> _Patterns:
        matched, ignored = found.patterns == MATCHED, found.patterns == IGNORED
        # An event is what is matched at some threshold, and what is ignored at some but not at all.
        event = matched.any(axis=2) | (ignored.any(axis=2) & ~ignored.all(axis=2))
        return cls(matched, ~ignored, event, ~event & (found.patterns[:, :, 0] == FALSE))


class _Keeping:
    """Where the arrays of a pool are: in memory, or in a file where those of all pools are many."""

    def __init__(self, file: ArrayFile | None) -> None:
        self._file = file
        self._mapped: list[MappedValue[Any]] = []

    def keep(self, value: T) -> T:
        if self._file is None:
            return value
        kept = self._file.keep(value)
        self._mapped.append(kept)
        return kept.value

    def rest(self) -> None:
        for each in self._mapped:
            each.rest()


@dataclass(frozen=True)
class Pool:
    """Detections and true boxes of one class in all images that have one of them."""

    images: Places
    truths: Places  # areas × images: true boxes that count
    # Matched detections whose rank is below all of LIMITS but the last: their images, and whether each is matched at
    # each threshold within each limit, detections × (thresholds · limits).
    limited: Places
    within: Flags
    # Of a range of areas where no scores are equal, the points serve all weights, and nothing else is kept.
    areas: tuple[Points | _Ranged, ...]
    _keeping: _Keeping
    _copied: dict[int, tuple[int, Points]] = field(default_factory=dict, repr=False, compare=False)

    def points(self, area: int, copies: int) -> Points:
        """The curve's points in a range of areas, where no image counts more often than `copies`."""
        ranged = self.areas[area]
        if isinstance(ranged, Points):
            return ranged
        known = self._copied.get(area)
        # Copies that no image has change no sum.
        if known is None or known[0] < copies:
            known = self._copied[area] = copies, self._keeping.keep(ranged.points(copies))
        return known[1]

    def rest(self) -> None:
        """Takes no memory until it is used again, where it is in a file."""
        self._keeping.rest()


def pooled(parts: BoxParts, classes: Integers) -> list[Pool]:
    """A pool for each class. Detections of other classes enter no figure: these have no true boxes."""
    true = parts.true()
    by_class = np.argsort(true.label, kind="stable")
    bounds = np.searchsorted(true.label, [classes, classes + 1], sorter=by_class).T
    rows = [by_class[first:last] for first, last in bounds]
    file = ArrayFile() if parts.are_many else None
    return [
        _pool(parts.of_class(label), true.image[own], true.count[own], _Keeping(file))
        for label, own in zip(classes.tolist(), rows, strict=True)
    ]


def _pool(found: FoundBoxes, true_images: Places, counts: NDArray[np.int32], keeping: _Keeping) -> Pool:
    kinds = _Patterns.of(found)
    order = np.argsort(-found.score, kind="stable").astype(np.int32)
    score, image, rank, pattern = found.score[order], found.image[order], found.rank[order], found.pattern[order]
    del found, order
    there = np.zeros(1 + max(image.max(initial=-1), true_images.max(initial=-1)), bool)
    there[image], there[true_images] = True, True
    images = np.flatnonzero(there).astype(np.int32)
    places = np.cumsum(there, dtype=np.int32) - np.int32(1)
    place = places[image]
    truths = np.zeros((len(AREAS), len(images)), np.int32)
    truths[:, places[true_images]] = counts.T
    new = np.zeros(len(place), np.int32)
    new[1:] = (place[1:] != place[:-1]) | (score[1:] != score[:-1])
    block = np.cumsum(new, dtype=np.int32)
    is_matched: Flags = np.any(kinds.matched[:, 0], axis=1)
    early = np.flatnonzero((rank < LIMITS[-2]) & is_matched[pattern])
    below = rank[early][:, np.newaxis] < np.array(LIMITS[:-1])
    within = kinds.matched[pattern[early], 0][:, :, np.newaxis] & below[:, np.newaxis]
    flags = within.reshape(len(early), math.prod(within.shape[1:]))
    limited = place[early]
    del score, image, rank, places, new, early, below
    areas = tuple(keeping.keep(_in_range(area, kinds, pattern, place, block)) for area in range(len(AREAS)))
    del pattern, place, block
    return Pool(*keeping.keep((images, truths, limited, flags)), areas, keeping)


def _in_range(area: int, kinds: _Patterns, pattern: Patterns, place: Places, block: Places) -> Points | _Ranged:
    kept = np.flatnonzero((kinds.event | kinds.ordinary)[:, area][pattern])
    which, blocks = pattern[kept], block[kept]
    event = kinds.event[which, area]
    # A detection that is always ignored is seen by no sum, so that its block may be taken for one without it.
    tied = np.zeros(len(blocks), bool)
    # Most models have no two equal scores, and counting takes much memory.
    if (blocks[1:] == blocks[:-1]).any():
        tied = (np.bincount(blocks)[blocks] > 1) & (np.bincount(blocks, event)[blocks] > 0)
    ranged = _Ranged(place[kept], blocks, event, tied, which, kinds.matched[:, area], kinds.taken[:, area])
    return ranged if tied.any() else ranged.points(1)
