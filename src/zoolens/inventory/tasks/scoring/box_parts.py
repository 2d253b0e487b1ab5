"""What is kept of the matched boxes of many images: 17 bytes for each detection, beyond 4 MB in a temporary file.

The outcomes of a detection in four ranges of areas at ten thresholds are 40 numbers, but few combinations of them
occur: each is kept once, and a detection has its number. Images are added in pieces, so that the boxes of all of them
are never in memory, and detections are kept class by class, as they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.scoring.array_file import temporary_room
from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import AREAS, THRESHOLDS, ImageParts, ranks

_WIDTH: Final = len(AREAS) * len(THRESHOLDS)
_IN_MEMORY: Final = 1 << 22  # bytes
_AT_ONCE: Final = 1 << 20  # bytes that are written together: few rows of many classes are many places to read from
_ROW: Final = np.dtype([("score", "<f8"), ("image", "<i4"), ("pattern", "<i4"), ("rank", "u1")])
_NO_INTEGERS: Final = np.zeros(0, np.int32)
_NO_TRUTHS: Final = (_NO_INTEGERS, _NO_INTEGERS, np.zeros((0, len(AREAS)), np.int32))


@dataclass(frozen=True)
class FoundBoxes:
    """Detections of one class in all images, one image after the other; in an image by descending score."""

    image: NDArray[np.int32]
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
        self._rows = SpooledTemporaryFile(_IN_MEMORY, prefix="zoolens-")  # noqa: SIM115 - open as long as this object is
        self._runs: dict[int, list[tuple[int, int]]] = {}  # of each class: where rows of it begin, and how many follow
        self._end = 0
        self._waiting: list[tuple[Integers, NDArray[Any]]] = []  # classes and rows that are not written yet
        self._true: list[list[NDArray[Any]]] = [[column] for column in _NO_TRUTHS]

    @property
    def are_many(self) -> bool:
        """Whether there are so many detections that memory is to be saved."""
        return self._end > _IN_MEMORY

    def add(self, parts: Sequence[ImageParts]) -> None:
        if not parts:
            return
        places = np.arange(self.images, self.images + len(parts), dtype=np.int32)
        outcomes = np.concatenate([part.outcomes for part in parts], axis=2)
        labels = np.concatenate([part.classes for part in parts])
        rows = np.empty(len(labels), _ROW)
        rows["image"] = np.repeat(places, [len(part.scores) for part in parts])
        rows["score"] = np.concatenate([part.scores for part in parts])
        rows["rank"] = np.concatenate([ranks(part.classes) for part in parts])
        rows["pattern"] = self._numbered(outcomes.reshape(_WIDTH, -1))
        self._waiting.append((labels, rows))
        if sum(each.nbytes for _, each in self._waiting) > _AT_ONCE:
            self._write()
        true: tuple[NDArray[Any], ...] = (
            np.repeat(places, [len(part.truth_classes) for part in parts]),
            np.concatenate([part.truth_classes for part in parts]).astype(np.int32),
            np.concatenate([part.truth_counts for part in parts], axis=1).T.astype(np.int32),
        )
        for kept, new in zip(self._true, true, strict=True):
            kept.append(new)
        self.images += len(parts)

    def _write(self) -> None:
        """Writes what waits class by class, each in the order of the images."""
        if not self._waiting:
            return
        labels, rows = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting.clear()
        order = np.argsort(labels, kind="stable")
        classes, starts = np.unique(labels[order], return_index=True)
        counts = np.diff(starts, append=len(labels))
        for label, start, count in zip(classes.tolist(), starts.tolist(), counts.tolist(), strict=True):
            self._runs.setdefault(label, []).append((self._end + start * _ROW.itemsize, count))
        with temporary_room():
            self._rows.seek(self._end)
            self._rows.write(rows[order].tobytes())
        self._end += rows.nbytes

    def _numbered(self, outcomes: NDArray[np.int8]) -> Integers:
        """The numbers of combinations of outcomes, which are columns."""
        rows = np.ascontiguousarray(outcomes.T).view(f"V{_WIDTH}").reshape(-1)
        different, which = np.unique(rows, return_inverse=True)
        numbers = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in different]
        result: Integers = np.array(numbers, np.int64)[which.reshape(-1)]
        return result

    def of_class(self, label: int) -> FoundBoxes:
        """The detections of a class, in the order of the images. Columns are as narrow as what they hold allows."""
        self._write()
        runs = self._runs.get(label, [])
        count = sum(length for _, length in runs)
        image, pattern = np.empty(count, np.int32), np.empty(count, _narrow(len(self._numbers)))
        score, rank = np.empty(count, np.float64), np.empty(count, np.uint8)
        done = 0
        for begin, length in runs:
            self._rows.seek(begin)
            rows = np.frombuffer(self._rows.read(length * _ROW.itemsize), _ROW)
            some = slice(done, done + length)
            image[some], pattern[some] = rows["image"], rows["pattern"]
            score[some], rank[some] = rows["score"], rows["rank"]
            done += length
        patterns = np.frombuffer(b"".join(self._numbers), np.int8).reshape(-1, len(AREAS), len(THRESHOLDS))
        return FoundBoxes(image, _narrow_scores(score), rank, pattern, patterns)

    def true(self) -> TrueCounts:
        return TrueCounts(*map(_joined, self._true))

    @property
    def classes(self) -> Integers:
        """Classes that have true boxes."""
        return np.unique(self.true().label).astype(np.int64)


def _narrow(numbers: int) -> type[np.uint16] | type[np.int32]:
    """The type of so many numbers from 0 on."""
    return np.uint16 if numbers <= 1 << 16 else np.int32


def _narrow_scores(scores: Floats) -> NDArray[Any]:
    """Scores as runs keep them, where they are no others: half of the size."""
    narrow = scores.astype(np.float32)
    return narrow if (narrow == scores).all() else scores


def _joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    pieces[:] = [np.concatenate(pieces)]
    return pieces[0]
