"""Whatever a user's stream gives, as plain arrays. No framework is imported: their tensors are known by methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.training.pairs.networks.framework import Array


def plain_array(value: Any, what: str) -> Array:
    """An array of numbers. `what` begins the sentence that says why it is none: "The inputs of batch 3"."""
    array = _unchecked(value, what)
    if array.dtype.kind == "V" and array.dtype.names is None:  # bfloat16 and other types that numpy does not know
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError) as error:
            raise _no_numbers(array, what) from error
    if array.dtype.kind not in "biuf":
        raise _no_numbers(array, what)
    return array


def _unchecked(value: Any, what: str) -> Array:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, str | bytes | dict) or value is None:
        raise DatasetError(
            f"{what} are an object of {type(value).__name__}, not numbers.",
            hint="Give arrays or tensors, as (inputs, targets).",
        )
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value
    try:
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    except (TypeError, ValueError, AttributeError, RuntimeError) as error:
        kind = type(value)
        raise DatasetError(
            f"{what} are an object of {kind.__module__}.{kind.__qualname__}, which is no array of numbers.",
            hint="Ragged and sparse tensors must be made dense, and lists must hold samples of one shape.",
        ) from error


def _no_numbers(array: Array, what: str) -> DatasetError:
    kind = {"U": "texts", "S": "texts", "O": "Python objects", "c": "complex numbers", "M": "dates", "m": "times"}
    return DatasetError(
        f"{what} are {kind.get(array.dtype.kind, str(array.dtype))}, not numbers.",
        hint="Turn them into numbers in your function: classes into whole numbers, words into their places in a list.",
    )
