"""What an ONNX file says, read straight from its protobuf bytes.

Enough to count parameters, to name the arithmetic and to refuse damaged graphs, without the `onnx` package: the
runtimes that read ONNX do not need it, and one of them (OpenCV) crashes on graphs that name tensors nobody makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import prod
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.model_files.model_reading import model_bytes
from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, fields, integers, text
from zoolens.inventory.runtimes.onnx.onnx_value_types import DTYPES, value_info
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec

_MAX_NODES: Final = 200_000
_MAX_RANK: Final = 64
_SHORT: Final = 64  # bytes of a message that is read once for all places where it stands
# Fields of an attribute that hold graphs, and those that hold graphs, several tensors or sparse ones.
_GRAPHS: Final = frozenset({6, 11})
_NESTED: Final = frozenset({6, 10, 11, 22, 23})
_LOCATION: Final = b"location"  # the key under which a tensor names a file
_SIZES: Final = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 16: 2}
_WEIGHT_TYPES: Final = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32"}
_ARITHMETIC: Final = re.compile(r"(Nhwc)?(Fused)?(Conv|Gemm|MatMul)|ConvTranspose|LSTM|GRU|RNN|Attention")
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
    message: Buffer = field(default=Buffer(b""), repr=False, compare=False)  # see `onnx_values.array`


@dataclass(frozen=True)
class OnnxNode:
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    has_subgraph: bool
    name: str = ""
    domain: str = ""
    attributes: tuple[Buffer, ...] = field(default=(), repr=False, compare=False)  # see `onnx_values.attributes`


@dataclass(frozen=True)
class OnnxFunction:
    """A function that the file defines for its nodes to call. `defaults` are attributes that a call may leave out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    defaults: tuple[Buffer, ...] = field(default=(), repr=False, compare=False)


@dataclass
class OnnxGraph:
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[str, OnnxTensor] = field(default_factory=dict)
    inputs: list[TensorSpec] = field(default_factory=list)
    outputs: list[TensorSpec] = field(default_factory=list)
    values: dict[str, TensorSpec] = field(default_factory=dict)  # what the file says of tensors in between
    opset: int = 0
    producer: str = ""
    elsewhere: tuple[str, ...] = ()  # other files that any tensor of the file names, also inside branches and functions
    functions: dict[tuple[str, str], OnnxFunction] = field(default_factory=dict)  # by domain and name
    sparse: set[str] = field(default_factory=set)  # initialisers of which only the numbers that are not 0 are kept
    nested: bool = False  # whether an attribute holds a graph, or several tensors

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
        """Names the types in which the heavy layers are written, such as "float32", "int8" or "float32+int8"."""
        quantised = {out for node in self.nodes if node.op == "DequantizeLinear" for out in node.outputs}
        types = set()
        for node in self.nodes:
            if _INTEGER_ARITHMETIC.fullmatch(node.op):
                types.add("int8")
            elif _ARITHMETIC.fullmatch(node.op):
                types.add("int8" if quantised.issuperset(node.inputs[:2]) else self._weight_type(node))
        return "+".join(sorted(types)) or self._type_without_layers()

    def _type_without_layers(self) -> str:
        """Returns the type of a graph without heavy layers: real numbers go in or come out, unless all of it is whole
        numbers. A model that takes numbers of tokens and looks their vectors up does not compute in int64."""
        types = [spec.dtype for spec in (*self.inputs, *self.outputs)]
        return next((name for name in types if "float" in name), types[0] if types else "float32")

    def _weight_type(self, node: OnnxNode) -> str:
        types = [self.constants[name].dtype for name in node.inputs if name in self.constants]
        return types[0] if types else "float32"

    def external_files(self) -> list[str]:
        """Names of other files that hold values of this model, in whichever of its graphs."""
        return list(self.elsewhere)

    def sort(self) -> None:
        """Puts nodes behind those that make their inputs, as ONNX Runtime does when it opens a file: the casts that its
        converter to half precision adds stand at the end. Nodes in a circle keep their place, for `check` to name."""
        made = {"", *self.constants, *(spec.name for spec in self.inputs)}
        makers = {name: place for place, node in enumerate(self.nodes) for name in node.outputs}
        missing = [{name for name in node.inputs if name in makers and name not in made} for node in self.nodes]
        users: dict[str, list[int]] = {}
        for place, names in enumerate(missing):
            for name in names:
                users.setdefault(name, []).append(place)
        ready = [place for place, names in enumerate(missing) if not names]
        heapify(ready)
        order: list[int] = []
        while ready:
            order.append(heappop(ready))
            for name in self.nodes[order[-1]].outputs:
                for user in users.pop(name, ()):
                    missing[user].discard(name)
                    if not missing[user]:
                        heappush(ready, user)
        if len(order) == len(self.nodes):
            self.nodes = [self.nodes[place] for place in order]

    def check(self) -> None:
        """Every tensor a node takes is made before it, by a node, an initialiser or an input."""
        known = {"", *self.constants, *(spec.name for spec in self.inputs)}
        for node in self.nodes:
            missing = next((name for name in node.inputs if name not in known), None)
            if missing in self.sparse:
                raise ModelError(
                    f"The ONNX graph keeps {missing[:60]!r} as a sparse initialiser, which is not read here.",
                    hint="Export the model with dense initialisers.",
                )
            if missing is not None:
                raise ModelError(f"The ONNX graph is damaged: {self._why_missing(missing)}.")
            known.update(node.outputs)
        for spec in self.outputs:
            # An input of no name is one that is left out.
            if not spec.name or spec.name not in known:
                raise ModelError(f"The ONNX graph is damaged: no node produces the output {spec.name[:60]!r}.")

    def _why_missing(self, tensor: str) -> str:
        if any(tensor in node.outputs for node in self.nodes):
            return f"the tensor {tensor[:60]!r} is used before it is made: its nodes are out of order or go in a circle"
        return f"nothing makes the tensor {tensor[:60]!r}"


def read_graph(path: Path) -> OnnxGraph:
    """The top-level graph of an ONNX file; ModelError where the bytes are no ONNX model."""
    try:
        return _model(model_bytes(path))
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        # What Python says of an index tells of our reading, not of the file.
        reason = "it ends too early" if isinstance(error, IndexError) else str(error)
        raise ModelError(
            f"{path.name} is not a complete ONNX file: {reason}.", hint="Fetch it again, or check its format."
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
    # A file that is not listed has no digest: changed weights would be taken for the same model.
    listed = model.files.get("weights")
    if listed is None or listed != model.path().parent / outside[0]:
        raise ModelError(
            f"{model.path().name} keeps its weights in {outside[0]!r}, which the manifest does not list beside it.",
            hint="Add it under assets.files with role: weights, in the model's own folder.",
        )


# --- messages


def _model(file: bytes) -> OnnxGraph:
    graph, opset, producer = None, 0, ""
    functions = {}
    seen: set[int] = set()
    for number, value in fields(memoryview(file)):
        seen.add(number)
        if number == 7:
            if graph is not None:
                raise ValueError("it holds two graphs")
            graph = read_subgraph(content(value))
        elif number == 25:
            key, function = _function(content(value))
            functions[key] = function
        elif number == 8:
            opset = max(opset, _default_opset(content(value)))
        elif number == 2:
            producer = text(value)
    if graph is None:
        raise ValueError("it holds no graph")
    graph.opset, graph.producer, graph.functions = opset, producer, functions
    # Otherwise all messages that may hold a tensor have been read.
    if seen & {20, 25} or graph.nested or graph.sparse or _LOCATION in file:
        graph.elsewhere = tuple(sorted(_locations(memoryview(file))))
    return graph


# Which fields of a message hold which messages: everything through which a tensor can be reached. The names are ONNX's.
_INSIDE: Final[dict[str, dict[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}


def _locations(data: Buffer) -> set[str]:
    """Every file that any tensor names for its values, whether or not the tensor also says that they lie there.

    Where a message occurs twice, protobuf merges both: one may name the file and the other say that it counts.
    """
    files: set[str] = set()
    waiting = [("model", data)]
    while waiting:
        kind, message = waiting.pop()
        if kind == "tensor":
            entries = (external_entry(content(value)) for number, value in fields(message) if number == 13)
            files.update(entry["location"] for entry in entries if "location" in entry)
            continue
        inside = _INSIDE[kind]
        waiting.extend((inside[number], content(value)) for number, value in fields(message) if number in inside)
    return files


def _default_opset(data: Buffer) -> int:
    domain, version = "", 0
    for number, value in fields(data):
        if number == 1:
            domain = text(value)
        elif number == 2 and isinstance(value, int):
            version = value
    return version if domain in ("", "ai.onnx") else 0


def _function(data: Buffer) -> tuple[tuple[str, str], OnnxFunction]:
    inside = OnnxGraph()
    texts: dict[int, list[str]] = {1: [], 4: [], 5: [], 10: []}  # name, inputs, outputs, domain
    defaults = []
    for number, value in fields(data):
        if number in texts:
            texts[number].append(text(value))
        elif number == 7:
            _add_node(inside, content(value))
        elif number == 11:
            defaults.append(content(value))
    domain, name = "".join(texts[10][-1:]), "".join(texts[1][-1:])
    return (domain, name), OnnxFunction(tuple(texts[4]), tuple(texts[5]), tuple(inside.nodes), tuple(defaults))


def read_subgraph(data: Buffer) -> OnnxGraph:
    """A graph: the file's own, a branch, or the body of a loop."""
    graph = OnnxGraph()
    for number, value in fields(data):
        if number == 1:
            _add_node(graph, content(value))
        elif number == 5:
            tensor = read_tensor(content(value))
            graph.constants[tensor.name] = tensor
        elif number == 15:
            values = (content(part) for place, part in fields(content(value)) if place == 1)
            graph.sparse.update(read_tensor(tensor).name for tensor in values)
        elif number == 11:
            graph.inputs.append(value_info(content(value)))
        elif number == 12:
            graph.outputs.append(value_info(content(value)))
        elif number == 13:
            spec = value_info(content(value))
            graph.values[spec.name] = spec
    graph.inputs = [spec for spec in graph.inputs if spec.name not in graph.constants]
    return graph


def _add_node(graph: OnnxGraph, data: Buffer) -> None:
    if len(graph.nodes) == _MAX_NODES:
        raise ValueError(f"it has more than {_MAX_NODES:,} nodes")
    inputs, outputs, attributes, texts, has_subgraph = [], [], [], {3: "", 4: "", 7: ""}, False
    constant: OnnxTensor | None = None
    for number, value in fields(data):
        if number == 1:
            inputs.append(text(value))
        elif number == 2:
            outputs.append(text(value))
        elif number in texts:
            texts[number] = text(value)
        elif number == 5:
            message = content(value)
            attributes.append(message)
            tensor, inside = _short_attribute(bytes(message)) if len(message) <= _SHORT else _held(message)
            constant = tensor or constant
            has_subgraph |= bool(inside & _GRAPHS)
            graph.nested |= bool(inside)
    if texts[4] == "Constant" and constant is not None and outputs:
        graph.constants[outputs[0]] = constant
    node = OnnxNode(texts[4], tuple(inputs), tuple(outputs), has_subgraph, texts[3], texts[7], tuple(attributes))
    graph.nodes.append(node)


def _held(attribute: Buffer) -> tuple[OnnxTensor | None, frozenset[int]]:
    """The tensor that an attribute is, and which of its fields hold graphs, several tensors or sparse ones."""
    tensor = None
    inside = set()
    for number, value in fields(attribute):
        if number == 5:
            tensor = read_tensor(content(value))
        elif number in _NESTED:
            inside.add(number)
    return tensor, frozenset(inside)


@lru_cache(maxsize=4096)
def _short_attribute(message: bytes) -> tuple[OnnxTensor | None, frozenset[int]]:
    """Layers of a network repeat the same few attributes."""
    return _held(memoryview(message))


def read_tensor(data: Buffer) -> OnnxTensor:
    shape: list[int] = []
    name, kind, raw, external, location = "", 0, None, False, ""
    for number, value in fields(data):
        if number == 1:
            shape += integers(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8:
            name = text(value)
        elif number == 9:
            raw = len(content(value))
        elif number == 13:
            location = external_entry(content(value)).get("location", location)
        elif number == 14:
            external = value == 1
    if len(shape) > _MAX_RANK or any(extent < 0 for extent in shape):
        raise ValueError(f"the tensor {name[:60]!r} has no possible shape")
    if raw is not None and not external and kind in _SIZES and raw != prod(shape) * _SIZES[kind]:
        raise ValueError(f"the tensor {name[:60]!r} has {raw} bytes where its shape needs {prod(shape) * _SIZES[kind]}")
    return OnnxTensor(name, DTYPES.get(kind, "unknown"), tuple(shape), location if external else None, data)


def external_entry(data: Buffer) -> dict[str, str]:
    """One key-value pair about values kept in another file: location, offset or length."""
    pair = {number: text(value) for number, value in fields(data)}
    return {pair.get(1, ""): pair.get(2, "")}
