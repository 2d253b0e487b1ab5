"""What an ONNX file says, read straight from its protobuf bytes.

Enough to count parameters, to name the arithmetic and to refuse damaged graphs, without the `onnx` package: the
runtimes that read ONNX do not need it, and one of them (OpenCV) crashes on graphs that name tensors nobody makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

from zoolens.errors import ModelError
from zoolens.runtimes.base import ModelFiles, TensorSpec

Buffer = memoryview

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
_LARGEST: Final = 1 << 31  # what protobuf can hold
_SIZES: Final = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 16: 2}
_WEIGHT_TYPES: Final = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32"}
_ARITHMETIC: Final = re.compile(r"Conv|ConvTranspose|Gemm|MatMul|LSTM|GRU|RNN|FusedConv|Attention")
_INTEGER_ARITHMETIC: Final = re.compile(r"QLinear(Conv|MatMul)|ConvInteger|MatMulInteger|QGemm|DynamicQuantizeMatMul")
# Input positions that hold no weights: scales, zero points and batch normalisation's running statistics.
_NOT_WEIGHTS: Final = {
    "QuantizeLinear": (1, 2),
    "DequantizeLinear": (1, 2),
    "QLinearConv": (1, 2, 4, 5, 6, 7),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "BatchNormalization": (3, 4),
    "Clip": (1, 2),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
}


@dataclass(frozen=True)
class OnnxTensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    external: str | None = None  # the file that holds its values, where that is not this one


@dataclass(frozen=True)
class OnnxNode:
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_subgraph: bool


@dataclass
class OnnxGraph:
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, OnnxTensor] = field(default_factory=dict)
    inputs: list[TensorSpec] = field(default_factory=list)
    outputs: list[TensorSpec] = field(default_factory=list)

    def parameters(self) -> int:
        aside = {
            node.inputs[position]
            for node in self.nodes
            for position in _NOT_WEIGHTS.get(node.op, ())
            if position < len(node.inputs)
        }
        return sum(
            prod(tensor.shape)
            for name, tensor in self.constants.items()
            if name not in aside and tensor.shape and tensor.dtype in _WEIGHT_TYPES
        )

    def precision(self) -> str:
        """In which types the heavy layers are written, such as "float32", "int8" or "float32+int8"."""
        quantised = {out for node in self.nodes if node.op == "DequantizeLinear" for out in node.outputs}
        found = set()
        for node in self.nodes:
            if _INTEGER_ARITHMETIC.fullmatch(node.op):
                found.add("int8")
            elif _ARITHMETIC.fullmatch(node.op):
                found.add("int8" if quantised.issuperset(node.inputs[:2]) else self._weight_type(node))
        return "+".join(sorted(found)) or (self.inputs[0].dtype if self.inputs else "float32")

    def _weight_type(self, node: OnnxNode) -> str:
        types = [self.constants[name].dtype for name in node.inputs if name in self.constants]
        return types[0] if types else "float32"

    def external_files(self) -> list[str]:
        """Names of other files that hold weights of this graph."""
        return sorted({tensor.external for tensor in self.constants.values() if tensor.external is not None})

    def check(self) -> None:
        """Every tensor a node takes is made before it, by a node, an initialiser or an input."""
        known = {"", *self.constants, *(spec.name for spec in self.inputs)}
        for node in self.nodes:
            missing = next((name for name in node.inputs if name not in known), None)
            if missing is not None:
                raise ModelError(f"The ONNX graph is damaged: nothing makes the tensor {missing[:60]!r}.")
            known.update(node.outputs)
        for spec in self.outputs:
            if spec.name not in known:
                raise ModelError(f"The ONNX graph is damaged: nothing makes the output {spec.name[:60]!r}.")


def read_graph(path: Path) -> OnnxGraph:
    """The top-level graph of an ONNX file; ModelError where the bytes are no ONNX model."""
    if path.stat().st_size >= _LARGEST:
        raise ModelError(
            f"{path.name} has {path.stat().st_size:,} bytes; an ONNX file has less than 2 GiB.",
            hint="Larger models keep their weights in a file of their own.",
        )
    try:
        return _model(memoryview(path.read_bytes()))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path.name} is not a complete ONNX file: {error}.", hint="Fetch it again, or check its format."
        ) from error


def check_external(model: ModelFiles) -> None:
    """Refuse weights in files that the asset does not list: they would be no part of the model's identity."""
    outside = read_graph(model.path()).external_files()
    if not outside:
        return
    if len(outside) > 1:
        raise ModelError(
            f"{model.path().name} keeps its weights in {len(outside)} other files; at most one is supported.",
            hint="Save it again with all external data in one file.",
        )
    listed = model.files.get("weights")
    if listed is None or listed != model.path().parent / outside[0]:
        raise ModelError(
            f"{model.path().name} keeps its weights in {outside[0]!r}, which the manifest does not list beside it.",
            hint="Add it under assets.files with role: weights, in the model's own folder.",
        )


# --- protobuf wire format


def _varint(data: Buffer, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number is longer than 64 bits")


def _fields(data: Buffer) -> Iterator[tuple[int, int | Buffer]]:
    """(field number, integer or bytes) in file order."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"wire type {kind} does not occur in ONNX")
        if at + size > end:
            raise ValueError("it ends in the middle of a field")
        yield key >> 3, data[at : at + size]
        at += size


def _text(value: int | Buffer) -> str:
    return str(_bytes(value), "utf-8")


def _bytes(value: int | Buffer) -> Buffer:
    if isinstance(value, int):
        raise ValueError("a number stands where a text or message belongs")  # noqa: TRY004 - read as damage
    return value


def _model(data: Buffer) -> OnnxGraph:
    for number, value in _fields(data):
        if number == 7:
            return _graph(_bytes(value))
    raise ValueError("it holds no graph")


def _graph(data: Buffer) -> OnnxGraph:
    graph = OnnxGraph()
    for number, value in _fields(data):
        if number == 1:
            _add_node(graph, _bytes(value))
        elif number == 5:
            tensor = _tensor(_bytes(value))
            graph.constants[tensor.name] = tensor
        elif number == 11:
            graph.inputs.append(_value_info(_bytes(value)))
        elif number == 12:
            graph.outputs.append(_value_info(_bytes(value)))
    graph.inputs = [spec for spec in graph.inputs if spec.name not in graph.constants]
    return graph


def _add_node(graph: OnnxGraph, data: Buffer) -> None:
    inputs, outputs, op, has_subgraph = [], [], "", False
    constant: OnnxTensor | None = None
    for number, value in _fields(data):
        if number == 1:
            inputs.append(_text(value))
        elif number == 2:
            outputs.append(_text(value))
        elif number == 4:
            op = _text(value)
        elif number == 5:
            for inner, content in _fields(_bytes(value)):
                if inner == 5:
                    constant = _tensor(_bytes(content))
                has_subgraph |= inner in (6, 11)
    if op == "Constant" and constant is not None and outputs:
        graph.constants[outputs[0]] = constant
    graph.nodes.append(OnnxNode(op, tuple(inputs), tuple(outputs), has_subgraph))


def _tensor(data: Buffer) -> OnnxTensor:
    shape: list[int] = []
    name, kind, raw, external, location = "", 0, None, False, ""
    for number, value in _fields(data):
        if number == 1:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8:
            name = _text(value)
        elif number == 9:
            raw = len(_bytes(value))
        elif number == 13:
            location = _external_location(_bytes(value)) or location
        elif number == 14:
            external = value == 1
    if raw is not None and not external and kind in _SIZES and raw != prod(shape) * _SIZES[kind]:
        raise ValueError(f"the tensor {name[:60]!r} has {raw} bytes where its shape needs {prod(shape) * _SIZES[kind]}")
    return OnnxTensor(name, DTYPES.get(kind, "unknown"), tuple(shape), location if external else None)


def _external_location(entry: Buffer) -> str | None:
    """The value of a key-value pair, if its key is "location"."""
    pair = {number: _text(value) for number, value in _fields(entry)}
    return pair.get(2) if pair.get(1) == "location" else None


def _packed(data: Buffer) -> list[int]:
    values, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def _value_info(data: Buffer) -> TensorSpec:
    name, dtype = "", "unknown"
    shape: list[int | None] = []
    for number, value in _fields(data):
        if number == 1:
            name = _text(value)
        elif number == 2:
            for kind, tensor_type in _fields(_bytes(value)):
                if kind == 1:
                    dtype, shape = _tensor_type(_bytes(tensor_type))
    return TensorSpec(name, tuple(shape), dtype)


def _tensor_type(data: Buffer) -> tuple[str, list[int | None]]:
    dtype = "unknown"
    shape: list[int | None] = []
    for number, value in _fields(data):
        if number == 1 and isinstance(value, int):
            dtype = DTYPES.get(value, "unknown")
        elif number == 2:
            for inner, dimension in _fields(_bytes(value)):
                if inner == 1:
                    extents = [v for n, v in _fields(_bytes(dimension)) if n == 1 and isinstance(v, int)]
                    shape.append(extents[0] if extents and extents[0] > 0 else None)
    return dtype, shape
