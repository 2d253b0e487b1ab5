"""Images of single lines of text at one height, whose width is that of the text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.manifests.schema_steps import ResizeHeight
from zoolens.inventory.preprocess.resize import resize

Array = NDArray[Any]


def line_width(height: int, width: int, step: ResizeHeight) -> int:
    """Width of an image at the declared height, before it is filled up: rounded up, and where that exceeds the least
    width rounded down, as PaddleOCR does."""
    if min(height, width) < 1:
        raise DatasetError(f"An image of {width} × {height} pixels holds no text.")
    exact = step.height * width / height
    return min(math.ceil(exact), max(step.width[0], math.floor(exact)), step.width[1])


def place_line(image: Array, step: ResizeHeight) -> Array:
    """Height × width × channels in and out."""
    width = line_width(image.shape[0], image.shape[1], step)
    content = resize(image, (step.height, width), step.method, step.library)
    missing = step.width[0] - width
    if missing <= 0:
        return content
    # A padding of half a grey level is the zero of pixels that are normalised to −1…1.
    whole = content.dtype.kind == "f" or step.fill == int(step.fill)
    padding = np.full((step.height, missing, content.shape[2]), step.fill, content.dtype if whole else np.float32)
    return np.concatenate([content, padding], axis=1)
