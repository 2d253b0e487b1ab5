"""Attributes and tensor values of an ONNX file, decoded when someone asks for them.

Values are views of the file's bytes where possible. Those kept in another file are read only from the model's own
folder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, fields, integers, packed, signed, text
from zoolens.inventory.runtimes.onnx.onnx_file import (
    OnnxGraph,
    OnnxNode,
    OnnxTensor,
    external_entry,
    read_subgraph,
    read_tensor,
)

Array = NDArray[Any]

_NUMBERS: Final = {
    "float32": "<f4", "uint8": "u1", "int8": "i1", "uint16": "<u2", "int16": "<i2", "int32": "<i4", "int64": "<i8",
    "bool": "?", "float16": "<f2", "float64": "<f8", "bfloat16": "<u2",
}  # fmt: skip
_SHORT: Final = 64  # bytes of an attribute's message
# Field of TensorProto that holds values one by one -> how they are packed.
_FLOATS, _INT32S, _INT64S, _RAW, _DOUBLES, _UINT64S = 4, 5, 7, 9, 10, 11


def attributes(node: OnnxNode) -> dict[str, Any]:
    """Numbers, texts, lists of them, tensors and graphs by name; the rest is left out."""
    try:
        return dict([_attribute(message) if len(message) > _SHORT else _short(message) for message in node.attributes])
    except (ValueError, IndexError, struct.error) as error:
        raise ModelError(f"The ONNX graph is damaged: the attributes of {node.op[:60]!r} are unreadable.") from error


def _short(message: Buffer) -> tuple[str, Any]:
    name, value = _known_attribute(bytes(message))
    if isinstance(value, list):
        return name, value.copy()
    # A graph is put in order by whoever reads it, and so is one of its own for each place.
    return _attribute(message) if isinstance(value, OnnxGraph) else (name, value)


@lru_cache(maxsize=4096)
def _known_attribute(message: bytes) -> tuple[str, Any]:
    """Layers of a network repeat the same few attributes."""
    return _attribute(memoryview(message))


def _attribute(message: Buffer) -> tuple[str, Any]:
    name, value = "", None
    floats: list[float] = []
    whole: list[int] = []
    texts: list[str] = []
    kind = 0
    for number, part in fields(message):
        if number == 1:
            name = text(part)
        elif number == 8:
            whole += integers(part)
        elif number in _SINGLE:
            value = _SINGLE[number](part)
        elif number == 20 and isinstance(part, int):
            kind = part
        elif number == 7:
            floats += np.frombuffer(content(part), "<f4").tolist()
        elif number == 9:
            texts.append(_lenient(part))
    if value is not None:
        return name, value
    lists: dict[int, list[Any]] = {6: floats, 7: whole, 8: texts}
    return name, lists.get(kind, floats or whole or texts or None)


def _whole(part: int | Buffer) -> int:
    if not isinstance(part, int):
        raise ValueError("a text stands where a number belongs")  # noqa: TRY004 - read as damage
    return signed(part)


def _lenient(part: int | Buffer) -> str:
    return str(content(part), "utf-8", "replace")


_SINGLE: Final[dict[int, Callable[[int | Buffer], Any]]] = {
    2: lambda part: struct.unpack("<f", content(part))[0],
    3: _whole,
    4: _lenient,
    5: lambda part: read_tensor(content(part)),
    6: lambda part: read_subgraph(content(part)),
}
_NAME, _REFERENCE = 1, 21  # fields of an attribute


def with_references(node: OnnxNode, call: OnnxNode, defaults: Sequence[Buffer]) -> OnnxNode:
    """A node of a function as one call of it has it: attributes that refer to those of the function are filled in."""
    given = {_field(message, _NAME): message for message in (*defaults, *call.attributes)}
    filled = []
    for message in node.attributes:
        reference = _field(message, _REFERENCE)
        if not reference:
            filled.append(message)
        elif reference in given:
            filled.append(_renamed(given[reference], _field(message, _NAME)))
    return replace(node, attributes=tuple(filled))


def _renamed(attribute: Buffer, name: str) -> Buffer:
    """The attribute under another name. In protobuf the last of repeated fields counts, so that a name is added."""
    encoded = name.encode()
    if len(encoded) > 127:
        raise ValueError("the name of an attribute is too long")
    return Buffer(bytes(attribute) + bytes([_NAME << 3 | 2, len(encoded)]) + encoded)


def _field(message: Buffer, wanted: int) -> str:
    found = ""
    for number, value in fields(message):
        if number == wanted:
            # Of a field that occurs twice, protobuf keeps the last.
            found = text(value)
    return found


def array(tensor: OnnxTensor, folder: Path) -> Array:
    """The values of a tensor, as float32 where numpy has no such type; ModelError where they are not there."""
    kind = _NUMBERS.get(tensor.dtype)
    if kind is None:
        raise ModelError(f"The tensor {tensor.name[:60]!r} is of type {tensor.dtype}, which is not read.")
    try:
        flat = _external(tensor, folder, kind) if tensor.external is not None else _inline(tensor, kind)
        values = flat.reshape(tensor.shape)
    except (ValueError, IndexError) as error:
        raise ModelError(f"The values of the tensor {tensor.name[:60]!r} do not fill its shape.") from error
    return (values.astype(np.uint32) << 16).view(np.float32) if tensor.dtype == "bfloat16" else values


def _inline(tensor: OnnxTensor, kind: str) -> Array:
    if len(tensor.message) <= _SHORT:
        return _short_tensor(bytes(tensor.message), kind)
    return _decoded(tensor.message, kind)


@lru_cache(maxsize=4096)
def _short_tensor(message: bytes, kind: str) -> Array:
    """Zeros and ones that fill tensors are written again for each of them."""
    values = _decoded(memoryview(message), kind)
    values.flags.writeable = False
    return values


def _decoded(message: Buffer, kind: str) -> Array:
    parts = [_values(number, value, kind) for number, value in fields(message) if number in _DECODERS]
    if len(parts) == 1:
        return parts[0]
    joined = np.concatenate([np.zeros(0, kind), *parts])
    return joined.astype(kind)


def _values(number: int, value: int | Buffer, kind: str) -> Array:
    if isinstance(value, int):
        return np.array([signed(value)]).astype(kind)
    if number == _RAW:
        return np.frombuffer(value, kind)
    numbers = _DECODERS[number](value)
    # Half floats are kept as the integers of their bits.
    if kind == "<f2":
        return numbers.astype(np.uint16).view(np.float16)
    return numbers.astype(kind, copy=False)


_DECODERS: Final[dict[int, Callable[[Buffer], Array]]] = {
    _FLOATS: lambda value: np.frombuffer(value, "<f4"),
    _INT32S: packed,
    _INT64S: packed,
    _RAW: lambda value: np.frombuffer(value, "u1"),
    _DOUBLES: lambda value: np.frombuffer(value, "<f8"),
    _UINT64S: packed,
}


def _external(tensor: OnnxTensor, folder: Path, kind: str) -> Array:
    place: dict[str, str] = {}
    for number, value in fields(tensor.message):
        if number == 13:
            place |= external_entry(content(value))
    path = _inside(folder, tensor.external or "")
    size = prod(tensor.shape) * np.dtype(kind).itemsize
    offset = int(place.get("offset") or 0)
    if offset < 0 or int(place.get("length") or size) != size or offset + size > path.stat().st_size:
        raise ModelError(f"{path.name} does not hold the values of the tensor {tensor.name[:60]!r}.")
    return np.fromfile(path, kind, prod(tensor.shape), offset=offset)


def _inside(folder: Path, location: str) -> Path:
    try:
        path = (folder / location).resolve()
        inside = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:
        raise ModelError(
            f"The weights are in another file, {location[:80]!r}, which is not in the model's folder.",
            hint="Put it beside the model, or ask for the structure alone.",
        )
    return path
