"""A Caffe network as its two files say it: layers with their blobs' names made unique, and learned values by layer.

Caffe lets a layer write over its input; here every version of a blob has a name of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.contrib.caffe.caffe_text import Message, read_message
from zoolens.findings.graph.ir.model import MAX_NODES, Array
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, fields, integers, text
from zoolens.inventory.runtimes.runtime import TensorSpec

_V1_TYPES: Final = {
    "ABSVAL": "AbsVal", "CONCAT": "Concat", "CONVOLUTION": "Convolution", "DATA": "Data",
    "DECONVOLUTION": "Deconvolution", "DROPOUT": "Dropout", "ELTWISE": "Eltwise", "FLATTEN": "Flatten",
    "INNER_PRODUCT": "InnerProduct", "LRN": "LRN",
    "POOLING": "Pooling", "POWER": "Power", "RELU": "ReLU", "SIGMOID": "Sigmoid", "SLICE": "Slice",
    "SOFTMAX": "Softmax", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SPLIT": "Split", "TANH": "TanH", "ACCURACY": "Accuracy",
}  # fmt: skip
_SOURCES: Final = ("Input", "Data", "ImageData", "HDF5Data", "MemoryData", "DummyData")
_LEFT_OUT: Final = ("Accuracy", "Silence")


@dataclass(frozen=True)
class CaffeLayer:
    name: str
    kind: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    message: Message

    def section(self, name: str) -> Message:
        """A parameter message such as convolution_param; empty where it is absent."""
        section = self.message.get(name, [{}])[-1]
        return section if isinstance(section, dict) else {}


@dataclass(frozen=True)
class Net:
    name: str
    inputs: tuple[TensorSpec, ...]
    layers: tuple[CaffeLayer, ...]
    outputs: tuple[str, ...]
    uses: Counter[str]


def read_net(path: Path) -> Net:
    message = read_message(path)
    inputs = _declared(message)
    layers: list[CaffeLayer] = []
    versions = _Versions()
    for spec in inputs:
        versions.make(spec.name)
    for entry in (*message.get("layers", ()), *message.get("layer", ())):
        layer = _layer(entry, versions)
        if layer is None:
            continue
        if layer.kind in _SOURCES:
            inputs.append(_source(layer))
        else:
            layers.append(layer)
        if len(layers) > MAX_NODES:
            raise ModelError(f"{path.name} has more than {MAX_NODES:,} layers.")
    if not layers or not inputs:
        raise ModelError(f"{path.name} declares {len(inputs)} inputs and {len(layers)} layers; a network has both.")
    uses = Counter(name for layer in layers for name in layer.bottoms)
    outputs = tuple(top for layer in layers for top in layer.tops if not uses[top])
    return Net(_word(message, "name", path.stem), tuple(inputs), tuple(layers), outputs, uses)


def _word(message: Message, field: str, default: str = "") -> str:
    return str(message.get(field, [default])[-1])


def _layer(entry: Any, versions: _Versions) -> CaffeLayer | None:
    """The layer with its blobs' current names; None where it only trains or judges."""
    if not isinstance(entry, dict):
        raise ModelError("The Caffe graph is damaged: a layer is not a message.")
    rules = [rule for rule in entry.get("include", ()) if isinstance(rule, dict)]
    kind = _V1_TYPES.get(_word(entry, "type"), _word(entry, "type"))
    if kind in _LEFT_OUT or any(_word(rule, "phase") == "TRAIN" for rule in rules):
        return None
    name = _word(entry, "name", kind)
    bottoms = []
    for bottom in entry.get("bottom", ()):
        if str(bottom) not in versions.current:
            raise ModelError(f"The Caffe graph is damaged: nothing makes {str(bottom)[:60]!r} before {name[:60]!r}.")
        bottoms.append(versions.current[str(bottom)])
    tops = [versions.make(str(top)) for top in entry.get("top", ())]
    return CaffeLayer(name, kind, tuple(bottoms), tuple(tops), entry)


class _Versions:
    """The present name of each blob, and all names that were given."""

    def __init__(self) -> None:
        self.current: dict[str, str] = {}
        self._given: set[str] = set()
        self._counts: Counter[str] = Counter()

    def make(self, blob: str) -> str:
        name = blob
        while name in self._given:
            self._counts[blob] += 1
            name = f"{blob}@{self._counts[blob]}"
        self._given.add(name)
        self.current[blob] = name
        return name


def _declared(message: Message) -> list[TensorSpec]:
    """Inputs that stand before the layers: `input` with `input_shape`, or with four `input_dim` each."""
    names = [str(name) for name in message.get("input", ())]
    shapes = [_dims(shape) for shape in message.get("input_shape", ())]
    dims = [_extent(value) for value in message.get("input_dim", ())]
    shapes = shapes or [dims[i : i + 4] for i in range(0, len(dims), 4)]
    if len(names) != len(shapes):
        raise ModelError(f"The Caffe graph declares {len(names)} inputs and {len(shapes)} shapes.")
    return [TensorSpec(name, tuple(shape), "float32") for name, shape in zip(names, shapes, strict=True)]


def _dims(shape: Any) -> list[int]:
    if isinstance(shape, dict):
        return [_extent(value) for value in shape.get("dim", ())]
    return []


def _extent(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelError(f"The Caffe graph is damaged: {str(value)[:40]!r} is no extent of an input.")
    return value


def _source(layer: CaffeLayer) -> TensorSpec:
    """A layer that feeds data; those for training give no size unless they crop."""
    if not layer.tops:
        raise ModelError(f"The Caffe layer {layer.name[:60]!r} feeds nothing.")
    shapes = layer.section("input_param").get("shape", ()) or layer.section("dummy_data_param").get("shape", ())
    if shapes:
        return TensorSpec(layer.tops[0], tuple(_dims(shapes[0])), "float32")
    crop = layer.section("transform_param").get("crop_size", [None])[-1]
    return TensorSpec(layer.tops[0], (1, 3, crop, crop), "float32")


# --- learned values


def read_blobs(path: Path) -> dict[str, list[Array]]:
    """The learned tensors of each layer in a .caffemodel, as views of the file's bytes."""
    try:
        return _blobs(memoryview(model_bytes(path)))
    except (ValueError, IndexError) as error:
        raise ModelError(f"{path.name} is not a complete .caffemodel: {error}.", hint="Fetch it again.") from error


def _blobs(data: Buffer) -> dict[str, list[Array]]:
    by_layer: dict[str, list[Array]] = {}
    for number, value in fields(data):
        if number in (2, 100):  # a layer of the first format, or of the present one
            name, blobs = _layer_blobs(content(value), *((4, 6) if number == 2 else (1, 7)))
            if blobs:
                by_layer[name] = blobs
    return by_layer


def _layer_blobs(data: Buffer, name_field: int, blob_field: int) -> tuple[str, list[Array]]:
    name, blobs = "", []
    for number, value in fields(data):
        if number == name_field:
            name = text(value)
        elif number == blob_field:
            blobs.append(_blob(content(value)))
    return name, blobs


def _blob(data: Buffer) -> Array:
    shape: list[int] = []
    legacy: dict[int, int] = {}
    parts: list[Array] = []
    for number, value in fields(data):
        if number == 7:
            for inner, dims in fields(content(value)):
                shape += integers(dims) if inner == 1 else []
        elif number in (1, 2, 3, 4) and isinstance(value, int):
            legacy[number] = value
        elif number in (5, 8):
            parts.append(np.frombuffer(content(value), "<f4" if number == 5 else "<f8"))
    flat = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.float32), *parts])
    extents = shape or [legacy[key] for key in sorted(legacy)]
    if any(extent < 0 for extent in extents) or prod(extents) != flat.size:
        raise ValueError(f"a blob holds {flat.size:,} numbers, which its shape does not")
    return flat.reshape(extents).astype(np.float32, copy=False)
