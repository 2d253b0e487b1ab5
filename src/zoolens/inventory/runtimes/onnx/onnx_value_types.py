"""What an ONNX file says of the types and shapes of values."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, fields, signed, text
from zoolens.inventory.runtimes.runtime import TensorSpec

DTYPES: Final = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    16: "bfloat16",
}
_SHORT: Final = 64  # bytes of a message that is read once for all places where it stands


def value_info(data: Buffer) -> TensorSpec:
    """The name, type and shape of a value, as a file declares it."""
    name, dtype = "", "unknown"
    shape: tuple[int | None, ...] = ()
    for number, value in fields(data):
        if number == 1:
            name = text(value)
        elif number == 2:
            message = content(value)
            found = _short_type(bytes(message)) if len(message) <= _SHORT else _value_type(message)
            dtype, shape = found or (dtype, shape)
    return TensorSpec(name, shape, dtype)


@lru_cache(maxsize=4096)
def _short_type(message: bytes) -> tuple[str, tuple[int | None, ...]] | None:
    """Values of a network have few different types."""
    return _value_type(memoryview(message))


def _value_type(data: Buffer) -> tuple[str, tuple[int | None, ...]] | None:
    """The type and shape of a value that is a tensor; None for others."""
    found = None
    for kind, tensor_type in fields(data):
        if kind == 1:
            found = _tensor_type(content(tensor_type))
    return found


def _tensor_type(data: Buffer) -> tuple[str, tuple[int | None, ...]]:
    dtype = "unknown"
    shape: list[int | None] = []
    for number, value in fields(data):
        if number == 1 and isinstance(value, int):
            dtype = DTYPES.get(value, "unknown")
        elif number == 2:
            for inner, dimension in fields(content(value)):
                if inner == 1:
                    extents = [signed(v) for n, v in fields(content(dimension)) if n == 1 and isinstance(v, int)]
                    shape.append(extents[0] if extents and extents[0] > 0 else None)
    return dtype, tuple(shape)
