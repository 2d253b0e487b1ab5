"""What is kept of the matched boxes of many images, in about 13 bytes for each detection.

The outcomes of a detection in four ranges of areas at ten thresholds are 40 numbers, but few combinations of them
occur: each is kept once, and a detection has its number. Images are added in pieces, so that the boxes of all of them
are never in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, ImageParts, ranks

_WIDTH: Final = len(AREAS) * len(THRESHOLDS)
_LABEL: Final = 1  # its place among the columns of FoundBoxes
_NO_INTEGERS: Final = np.zeros(0, np.int32)
_NO_DETECTIONS: Final[tuple[NDArray[Any], ...]] = (
    _NO_INTEGERS,
    np.zeros(0, np.uint16),
    np.zeros(0, np.float32),
    np.zeros(0, np.uint8),
    np.zeros(0, np.uint16),
)
_FEW_CLASSES: Final = 256  # each is looked for by itself: to sort all detections takes 16 bytes for each, for a moment
_NO_TRUTHS: Final = (_NO_INTEGERS, _NO_INTEGERS, np.zeros((0, len(AREAS)), np.int32))


@dataclass(frozen=True)
class FoundBoxes:
    """Detections of all images, one after the other; in an image by class and then by descending score. Columns are as
    narrow as what they hold allows."""

    image: NDArray[np.int32]
    label: NDArray[np.uint16 | np.int32]
    score: NDArray[np.float32 | np.float64]
    rank: NDArray[np.uint8]  # among those of its class in its image, from 0
    pattern: NDArray[np.uint16 | np.int32]  # a row of `patterns`
    patterns: NDArray[np.int8]  # rows × areas × thresholds


@dataclass(frozen=True)
class TrueCounts:
    """How many true boxes count, for each class that an image has, in each range of areas."""

    image: NDArray[np.int32]
    label: NDArray[np.int32]
    count: NDArray[np.int32]  # rows × areas


class BoxParts:
    """The parts of images that were added so far, in the order of their ids."""

    def __init__(self) -> None:
        self.images = 0
        self._numbers: dict[bytes, int] = {}  # of each combination of outcomes
        # Column by column, so that pieces can be joined without a second copy of all.
        self._found: list[list[NDArray[Any]]] = [[column] for column in _NO_DETECTIONS]
        self._true: list[list[NDArray[Any]]] = [[column] for column in _NO_TRUTHS]

    def add(self, parts: Sequence[ImageParts]) -> None:
        if not parts:
            return
        places = np.arange(self.images, self.images + len(parts), dtype=np.int32)
        outcomes = np.concatenate([part.outcomes for part in parts], axis=2)
        found: tuple[NDArray[Any], ...] = (
            np.repeat(places, [len(part.scores) for part in parts]),
            _narrow_integers(np.concatenate([part.classes for part in parts])),
            _narrow_scores(np.concatenate([part.scores for part in parts])),
            np.concatenate([ranks(part.classes) for part in parts]).astype(np.uint8),
            _narrow_integers(self._numbered(outcomes.reshape(_WIDTH, -1))),
        )
        true: tuple[NDArray[Any], ...] = (
            np.repeat(places, [len(part.truth_classes) for part in parts]),
            np.concatenate([part.truth_classes for part in parts]).astype(np.int32),
            np.concatenate([part.truth_counts for part in parts], axis=1).T.astype(np.int32),
        )
        for kept, new in zip((*self._found, *self._true), (*found, *true), strict=True):
            kept.append(new)
        self.images += len(parts)

    def _numbered(self, outcomes: NDArray[np.int8]) -> Integers:
        """The numbers of combinations of outcomes, which are columns."""
        rows = np.ascontiguousarray(outcomes.T).view(f"V{_WIDTH}").reshape(-1)
        different, which = np.unique(rows, return_inverse=True)
        numbers = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in different]
        result: Integers = np.array(numbers, np.int64)[which.reshape(-1)]
        return result

    def found(self) -> FoundBoxes:
        image, label, score, rank, pattern = map(_joined, self._found)
        patterns = np.frombuffer(b"".join(self._numbers), np.int8).reshape(-1, len(AREAS), len(THRESHOLDS))
        return FoundBoxes(image, label, score, rank, pattern, patterns)

    def true(self) -> TrueCounts:
        return TrueCounts(*map(_joined, self._true))

    def take(self, classes: Integers) -> Iterator[FoundBoxes]:
        """The detections of each of these classes, in the order of the images. The parts give up what they hold, column
        by column, so that there is never a second copy of all: afterwards there are no detections."""
        patterns = self.found().patterns
        (labels,) = self._found[_LABEL]
        places = _places_of(labels, classes)
        del labels
        columns: list[list[NDArray[Any]]] = []  # of each the classes, the last first
        for held, nothing in zip(self._found, _NO_DETECTIONS, strict=True):
            (column,) = held
            columns.append([column[own] for own in reversed(places)])
            held[:] = [nothing]
            del column
        del places
        while columns[0]:
            image, label, score, rank, pattern = (column.pop() for column in columns)
            yield FoundBoxes(image, label, score, rank, pattern, patterns)

    @property
    def classes(self) -> Integers:
        """Classes that have true boxes."""
        return np.unique(self.true().label).astype(np.int64)


def _places_of(labels: NDArray[Any], classes: Integers) -> list[NDArray[np.int32]]:
    """Where the detections of each class are, in their order."""
    if len(classes) <= _FEW_CLASSES:
        return [np.flatnonzero(labels == label).astype(np.int32) for label in classes]
    order = np.argsort(labels, kind="stable").astype(np.int32)
    bounds = np.searchsorted(labels, [classes, classes + 1], sorter=order).T
    return [order[first:last] for first, last in bounds]


def _narrow_integers(values: NDArray[Any]) -> NDArray[Any]:
    fits = values.min(initial=0) >= 0 and values.max(initial=0) <= np.iinfo(np.uint16).max
    return values.astype(np.uint16 if fits else np.int32)


def _narrow_scores(scores: Floats) -> NDArray[Any]:
    """Scores as runs keep them, where they are no others: joined with wider ones, they become these again."""
    narrow = scores.astype(np.float32)
    return narrow if (narrow == scores).all() else scores


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    pieces[:] = [np.concatenate(pieces)]
    return pieces[0]
