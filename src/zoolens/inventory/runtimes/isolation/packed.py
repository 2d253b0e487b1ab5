"""Tensors that numpy has no numbers for, as numbers: so they pass to a worker, whose shared memory holds numbers only.

A bfloat16 tensor is the upper half of float32 numbers, and travels as unsigned 16-bit integers. A tensor of texts
travels as two: how many bytes each text has, and all these bytes, under the name with `TEXT_BYTES` behind it. Sessions
of runtimes that take such inputs (`Runtime.takes_packed`) understand both forms. Numpy only: workers import it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError

BFLOAT16: Final = "bfloat16"
STRING: Final = "string"
TEXT_BYTES: Final = "\x00bytes"
_NUMBERS: Final = "biufc"
_TEXTS: Final = "OSU"

Tensor = NDArray[Any]


def packed(feeds: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Returns tensors with strings and bfloat16 packed as numbers; others unchanged."""
    if all(array.dtype.kind in _NUMBERS for array in feeds.values()):
        return feeds
    numbers: dict[str, Tensor] = {}
    for name, array in feeds.items():
        if array.dtype.name == BFLOAT16:
            numbers[name] = np.ascontiguousarray(array).view(np.uint16)
        elif array.dtype.kind in _TEXTS:
            numbers |= _packed_texts(name, array)
        else:
            numbers[name] = array
    return numbers


def packed_parts(parts: Sequence[Mapping[str, Tensor]]) -> Sequence[Mapping[str, Tensor]]:
    """The parts of a batch as numbers. Texts of several parts become one: their bytes have no common shape."""
    if len(parts) > 1 and any(array.dtype.kind in _TEXTS for array in parts[0].values()):
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        parts = [joined]
    return [packed(part) for part in parts]


def _packed_texts(name: str, array: Tensor) -> dict[str, Tensor]:
    texts = array.reshape(-1).tolist()
    encoded = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
    lengths = np.array([len(text) for text in encoded], np.int64)
    content = np.frombuffer(b"".join(encoded), np.uint8)
    return {name: lengths.reshape(array.shape), f"{name}{TEXT_BYTES}": content}


def unpacked_texts(name: str, feeds: Mapping[str, Tensor]) -> Tensor:
    """An array of Python texts, from either form. A ModelError where the bytes are no UTF-8."""
    array = feeds[name]
    if array.dtype.kind in _TEXTS:
        texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1).tolist()]
    else:
        content = feeds[f"{name}{TEXT_BYTES}"].tobytes()
        ends = np.cumsum(array.reshape(-1)).tolist()
        texts = [content[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    decoded = np.empty(len(texts), object)
    try:
        decoded[:] = [text.decode() for text in texts]
    except UnicodeDecodeError as error:
        raise ModelError(f"An element of the input {name!r} is not UTF-8 text: {error.reason}.") from error
    return decoded.reshape(array.shape)


def bits_of(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Returns the bits of float32 numbers truncated to bfloat16."""
    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    return (bits >> 16).astype(np.uint16)


def widened(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Returns the exact float32 values of bfloat16 bits."""
    wide = np.ascontiguousarray(bits).astype(np.uint32)
    return (wide << 16).view(np.float32)
