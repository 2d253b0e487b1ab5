"""Boxes of one image that were checked once: what a model detected, and what the dataset says is there.

Boxes are COCO's: left, top, width and height in pixels, float64. Nothing is clipped to the image, since COCO's own
evaluation clips nothing. What cannot be scored is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError, ModelError, ZoolensError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MAX_BOXES: Final = 1 << 17  # of one image; a raw grid of 1280 × 1280 pixels has 33,600


@dataclass(frozen=True)
class Detections:
    """The boxes that a model found in one image; made by `detections`, which checks them."""

    boxes: Floats
    classes: Integers
    scores: Floats

    def __len__(self) -> int:
        return len(self.boxes)

    def above(self, score: float) -> Detections:
        """The boxes of at least this score, in the same order."""
        kept = self.scores >= score
        return Detections(self.boxes[kept], self.classes[kept], self.scores[kept])


@dataclass(frozen=True)
class Truths:
    """The boxes that the dataset has for one image; made by `truths`, which checks them."""

    boxes: Floats
    classes: Integers
    # In pixels: of the object's mask where the dataset has one, which is less than that of its box.
    areas: Floats
    # Regions of many objects that were not drawn one by one: no detection inside one counts for or against a model.
    crowds: Flags

    def __len__(self) -> int:
        return len(self.boxes)


def detections(boxes: ArrayLike, classes: ArrayLike, scores: ArrayLike, known: Iterable[int]) -> Detections:
    """Checks a model's boxes of one image. `known`: the dataset's classes."""
    found = _boxes(boxes, "The model's", ModelError)
    numbers = _classes(classes, len(found), known, "The model's", ModelError)
    values = _floats(scores, "The model's scores", ModelError)
    if values.shape != (len(found),):
        raise ModelError(f"The model has {len(found)} boxes, but scores of shape {values.shape}.")
    if not np.isfinite(values).all():
        place = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ModelError(f"The model's score of box {place} is {values[place]}; a score must be finite.")
    return Detections(found, numbers, values)


def truths(
    boxes: ArrayLike,
    classes: ArrayLike,
    known: Iterable[int],
    *,
    areas: ArrayLike | None = None,
    crowds: ArrayLike | None = None,
    size: tuple[int, int] | None = None,
) -> Truths:
    """Checks a dataset's boxes of one image. `areas`: those of the boxes where none are given. `size`: height and
    width of the image; a box that lies wholly outside it is refused."""
    found = _boxes(boxes, "The dataset's", DatasetError)
    numbers = _classes(classes, len(found), known, "The dataset's", DatasetError)
    covered = found[:, 2] * found[:, 3] if areas is None else _floats(areas, "The dataset's areas", DatasetError)
    marks = np.zeros(len(found), bool) if crowds is None else np.asarray(crowds, bool)
    if covered.shape != (len(found),) or marks.shape != (len(found),):
        raise DatasetError(
            f"The dataset has {len(found)} boxes, but areas of shape {covered.shape} and crowd marks of shape "
            f"{marks.shape}."
        )
    if not (np.isfinite(covered) & (covered >= 0)).all():
        place = int(np.flatnonzero(~(np.isfinite(covered) & (covered >= 0)))[0])
        raise DatasetError(f"The dataset's area of box {place} is {covered[place]}; an area must be at least 0.")
    if size is not None:
        _check_inside(found, size)
    return Truths(found, numbers, covered, marks)


def _boxes(boxes: ArrayLike, whose: str, error: type[ZoolensError]) -> Floats:
    values = _floats(boxes, f"{whose} boxes", error)
    if values.size == 0:
        return np.zeros((0, 4))
    if values.ndim != 2 or values.shape[1] != 4:
        raise error(f"{whose} boxes have shape {values.shape}; expected one row of 4 numbers for each box.")
    if len(values) > MAX_BOXES:
        raise error(f"{whose} boxes of one image number {len(values):,}; at most {MAX_BOXES:,} can be scored.")
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        place = int(np.flatnonzero(~finite)[0])
        raise error(f"{whose} box {place} is {values[place].tolist()}; its numbers must be finite.")
    if (values[:, 2:] < 0).any():
        place = int(np.flatnonzero((values[:, 2:] < 0).any(axis=1))[0])
        raise error(
            f"{whose} box {place} has width {values[place, 2]:g} and height {values[place, 3]:g}; neither may be "
            "negative.",
            hint="Are its numbers left, top, width and height?",
        )
    return values


def _classes(classes: ArrayLike, count: int, known: Iterable[int], whose: str, error: type[ZoolensError]) -> Integers:
    given: NDArray[Any] = np.asarray(classes)
    if count == 0 and given.size == 0:
        return np.zeros(0, np.int64)
    if given.shape != (count,) or given.dtype.kind not in "iuf":
        raise error(f"{whose} classes must be one number for each of {count} boxes; got shape {given.shape}.")
    # NaN and infinities are no members of any set of classes.
    unknown = np.flatnonzero(~np.isin(given, np.fromiter(known, np.int64)))
    if len(unknown):
        place = int(unknown[0])
        raise error(f"{whose} box {place} has class {given[place]:g}, which is no class of the dataset.")
    return given.astype(np.int64)


def _floats(values: ArrayLike, what: str, error: type[ZoolensError]) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as reason:
        raise error(f"{what} are not an array of numbers.") from reason


def _check_inside(boxes: Floats, size: tuple[int, int]) -> None:
    height, width = size
    left, top = boxes[:, 0], boxes[:, 1]
    outside = (left >= width) | (top >= height) | (left + boxes[:, 2] < 0) | (top + boxes[:, 3] < 0)
    if outside.any():
        place = int(np.flatnonzero(outside)[0])
        raise DatasetError(
            f"The dataset's box {place}, {boxes[place].tolist()}, lies outside its image of {width} × {height} pixels."
        )
