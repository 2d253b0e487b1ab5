"""Tensors as JSON: numbers, truth values and texts in lists, flat or nested as the shape says.

numpy would make numbers of texts, 0 of an absent value and 1 of 1.5 where integers are wanted. A value that does
not fit its tensor's type is refused here instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zoolens.base.protocol.datatypes import as_bytes, datatype_of, numpy_type, strings
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import DEFAULT, Limits, element_count, invalid
from zoolens.base.protocol.messages import Tensor

_TYPES: Final[dict[str, set[type]]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}}


def tensor_from_json(name: str, datatype: str, shape: Sequence[int], data: Any, limits: Limits = DEFAULT) -> Tensor:
    """The tensor of these lists; ServingError where a value, the number of values or the nesting does not fit."""
    count = element_count(name, shape)
    dtype = numpy_type(datatype)
    if not isinstance(data, list):
        raise invalid(f"The data of tensor {name!r} must be a list.")
    tensor = _texts(name, data, limits) if datatype == "BYTES" else _numbers(name, datatype, dtype, data)
    if tensor.size != count:
        raise invalid(f"Tensor {name!r} of shape {list(shape)} has {count:,} elements, but {tensor.size:,} were sent.")
    if tensor.ndim > 1 and tensor.shape != tuple(shape):
        raise invalid(f"The data of tensor {name!r} is nested as {list(tensor.shape)}, but its shape is {list(shape)}.")
    return tensor.reshape(tuple(shape))


def tensor_to_json(name: str, tensor: Tensor) -> list[Any]:
    """The tensor's elements in one flat list; ServingError where JSON cannot express one."""
    if datatype_of(tensor.dtype) == "BYTES":
        return [_text(name, as_bytes(element)) for element in tensor.reshape(-1).tolist()]
    if tensor.dtype.name == "bfloat16":
        tensor = tensor.astype(np.float32)
    if tensor.dtype.kind == "f" and not np.isfinite(tensor).all():
        raise ServingError(
            Refusal.UNSUPPORTED,
            f"Tensor {name!r} holds NaN or infinity, which JSON cannot express: ask for binary data instead.",
        )
    elements: list[Any] = tensor.reshape(-1).tolist()
    return elements


def _text(name: str, element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        raise ServingError(
            Refusal.UNSUPPORTED,
            f"BYTES tensor {name!r} holds bytes that are not UTF-8 text, which JSON cannot express: "
            "ask for binary data instead.",
        ) from None


def _flat(name: str, data: list[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """The elements of nested lists, and how deep and wide these are; an uneven list is an element itself.

    numpy is not asked for the type: it would make room for the longest text at each place.
    """
    if list not in set(map(type, data)):
        return data, (len(data),)
    try:
        # Not without a type: 2 terabytes for a long text among numbers.
        values = np.array(data, object)
    except (ValueError, RecursionError):
        raise invalid(f"The lists in the data of tensor {name!r} are nested unevenly or too deeply.") from None
    return values.reshape(-1).tolist(), values.shape


def _numbers(name: str, datatype: str, dtype: np.dtype[Any], data: list[Any]) -> Tensor:
    elements, shape = _flat(name, data)
    kind = "f" if datatype == "BF16" else dtype.kind
    if not set(map(type, elements)) <= _TYPES[kind]:
        raise invalid(f"The data of tensor {name!r} holds a value that is not of type {datatype}.")
    out_of_range = invalid(f"The data of tensor {name!r} holds a number beyond the range of {datatype}.")
    if kind in "iu" and elements and not np.iinfo(dtype).min <= min(elements) <= max(elements) <= np.iinfo(dtype).max:
        raise out_of_range
    try:
        with np.errstate(over="ignore"):
            wide = np.array(elements, np.float64) if kind == "f" else np.array(elements, dtype)
            tensor = wide.astype(dtype, copy=False)
            finite = kind != "f" or np.isfinite(tensor.astype(np.float64, copy=False)).all()
    except OverflowError:
        # An integer beyond the range of all floats.
        raise out_of_range from None
    if not finite:
        raise out_of_range
    return tensor.reshape(shape)


def _texts(name: str, data: list[Any], limits: Limits) -> Tensor:
    elements, shape = _flat(name, data)
    if len(elements) > limits.strings:
        raise invalid(f"Tensor {name!r} has {len(elements):,} BYTES elements; at most {limits.strings:,} are accepted.")
    if not set(map(type, elements)) <= {str}:
        raise invalid(f"The data of tensor {name!r} holds a value that is not of type BYTES: texts are expected.")
    return strings([as_bytes(element) for element in elements], shape)
