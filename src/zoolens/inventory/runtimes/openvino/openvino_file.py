"""An OpenVINO IR: an .xml with the layers, and a .bin with the numbers of its constants. No framework is needed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.base.safety.xml_tree import parse_xml
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes

Array = NDArray[Any]
FORMAT: Final = "openvino-ir"
_MOST_XML: Final = 1 << 28  # bytes; that of a large language model has some 10 MB
_TYPES: Final = {
    "f16": "<f2", "f32": "<f4", "f64": "<f8", "i8": "i1", "u8": "u1", "i16": "<i2", "u16": "<u2", "i32": "<i4",
    "u32": "<u4", "i64": "<i8", "u64": "<u8", "boolean": "?",
}  # fmt: skip
_ELEMENTS: Final = {
    "FP16": "float16", "FP32": "float32", "FP64": "float64", "BF16": "bfloat16", "I8": "int8", "U8": "uint8",
    "I16": "int16", "U16": "uint16", "I32": "int32", "I64": "int64", "BOOL": "bool", "STRING": "string",
}  # fmt: skip
_AGAIN: Final = "Convert the model again."
_COMPRESSED: Final = "_compressed"
_LONGEST: Final = 20  # digits of a number
_MOST_LAYERS: Final = 200_000
_OLDEST: Final = 10  # version of the format since which layers are operators of the published sets
_NAMES: Final = re.compile(r"(?<!\\\\),")  # commas inside a name are escaped


@dataclass(frozen=True)
class IrPort:
    """An output of a layer."""

    name: str  # of its tensor, or of the layer if the file names no tensor
    element: str  # such as "float32"
    shape: tuple[int | None, ...]  # None: a dynamic dimension


@dataclass(frozen=True)
class IrLayer:
    """One layer. `inputs`: the names of the tensors that go in, in the order of its ports."""

    name: str
    kind: str
    opset: str  # such as "opset1"; other texts are extensions
    data: dict[str, str]
    inputs: tuple[str, ...]
    outputs: tuple[IrPort, ...]


def read_layers(path: Path) -> list[IrLayer]:
    """The layers of the outermost graph, each behind those that feed it, as the file has them."""
    root = _root(path)
    version = root.get("version", "")
    if not version.isdecimal() or len(version) > 3 or int(version) < _OLDEST:
        raise ModelError(
            f"{path.name} is an IR of version {version[:10] or 'unknown'}; from {_OLDEST} on they are read.",
            hint="Convert the model again with a current OpenVINO.",
        )
    elements = root.findall("layers/layer")
    if len(elements) > _MOST_LAYERS:
        raise ModelError(f"{path.name} has more than {_MOST_LAYERS:,} layers.")
    shared = Counter(element.get("name", "") for element in elements)
    made = {}
    for element in elements:
        name, number = element.get("name", ""), element.get("id", "")
        unique = name if shared[name] == 1 else f"{name}#{number}"
        for place, port in enumerate(element.findall("output/port")):
            made[number, port.get("id", "")] = _port(port, unique if place == 0 else f"{unique}.{place}")
    sources = {}
    for edge in root.findall("edges/edge"):
        start = edge.get("from-layer", ""), edge.get("from-port", "")
        if start not in made:
            raise ModelError(f"{path.name} is damaged: an edge starts at an output that no layer has.", hint=_AGAIN)
        sources[edge.get("to-layer", ""), edge.get("to-port", "")] = made[start].name
    return [_layer(element, sources, made, path) for element in elements]


def _layer(
    element: Element,
    sources: dict[tuple[str, str], str],
    made: dict[tuple[str, str], IrPort],
    path: Path,
) -> IrLayer:
    number, data = element.get("id", ""), element.find("data")
    inputs = []
    for port in element.findall("input/port"):
        source = sources.get((number, port.get("id", "")))
        if source is None:
            name = element.get("name", "")[:60]
            raise ModelError(f"{path.name} is damaged: nothing is connected to an input of {name!r}.", hint=_AGAIN)
        inputs.append(source)
    outputs = tuple(made[number, port.get("id", "")] for port in element.findall("output/port"))
    settings = dict(data.attrib) if data is not None else {}
    kind, opset = element.get("type", ""), element.get("version", "")
    return IrLayer(element.get("name", ""), kind, opset, settings, tuple(inputs), outputs)


def _port(port: Element, layer: str) -> IrPort:
    given = sorted(filter(None, _NAMES.split(port.get("names") or "")))
    name = given[0].replace("\\,", ",") if given else layer
    extents = [(dim.text or "").strip() for dim in port.findall("dim")]
    shape = tuple(int(extent) if extent.isdecimal() and len(extent) <= _LONGEST else None for extent in extents)
    return IrPort(name, _ELEMENTS.get(port.get("precision", ""), "unknown"), shape)


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


def _constant_layers(path: Path) -> Iterator[Element]:
    yield from (layer for layer in _root(path).iter("layer") if layer.get("type") == "Const")


def _root(path: Path) -> Element:
    try:
        return parse_xml(model_bytes(path, _MOST_XML))
    except ValueError as error:
        raise ModelError(f"{path.name} cannot be read as XML: {error}.", hint=_AGAIN) from error


def _numbers(path: Path) -> Array:
    try:
        return np.asarray(np.memmap(path, np.uint8, "r")) if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as error:
        raise ModelError(f"The weights of the IR cannot be read: {path.name}.") from error


def _values(numbers: Array, data: Element, dtype: np.dtype[Any], path: Path) -> Array:
    offset, size = _whole(data.get("offset")), _whole(data.get("size"))
    shape = [_whole(extent) for extent in data.get("shape", "").split(",") if extent.strip()]
    part = numbers[offset : offset + size]
    if len(part) != size or size != dtype.itemsize * prod(shape):
        raise ModelError(f"A constant of {path.name} does not lie in its .bin file.", hint=_AGAIN)
    return np.frombuffer(part.tobytes(), dtype).reshape(shape)


def _whole(text: str | None) -> int:
    if text is None or not text.strip().isdecimal() or len(text) > _LONGEST:
        raise ModelError("The IR has a constant without a size or a place.", hint=_AGAIN)
    return int(text)


def _name(layer: Element) -> str:
    port = layer.find("output/port")
    names = (port.get("names") or "").split(",") if port is not None else []
    return names[0] or layer.get("name", "").removesuffix(_COMPRESSED)
