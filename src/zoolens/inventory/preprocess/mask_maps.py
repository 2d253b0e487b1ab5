"""From a model's map of classes, or of scores, to one class for each pixel of the image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema_masks import Masks
from zoolens.inventory.preprocess import kernels
from zoolens.inventory.preprocess.letterbox import Framing, Size, framing, mask_back
from zoolens.inventory.runtimes.runtime import shape_text

Array = NDArray[Any]
Weights = NDArray[np.float32]

MAX_PIXELS: Final = 1 << 26  # of a mask, as many as of an image
_BAND: Final = 1 << 24  # scores that are interpolated at once, 64 MiB

# One input's map of classes, at the image's size where the frame says it.
MapReader = Callable[[Array, Framing | None], Array]


def map_reader(step: Masks, half: float) -> MapReader:
    """How the map of one input is read. `half`: the score from which on class 1 of two is answered, where there is one
    score for both."""
    if step.layout == "NHW":
        return lambda raw, frame: _resized(_plain_map(raw), frame)
    return lambda raw, frame: _of_scores(_planes(raw, step), frame, step, half)


def _plain_map(raw: Array) -> Array:
    """Numbers of classes, height × width, which may come with an axis of 1 for channels."""
    squeezed = raw
    if raw.ndim == 3 and 1 in (raw.shape[0], raw.shape[2]):
        squeezed = raw[0] if raw.shape[0] == 1 else raw[:, :, 0]
    if squeezed.ndim != 2:
        raise ModelError(
            f"The output has shape {shape_text(raw.shape)} for one input, which is no map of class numbers.",
            hint="Where it has a score for each class, say so in the manifest: op: masks, layout: NCHW or NHWC.",
        )
    if squeezed.dtype.kind == "f":
        if not np.isfinite(squeezed).all():
            raise ModelError("The model's mask has pixels that are NaN or infinite.")
        if (squeezed % 1).any():
            raise ModelError(
                f"The model's mask has {squeezed[squeezed % 1 != 0][0]:.4g} among its numbers of classes.",
                hint="Are these scores? Then say so in the manifest: op: masks, layout: NCHW or NHWC.",
            )
        return squeezed.astype(np.int64)
    return squeezed


def _planes(raw: Array, step: Masks) -> Array:
    """Scores of one input as classes × height × width."""
    if raw.ndim != 3:
        raise ModelError(
            f"The output has shape {shape_text(raw.shape)} for one input; layout {step.layout} has three axes.",
            hint="Correct the layout of op: masks in the manifest.",
        )
    planes = raw if step.layout == "NCHW" else raw.transpose(2, 0, 1)
    if not np.isfinite(planes).all():
        raise ModelError("The model's scores of classes are NaN or infinite at some pixels.")
    return planes


def _of_scores(planes: Array, frame: Framing | None, step: Masks, half: float) -> Array:
    classes = len(planes)
    if any(number >= classes for number in step.drop) or len(set(step.drop)) == classes:
        raise ManifestError(
            f"drop names {list(step.drop)}, but the model has scores of the classes 0 to {classes - 1}."
        )
    # A single score: the other class has what is left of it.
    alone = classes == 1
    kept = np.setdiff1d(np.arange(classes), step.drop)

    def highest(scores: Array) -> Array:
        best = np.asarray(scores[0] > half, np.int64) if alone else kept[scores.argmax(axis=0)]
        return np.asarray(best)

    chosen = planes if len(kept) == classes else planes[kept]
    if frame is None or step.resize == "nearest":
        return _resized(highest(chosen), frame)
    return _interpolated(chosen, frame, highest)


def _interpolated(planes: Array, frame: Framing, highest: Callable[[Array], Array]) -> Array:
    """The highest of interpolated scores, a few rows of the image at a time."""
    rows, columns = (_axis(planes.shape[1 + axis], frame, axis) for axis in range(2))
    count, height, width = planes.shape
    across = (planes.astype(np.float32).reshape(count * height, width) @ columns.T).reshape(count, height, -1)
    step = max(1, _BAND // max(1, count * across.shape[2]))
    return np.concatenate([highest(rows[low : low + step] @ across) for low in range(0, len(rows), step)])


def _axis(given: int, frame: Framing, axis: int) -> Weights:
    """Weights from the map's pixels to the image's along one axis."""
    image, canvas = frame.image[axis], frame.canvas[axis]
    if frame.content == frame.canvas:
        return kernels.interpolated(given, image, "linear")
    # First to the canvas, whose padding is cut off, then to the image.
    onto = kernels.interpolated(given, canvas, "linear")[frame.window[axis]]
    back: Weights = kernels.interpolated(frame.content[axis], image, "linear") @ onto
    return back


def _resized(classes: Array, frame: Framing | None) -> Array:
    """A map of classes at the image's size: each pixel takes the class at its centre."""
    if frame is None:
        return classes
    _check_size(frame.image)
    given: Size = (classes.shape[0], classes.shape[1])
    if frame.content == frame.canvas:
        return mask_back(classes, framing("stretch", frame.image, given))
    on_canvas = classes if given == frame.canvas else mask_back(classes, framing("stretch", frame.canvas, given))
    return mask_back(on_canvas, frame)


def _check_size(size: Size) -> None:
    if size[0] * size[1] > MAX_PIXELS:
        raise ModelError(f"A mask of {size[1]} × {size[0]} pixels is too large; at most {MAX_PIXELS:,} are kept.")
