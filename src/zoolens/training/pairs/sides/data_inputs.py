"""Samples of a dataset as inputs: images with their channels first and values from 0 to 1, other data as they are."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.preprocess.resize import resize
from zoolens.training.pairs.sides.network_sides import InputShape


def data_inputs(spec: str, given: InputShape, limit: int) -> list[list[NDArray[Any]]]:
    """The first samples of a dataset, each as a batch of one for a network's only input.

    An image of another size is resized by PIL (bilinear); a grey one is repeated where three channels are asked for.
    """
    with closing(open_dataset(spec, limit=limit)) as dataset:
        return [[_fitted(dataset.read(index).value, given, spec)] for index in range(len(dataset))]


def _fitted(value: NDArray[Any], given: InputShape, spec: str) -> NDArray[Any]:
    if value.dtype == np.uint8 and value.ndim == 3 and len(given.shape) == 3:
        value = as_image(value, given.shape)
    if value.shape != given.shape or value.dtype.kind not in ("f" if given.kind == "float" else "iu"):
        have, want = ("×".join(map(str, shape)) or "one number" for shape in (value.shape, given.shape))
        raise DatasetError(
            f"The data of {spec} have {value.dtype} values of {have}; the input takes {given.kind} values of {want}.",
            hint="Change --input.",
        )
    return np.ascontiguousarray(value[None].astype(np.float32 if given.kind == "float" else np.int64))


def as_image(value: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Whole numbers H×W×C as numbers from 0 to 1 with the channels first, in the size of a network's input."""
    channels, *size = shape
    if tuple(value.shape[:2]) != tuple(size):
        value = resize(value, (size[0], size[1]), "bilinear", "pil")
    if value.shape[2] == 1 and channels == 3:
        value = np.repeat(value, 3, axis=2)
    return np.asarray(value, np.float32).transpose(2, 0, 1) / np.float32(255)
