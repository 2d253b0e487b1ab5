"""Where an image lies on a model's fixed canvas, and the way back for boxes and masks.

- `stretch`: the image fills the canvas; each axis has its own scale.
- `letterbox`: one scale, sides rounded, centred, the odd pixel of padding below and on the right (Ultralytics).
- `top_left`: one scale, sides truncated, in the top left corner (DeepLab's demo).

A manifest may declare another rounding of the sides for either.

Sides are rounded to whole pixels, so the two axes of a letterbox scale slightly differently. The way back divides by
each axis' own scale, which undoes exactly what was done to the pixels; Ultralytics divides both by the unrounded one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.manifests.schema_boxes import Letterbox
from zoolens.inventory.manifests.schema_steps import Normalize, Resize, Step
from zoolens.inventory.preprocess.box_formats import Boxes, checked
from zoolens.inventory.preprocess.resize import resize, target_size

Size = tuple[int, int]  # height and width
FITS: Final = ("stretch", "letterbox", "top_left")
_ROUNDINGS: Final[dict[str, Callable[[float], int]]] = {"round": round, "floor": math.floor, "ceil": math.ceil}


@dataclass(frozen=True)
class Framing:
    """An image of one size on a canvas: `content` is the image's size there, `corner` its top and left."""

    image: Size
    canvas: Size
    content: Size
    corner: Size

    @property
    def window(self) -> tuple[slice, slice]:
        """The rows and columns of the canvas that the image covers."""
        (top, left), (height, width) = self.corner, self.content
        return slice(top, top + height), slice(left, left + width)


def framing(fit: str, image: Size, canvas: Size, rounding: str | None = None) -> Framing:
    """Where an image of this size lies on the canvas. `rounding`: of its sides there; None: that of the fit."""
    if fit not in FITS:
        raise ManifestError(f"There is no fit {fit!r} of an image.", hint=f"Known: {', '.join(FITS)}.")
    if min(*image, *canvas) < 1:
        raise DatasetError(f"An image of {image[1]} × {image[0]} pixels cannot lie on {canvas[1]} × {canvas[0]}.")
    if fit == "stretch":
        return Framing(image, canvas, canvas, (0, 0))
    scale = min(canvas[0] / image[0], canvas[1] / image[1])
    shrink = _ROUNDINGS[rounding or ("round" if fit == "letterbox" else "floor")]
    # The side that decides the scale may come out a hair above the canvas, and ceil would make a pixel of it.
    content = (min(shrink(image[0] * scale), canvas[0]), min(shrink(image[1] * scale), canvas[1]))
    if min(content) < 1:
        raise DatasetError(
            f"An image of {image[1]} × {image[0]} pixels is too narrow: on {canvas[1]} × {canvas[0]} nothing is left."
        )
    if fit == "top_left":
        return Framing(image, canvas, content, (0, 0))
    # Less than half a pixel is subtracted, so that an odd pixel goes below and to the right.
    top, left = (round((room - side) / 2 - 0.1) for room, side in zip(canvas, content, strict=True))
    return Framing(image, canvas, content, (top, left))


def declared_framing(steps: Sequence[Step], image: Size) -> Framing:
    """Where an image of this size lies on the canvas that a manifest's steps make of it."""
    shaping = [step for step in steps if not isinstance(step, Normalize)]
    if not shaping:
        return framing("stretch", image, image)
    first = shaping[0]
    if len(shaping) > 1 or not isinstance(first, Resize | Letterbox):
        raise ManifestError(
            "Boxes and masks cannot be brought back into the image after "
            f"{' and then '.join(step.op for step in shaping)}.",
            hint="Declare a single step that keeps the whole image: resize or letterbox.",
        )
    if isinstance(first, Resize):
        return framing("stretch", image, target_size(*image, first.size))
    return framing(first.fit, image, first.size, first.rounding)


def place_image(pixels: NDArray[Any], frame: Framing, fill: float, method: str, library: str) -> NDArray[Any]:
    """The canvas with the resized image on it. Height × width × channels in and out; `fill`: the padding's value."""
    _check_size(pixels.shape[:2], frame.image, "The image")
    content = resize(pixels, frame.content, method, library)
    canvas = np.full((*frame.canvas, pixels.shape[2]), fill, content.dtype)
    canvas[frame.window] = content
    return canvas


def boxes_onto(boxes: ArrayLike, frame: Framing) -> Boxes:
    """Corners (xyxy) in pixels of the image, as pixels of the canvas."""
    scale, corner = _scale(frame)
    return checked(boxes, "xyxy") * scale + corner


def boxes_back(boxes: ArrayLike, frame: Framing) -> Boxes:
    """Corners (xyxy) in pixels of the canvas, as pixels of the image. Boxes on the padding lie outside the image."""
    scale, corner = _scale(frame)
    result: Boxes = (checked(boxes, "xyxy") - corner) / scale
    return result


def mask_onto(mask: NDArray[Any], frame: Framing, fill: int) -> NDArray[Any]:
    """A mask of classes (height × width) on the canvas, by the pixel that holds each centre."""
    _check_size(mask.shape, frame.image, "The mask")
    canvas = np.full(frame.canvas, fill, mask.dtype)
    canvas[frame.window] = _nearest(mask, frame.content)
    return canvas


def mask_back(mask: NDArray[Any], frame: Framing) -> NDArray[Any]:
    """A mask of the canvas at the image's size: padding cut off, then the pixel that holds each centre.

    It undoes `mask_onto` exactly where the image was not shrunk: (j + 0.5)·h/c, for the canvas pixel j that holds the
    centre of image pixel i, differs from i + 0.5 by at most 0.5·h/c, which is less than 0.5 or is not reached.
    """
    _check_size(mask.shape, frame.canvas, "The mask")
    return _nearest(mask[frame.window], frame.image)


def _nearest(mask: NDArray[Any], size: Size) -> NDArray[Any]:
    # In integers, since a centre on the edge between two pixels must always fall on the same side.
    rows, columns = (
        (2 * np.arange(wanted) + 1) * given // (2 * wanted) for given, wanted in zip(mask.shape, size, strict=True)
    )
    result: NDArray[Any] = mask[rows[:, np.newaxis], columns]
    return result


def _scale(frame: Framing) -> tuple[Boxes, Boxes]:
    height, width = (have / had for have, had in zip(frame.content, frame.image, strict=True))
    top, left = frame.corner
    return np.array([width, height] * 2), np.array([left, top] * 2, np.float64)


def _check_size(shape: tuple[int, ...], wanted: Size, what: str) -> None:
    if shape != wanted:
        raise ModelError(f"{what} has shape {shape}; expected {wanted[0]} × {wanted[1]}.")
