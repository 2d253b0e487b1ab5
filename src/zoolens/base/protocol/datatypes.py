"""The protocol's data types as numpy knows them, and tensors as the bytes that travel.

Bytes are little-endian and in row-major order. An element of a BYTES tensor has its length, four bytes, before it.
BF16 is a type of the package ml_dtypes, because numpy has none.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import DEFAULT, Limits, element_count, invalid
from zoolens.base.protocol.messages import Tensor

Buffer = bytes | bytearray | memoryview

_NUMPY: Final[dict[str, str]] = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8",
    "FP16": "<f2", "FP32": "<f4", "FP64": "<f8", "BYTES": "O",
}  # fmt: skip
DATATYPES: Final = (*_NUMPY, "BF16")
_NAMES: Final = {np.dtype(code): name for name, code in _NUMPY.items()}
_LENGTH: Final = struct.Struct("<I")
_SMALL: Final = 1 << 12  # bytes of a tensor
_LONGEST: Final = 40  # characters of a stranger's type name that an error repeats


def numpy_type(datatype: str) -> np.dtype[Any]:
    """The numpy type of a data type of the protocol: FP32 is float32, and BYTES are Python objects."""
    if datatype == "BF16":
        return _bfloat16()
    try:
        return np.dtype(_NUMPY[datatype])
    except KeyError:
        raise invalid(f"There is no data type {datatype[:_LONGEST]!r}; known are {', '.join(DATATYPES)}.") from None


def datatype_of(dtype: np.dtype[Any]) -> str:
    """The protocol's name of a numpy type; strings of any length are BYTES."""
    if (name := _NAMES.get(dtype)) is not None:
        return name
    if dtype.kind in "SU":
        return "BYTES"
    if dtype.name == "bfloat16":
        return "BF16"
    swapped = _NAMES.get(dtype.newbyteorder("<"))
    if swapped is None:
        raise ServingError(Refusal.UNSUPPORTED, f"The protocol has no data type for numpy's {dtype}.")
    return swapped


@cache
def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise ServingError(
            Refusal.UNSUPPORTED, "Tensors of type BF16 need the package ml_dtypes, which is not installed there."
        ) from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def to_bytes(tensor: Tensor) -> Buffer:
    """The tensor's bytes as they travel, without a copy where they lie in memory like that."""
    known = _NAMES.get(tensor.dtype)
    if known is not None and known != "BYTES" and tensor.nbytes <= _SMALL:
        # A copy of so little is quicker than a view.
        return tensor.tobytes()
    if datatype_of(tensor.dtype) == "BYTES":
        return _packed_strings(tensor)
    little = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data if little.size else b""


@dataclass(frozen=True)
class Layout:
    """How the bytes of a tensor are read: made and checked once, for tensors that come again and again."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    count: int

    @classmethod
    def of(cls, name: str, datatype: str, shape: Sequence[int]) -> Layout:
        count = element_count(name, shape)
        return cls(name, datatype, tuple(shape), numpy_type(datatype), count)

    def read(self, buffer: Buffer, limits: Limits = DEFAULT, *, aligned: bool = True) -> Tensor:
        """The tensor that these bytes are: a view of them where its type allows it and, unless `aligned` is False, they
        lie in memory as the processor likes it. numpy also computes with others."""
        size = len(buffer)
        if size > limits.tensor_bytes:
            raise too_large(self.name, size, limits)
        if self.datatype == "BYTES":
            return _unpacked_strings(self.name, self.count, buffer, limits).reshape(self.shape)
        if self.count * self.dtype.itemsize != size:
            raise invalid(
                f"Tensor {self.name!r} of type {self.datatype} and shape {list(self.shape)} takes "
                f"{self.count * self.dtype.itemsize:,} bytes, but {size:,} were sent."
            )
        if not size:
            return np.empty(self.shape, self.dtype)
        if self.datatype == "BOOL" and np.frombuffer(buffer, np.uint8).max() > 1:
            raise invalid(f"Tensor {self.name!r} of type BOOL holds a byte that is neither 0 nor 1.")
        tensor = np.frombuffer(buffer, self.dtype).reshape(self.shape)
        return tensor.copy() if aligned and not tensor.flags.aligned else tensor


def from_bytes(name: str, datatype: str, shape: Sequence[int], buffer: Buffer, limits: Limits = DEFAULT) -> Tensor:
    """The tensor of this type and shape that these bytes are."""
    return Layout.of(name, datatype, shape).read(buffer, limits)


def too_large(name: str, size: int, limits: Limits) -> ServingError:
    return ServingError(
        Refusal.TOO_LARGE, f"Tensor {name!r} has {size:,} bytes; at most {limits.tensor_bytes:,} are accepted."
    )


def strings(values: Sequence[bytes], shape: Sequence[int]) -> Tensor:
    """A BYTES tensor of these elements."""
    tensor = np.empty(len(values), object)
    tensor[:] = values
    return tensor.reshape(tuple(shape))


def as_bytes(element: Any) -> bytes:
    """One element of a BYTES tensor; text becomes UTF-8."""
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        try:
            return element.encode()
        except UnicodeEncodeError:
            raise invalid("A text holds half of a surrogate pair, which UTF-8 cannot express.") from None
    raise ServingError(Refusal.UNSUPPORTED, f"An element of type {type(element).__name__} cannot be sent as BYTES.")


def _packed_strings(tensor: Tensor) -> bytes:
    parts: list[bytes] = []
    for element in map(as_bytes, tensor.reshape(-1).tolist()):
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def _unpacked_strings(name: str, count: int, buffer: Buffer, limits: Limits) -> Tensor:
    if count > limits.strings:
        raise invalid(f"Tensor {name!r} has {count:,} BYTES elements; at most {limits.strings:,} are accepted.")
    if count * _LENGTH.size > len(buffer):
        raise invalid(f"Tensor {name!r} has {count:,} BYTES elements, more than its {len(buffer):,} bytes can hold.")
    content, place, elements = bytes(buffer), 0, []
    for _ in range(count):
        start = place + _LENGTH.size
        if start > len(content):
            raise invalid(f"The bytes of tensor {name!r} end before its {count:,} BYTES elements do.")
        place = start + int(_LENGTH.unpack_from(content, place)[0])
        if place > len(content):
            raise invalid(f"An element of BYTES tensor {name!r} is said to be longer than the bytes that were sent.")
        elements.append(content[start:place])
    if place != len(content):
        raise invalid(f"BYTES tensor {name!r} has {len(content) - place:,} bytes behind its {count:,} elements.")
    return strings(elements, (count,))
