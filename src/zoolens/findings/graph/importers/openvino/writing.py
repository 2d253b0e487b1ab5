"""ONNX nodes and constants written by hand, in the form in which `onnx_file` reads them from a file."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array
from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, encoded_field, encoded_varint
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode, OnnxTensor
from zoolens.inventory.runtimes.onnx.onnx_values import array
from zoolens.inventory.runtimes.openvino.openvino_file import IrLayer, IrPort
from zoolens.inventory.runtimes.runtime import TensorSpec

OPSET: Final = 21
FOREIGN: Final = "openvino"  # the domain of operators that ONNX has no word for
_FLOAT, _INT, _TEXT, _FLOATS, _INTS, _TEXTS = 1, 2, 3, 6, 7, 8  # types of attributes
_RAW, _ELSEWHERE = 9, 13  # fields of a tensor: its bytes, and where they lie in another file
_NEGATIVE: Final = 1 << 64

Value = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


class Untranslatable(Exception):
    """ONNX has no operator that computes this layer, so that it stays one of OpenVINO's own."""


@dataclass
class OnnxWriting:
    """The graph as it grows, and what is known of the IR's tensors."""

    path: Path
    graph: OnnxGraph = field(default_factory=lambda: OnnxGraph(opset=OPSET, producer="openvino"))
    ports: dict[str, IrPort] = field(default_factory=dict)  # by name of their tensor
    converted: dict[str, str] = field(default_factory=dict)  # constants of another type -> those that they are made of

    def constant(self, name: str, values: Array) -> str:
        """A constant that the translation needs; it is given a name that no tensor has."""
        unique, count = name, 1
        while unique in self.graph.constants or unique in self.ports:
            count += 1
            unique = f"{name}:{count}"
        message = b"".join(bytes(piece) for piece in encoded_field(_RAW, np.ascontiguousarray(values).tobytes()))
        self.graph.constants[unique] = OnnxTensor(unique, str(values.dtype), values.shape, None, Buffer(message))
        return unique

    def stored(self, port: IrPort, dtype: str, place: tuple[int, int], file: str) -> None:
        """A constant of the IR, whose bytes stay where they are until they are needed."""
        if None in port.shape:
            raise ModelError(f"The constant {port.name[:60]!r} has no shape.")
        entries = [("offset", place[0]), ("length", place[1])]
        pieces = [
            piece
            for key, number in entries
            for piece in encoded_field(_ELSEWHERE, _entry(key, str(number)))
        ]  # fmt: skip
        message = Buffer(b"".join(bytes(piece) for piece in pieces))
        shape = tuple(extent or 0 for extent in port.shape)
        self.graph.constants[port.name] = OnnxTensor(port.name, dtype, shape, file, message)

    def values(self, name: str) -> Array:
        """The numbers of a constant, as float32 if it is kept in half precision; Untranslatable if it is computed."""
        tensor = self.graph.constants.get(self.converted.get(name, name))
        if tensor is None:
            raise Untranslatable
        found = array(tensor, self.path.parent)
        return found.astype(np.float32) if found.dtype == np.float16 else found

    def whole_numbers(self, name: str) -> list[int]:
        return [int(number) for number in self.values(name).ravel()]

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        attributes: Mapping[str, Value | None] | None = None,
        domain: str = "",
    ) -> None:
        written = tuple(_attribute(key, value) for key, value in (attributes or {}).items() if value is not None)
        self.graph.nodes.append(OnnxNode(op, tuple(inputs), tuple(outputs), False, name, domain, written))


class LayerWriting:
    """One layer while it is translated. `add` makes an operator behind those that were added before."""

    def __init__(self, layer: IrLayer, graph: OnnxWriting) -> None:
        self.layer, self.graph = layer, graph
        self.output = layer.outputs[0].name if layer.outputs else ""
        self._made = 0
        self._begun = len(graph.graph.nodes)

    def rank(self, name: str) -> int:
        return len(self.graph.ports[name].shape)

    def extents(self, name: str) -> list[int]:
        """The shape of a tensor; Untranslatable where an extent is open."""
        shape = self.graph.ports[name].shape
        if None in shape:
            raise Untranslatable
        return [extent or 0 for extent in shape]

    def constant(self, values: Any, dtype: str = "int64") -> str:
        self._made += 1
        return self.graph.constant(f"{self.output}:{self._made}", np.asarray(values, dtype))

    def add(self, op: str, *inputs: str, made: str = "", **attributes: Value | None) -> str:
        """An operator whose result is `made`, or a tensor of its own for the next one."""
        self._made += 1
        made = made or f"{self.output}:{self._made}"
        name = self.layer.name if made == self.output else made
        self.graph.add(op, inputs, (made,), name, attributes)
        return made

    def last(self, op: str, *inputs: str, **attributes: Value | None) -> None:
        """The operator that makes the layer's output."""
        self.add(op, *inputs, made=self.output, **attributes)

    def give_up(self) -> None:
        """Leaves the layer as an operator that nobody knows."""
        del self.graph.graph.nodes[self._begun :]
        outputs = [port.name for port in self.layer.outputs]
        self.graph.add(self.layer.kind, self.layer.inputs, outputs, self.layer.name, domain=FOREIGN)

    # --- settings, which an IR keeps as texts

    def text(self, key: str, default: str = "") -> str:
        return self.layer.data.get(key, default).strip()

    def number(self, key: str, default: float | None = None) -> float:
        given = self.layer.data.get(key)
        if given is None and default is not None:
            return default
        try:
            return float(given or "")
        except ValueError as error:
            raise self.damage(key) from error

    def whole(self, key: str, default: int | None = None) -> int:
        number = float(self.number(key, default))
        if not number.is_integer() or abs(number) > 1 << 53:
            raise self.damage(key)
        return int(number)

    def list(self, key: str) -> list[int]:
        parts = [part.strip() for part in self.text(key).split(",") if part.strip()]
        if any(not part.lstrip("-").isdecimal() or len(part) > 15 for part in parts):
            raise self.damage(key)
        return [int(part) for part in parts]

    def flag(self, key: str, *, default: bool = False) -> bool:
        return self.text(key, str(default)).lower() in ("true", "1")

    def damage(self, key: str) -> ModelError:
        return ModelError(f"The setting {key!r} of the layer {self.layer.name[:60]!r} cannot be read.")


def spec_of(port: IrPort) -> TensorSpec:
    return TensorSpec(port.name, port.shape, port.element)


def _entry(key: str, value: str) -> bytes:
    pieces = [*encoded_field(1, key.encode()), *encoded_field(2, value.encode())]
    return b"".join(bytes(piece) for piece in pieces)


def _attribute(name: str, value: Value) -> Buffer:
    pieces = [*encoded_field(1, name.encode())]
    if isinstance(value, str):
        pieces += [*encoded_field(4, value.encode()), *encoded_field(20, _TEXT)]
    elif isinstance(value, float):
        pieces += [_fixed(2, value), *encoded_field(20, _FLOAT)]
    elif isinstance(value, int):
        pieces += [*encoded_field(3, value % _NEGATIVE), *encoded_field(20, _INT)]
    elif any(isinstance(part, str) for part in value):
        pieces += [piece for part in value for piece in encoded_field(9, str(part).encode())]
        pieces += encoded_field(20, _TEXTS)
    elif any(isinstance(part, float) for part in value):
        pieces += [*encoded_field(7, struct.pack(f"<{len(value)}f", *value)), *encoded_field(20, _FLOATS)]
    else:
        packed = b"".join(encoded_varint(int(part) % _NEGATIVE) for part in value)
        pieces += [*encoded_field(8, packed), *encoded_field(20, _INTS)]
    return Buffer(b"".join(bytes(piece) for piece in pieces))


def _fixed(number: int, value: float) -> bytes:
    return encoded_varint(number << 3 | 5) + struct.pack("<f", value)
