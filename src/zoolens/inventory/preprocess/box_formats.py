"""How four numbers say a box, and how a model's boxes become pixels.

All work on float64 arrays of boxes × 4. Going to another format and back is exact for whole and half pixels; other
numbers may change in the last bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ManifestError, ModelError

Boxes = NDArray[np.float64]

FORMATS: Final = {
    "xyxy": "left, top, right, bottom",
    "yxyx": "top, left, bottom, right",
    "xywh": "left, top, width, height",
    "cxcywh": "centre x, centre y, width, height",
}


def convert(boxes: ArrayLike, given: str, wanted: str) -> Boxes:
    """Boxes in another format; refuses what is not finite, and right or bottom edges before left or top."""
    _check_format(wanted)
    corners = _to_corners(checked(boxes, given), given)
    left, top, right, bottom = corners.T
    if wanted == "yxyx":
        columns = [top, left, bottom, right]
    elif wanted == "xywh":
        columns = [left, top, right - left, bottom - top]
    elif wanted == "cxcywh":
        columns = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    else:
        columns = [left, top, right, bottom]
    return np.stack(columns, axis=1)


def to_pixels(boxes: ArrayLike, given: str, size: tuple[int, int]) -> Boxes:
    """Boxes whose numbers are shares of the image's sides, in pixels. `size`: height and width."""
    return checked(boxes, given) * _sides(given, size)


def to_shares(boxes: ArrayLike, given: str, size: tuple[int, int]) -> Boxes:
    """Boxes in pixels as shares of the image's sides. `size`: height and width."""
    return checked(boxes, given) / _sides(given, size)


def clip(boxes: ArrayLike, size: tuple[int, int]) -> Boxes:
    """Corners (xyxy, pixels) moved into the image; a box wholly outside becomes an empty one at the border."""
    height, width = size
    limits = np.array([width, height, width, height], np.float64)
    return np.clip(checked(boxes, "xyxy"), 0, limits)


def checked(boxes: ArrayLike, given: str) -> Boxes:
    """Boxes as float64, none of them without a meaning in the format."""
    _check_format(given)
    values = np.asarray(boxes, np.float64)
    if values.size == 0:
        return np.zeros((0, 4))
    if values.ndim != 2 or values.shape[1] != 4:
        raise ModelError(f"Boxes have shape {values.shape}; expected one row of 4 numbers for each box.")
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        place = int(np.flatnonzero(~finite)[0])
        raise ModelError(f"Box {place} is {values[place].tolist()}; its numbers must be finite.")
    extent = values[:, 2:] - values[:, :2] if given in ("xyxy", "yxyx") else values[:, 2:]
    negative = (extent < 0).any(axis=1)
    if negative.any():
        place = int(np.flatnonzero(negative)[0])
        raise ModelError(
            f"Box {place} is {values[place].tolist()}: read as {FORMATS[given]}, a side is negative.",
            hint=f"Is the format another one? Known: {', '.join(FORMATS)}.",
        )
    return values


def _to_corners(boxes: Boxes, given: str) -> Boxes:
    if given == "xyxy":
        return boxes
    if given == "yxyx":
        return boxes[:, [1, 0, 3, 2]]
    start = boxes[:, :2] - boxes[:, 2:] / 2 if given == "cxcywh" else boxes[:, :2]
    return np.concatenate([start, start + boxes[:, 2:]], axis=1)


def _sides(given: str, size: tuple[int, int]) -> Boxes:
    height, width = size
    if height < 1 or width < 1:
        raise ModelError(f"An image of {width} × {height} pixels has no boxes.")
    sides = [height, width] if given == "yxyx" else [width, height]
    return np.array(sides * 2, np.float64)


def _check_format(name: str) -> None:
    if name not in FORMATS:
        raise ManifestError(f"There is no box format {name!r}.", hint=f"Known: {', '.join(FORMATS)}.")
