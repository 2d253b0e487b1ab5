"""The constants of an OpenVINO IR: an .xml with the layers, and a .bin with the numbers. No framework is needed."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from zoolens.errors import ModelError

Array = NDArray[Any]
FORMAT: Final = "openvino-ir"
_MOST_XML: Final = 1 << 28  # bytes; that of a large language model has some 10 MB
_TYPES: Final = {
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4",
    "u32": "<u4", "i64": "<i8", "u64": "<u8", "boolean": "?",
}  # fmt: skip
_COMPRESSED: Final = "_compressed"
_LONGEST: Final = 20  # digits of a number


def constants(path: Path) -> dict[str, Array]:
    """The constants by the name of their tensor, or else of their layer; those of other types (bf16, u4) are left."""
    numbers = _numbers(path.with_suffix(".bin"))
    found: dict[str, Array] = {}
    for layer in _constant_layers(path):
        data = layer.find("data")
        kind = _TYPES.get(data.get("element_type", "")) if data is not None else None
        if data is None or kind is None:
            continue
        found[_name(layer)] = _values(numbers, data, np.dtype(kind), path)
    return found


def half_constants(path: Path) -> tuple[int, int]:
    """How many constants of real numbers are kept in float16, and how many there are."""
    layers = [data.get("element_type") for layer in _constant_layers(path) if (data := layer.find("data")) is not None]
    real = [kind for kind in layers if kind in ("f16", "f32", "f64", "bf16")]
    return real.count("f16"), len(real)


def _constant_layers(path: Path) -> Iterator[ElementTree.Element]:
    if path.stat().st_size > _MOST_XML:
        raise ModelError(f"{path.name} is larger than any IR that is read.")
    text = path.read_bytes()
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:  # entities may expand without end, and no IR has any
        raise ModelError(f"{path.name} declares entities, which no IR does.", hint="Convert the model again.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - it declares no entities
    except ElementTree.ParseError as error:
        raise ModelError(f"{path.name} is no readable XML.", hint="Convert the model again.") from error
    yield from (layer for layer in root.iter("layer") if layer.get("type") == "Const")


def _numbers(path: Path) -> Array:
    try:
        return np.asarray(np.memmap(path, np.uint8, "r")) if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as error:
        raise ModelError(f"The numbers beside the IR cannot be read: {path.name}.") from error


def _values(numbers: Array, data: ElementTree.Element, dtype: np.dtype[Any], path: Path) -> Array:
    offset, size = _whole(data.get("offset")), _whole(data.get("size"))
    shape = [_whole(extent) for extent in data.get("shape", "").split(",") if extent.strip()]
    part = numbers[offset : offset + size]
    if len(part) != size or size != dtype.itemsize * prod(shape):
        raise ModelError(f"A constant of {path.name} does not lie in its .bin file.", hint="Convert the model again.")
    return np.frombuffer(part.tobytes(), dtype).reshape(shape)


def _whole(text: str | None) -> int:
    if text is None or not text.strip().isdecimal() or len(text) > _LONGEST:
        raise ModelError("The IR has a constant without a size or a place.", hint="Convert the model again.")
    return int(text)


def _name(layer: ElementTree.Element) -> str:
    port = layer.find("output/port")
    names = (port.get("names") or "").split(",") if port is not None else []
    return names[0] or layer.get("name", "").removesuffix(_COMPRESSED)
