"""Inputs that no sample has as such: constants that a manifest declares, and sizes of the image beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.preprocess.array_inputs import Prepare
from zoolens.inventory.runtimes.runtime import TensorSpec, shape_text

Array = NDArray[Any]


def constant_values(spec: TensorSpec, value: float | tuple[float, ...]) -> Array:
    """A declared constant in the input's type and shape; dimensions that the file leaves free are 1."""
    dtype = np.dtype(spec.dtype)
    if dtype.kind not in "biuf":
        raise ManifestError(f"The input {spec.name} is {spec.dtype}; constants are numbers, or true and false.")
    wide = np.asarray(value, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        held = wide.astype(dtype)
    if dtype.kind in "biu" and not (held == wide).all():
        raise ManifestError(f"The input {spec.name} takes {spec.dtype}, which {value} is not.")
    shape = tuple(1 if extent is None else extent for extent in spec.shape)
    if held.size not in (1, int(np.prod(shape))):
        raise ManifestError(
            f"The input {spec.name} takes {shape_text(spec.shape)}, but its constant has {held.size} numbers."
        )
    return np.array(np.broadcast_to(held.reshape(() if held.size == 1 else shape), shape))


def image_sizes(declared: Input, spec: TensorSpec, image: Prepare, value: Array) -> Array:
    """Two numbers about the image of a sample: its size, that on the canvas, or the scale between them."""
    assert declared.size is not None  # the schema sees to it
    what, _, order = declared.size.partition("_")
    size = (value.shape[0], value.shape[1])
    if what == "image":
        numbers: tuple[float, ...] = size
    else:
        content = image.framing(size).content
        numbers = content if what == "content" else tuple(new / old for new, old in zip(content, size, strict=True))
    dtype = np.dtype(spec.dtype)
    if dtype.kind not in "iuf" or (what == "scale" and dtype.kind != "f"):
        raise ManifestError(f"The input {spec.name} is {spec.dtype}, which cannot hold {declared.size}.")
    return np.array(numbers if order == "hw" else numbers[::-1], dtype)
