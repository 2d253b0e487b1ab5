"""An ONNX graph while it is written: operators in order, tensors, and the type of every value. No `onnx` here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array, Graph, Node, Shape, unused_name
from zoolens.findings.graph.onnx_writer.free_batch import carriers

Kind = Literal["float", "int", "bool"]
_TYPES: Final[dict[Kind, tuple[int, Any]]] = {"float": (1, np.float32), "int": (7, np.int64), "bool": (9, np.bool_)}


@dataclass(frozen=True)
class OnnxOperator:
    op: str
    inputs: tuple[str, ...]  # "": an optional one that is left out
    output: str
    attributes: Mapping[str, Any]


class OnnxDraft:
    """Names are unique: nodes keep theirs, steps inside a node get a number, tensors the name of their parameter."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operators: list[OnnxOperator] = []
        self.tensors: dict[str, Array] = {}
        self.values: dict[str, str] = {}  # the ONNX value of each node
        self.kinds: dict[str, Kind] = {}
        batched = carriers(graph)
        self.free = batched is not None  # any number of examples
        self.batched = batched or frozenset()
        self._taken = {"", *(node.name for node in graph.nodes)}
        self._known: dict[tuple[Any, ...], str] = {}

    def unique(self, wanted: str) -> str:
        name = unused_name(wanted, self._taken)
        self._taken.add(name)
        return name

    def emit(self, node: Node, op: str, inputs: Sequence[str], kind: Kind = "float", **attributes: Any) -> str:
        output = self.unique(f"{node.name}/{op}")
        self.operators.append(OnnxOperator(op, tuple(inputs), output, attributes))
        self.kinds[output] = kind
        return output

    def settle(self, node: Node, value: str) -> None:
        """The value of a node is known by the node's name where an operator of its own has just made it."""
        last = self.operators[-1] if self.operators else None
        if last is not None and last.output == value and value not in self.graph.by_name:
            self.operators[-1] = replace(last, output=node.name)
            self.kinds[node.name] = self.kinds.pop(value)
            value = node.name
        self.values[node.name] = value

    def tensor(self, values: Array, wanted: str, kind: Kind = "float") -> str:
        """A tensor of the file; the same name and content is there once."""
        array = np.ascontiguousarray(values, _TYPES[kind][1]).reshape(np.shape(values))
        key = (wanted, kind, array.shape, hashlib.sha256(array.tobytes()).digest())
        if key not in self._known:
            name = self._known[key] = self.unique(wanted)
            self.tensors[name], self.kinds[name] = array, kind
        return self._known[key]

    def cast(self, node: Node, value: str, kind: Kind) -> str:
        if self.kinds[value] == kind:
            return value
        return self.emit(node, "Cast", (value,), kind, to=_TYPES[kind][0])


@dataclass(frozen=True)
class NodeWriter:
    """One node that is being written: what a rule sees. Rules return the name of the value they made."""

    draft: OnnxDraft
    node: Node

    def get(self, attribute: str, default: Any = None) -> Any:
        return self.node.get(attribute, default)

    @property
    def shape(self) -> Shape:
        return self.node.shape

    def given(self, place: int = 0) -> Shape:
        """The shape of an input."""
        return self.draft.graph.by_name[self.node.inputs[place]].shape

    @property
    def x(self) -> str:
        return self.input(0)

    @property
    def inputs(self) -> list[str]:
        return [self.input(place) for place in range(len(self.node.inputs))]

    def input(self, place: int, kind: Kind = "float") -> str:
        return self.draft.cast(self.node, self.draft.values[self.node.inputs[place]], kind)

    def emit(self, op: str, *inputs: str, kind: Kind = "float", **attributes: Any) -> str:
        return self.draft.emit(self.node, op, inputs, kind, **attributes)

    def number(self, value: float) -> str:
        return self.draft.tensor(np.asarray(value), f"{self.node.name}/number")

    def integers(self, values: Sequence[int]) -> str:
        return self.draft.tensor(np.asarray(values, np.int64), f"{self.node.name}/integers", "int")

    def tensor(self, values: Array, label: str, kind: Kind = "float") -> str:
        return self.draft.tensor(values, f"{self.node.name}/{label}", kind)

    # --- weights

    def values(self, role: str) -> Array | None:
        """The numbers of a parameter, in its shape; None where the node has none of this role."""
        tensor = self.node.parameter(role)
        if tensor is None:
            return None
        numbers = self.draft.graph.weights.get(tensor.key)
        if numbers is None:
            raise ModelError(
                f"{self.draft.graph.name} has no values for the {role} of {self.node.name[:60]!r}.",
                hint="Read it with `weighted_graph`.",
            )
        return np.asarray(numbers).reshape(tensor.shape)

    def weight(self, role: str, shape: Sequence[int] | None = None) -> str | None:
        """A parameter as a tensor, in this shape instead of its own."""
        numbers = self.values(role)
        tensor = self.node.parameter(role)
        if numbers is None or tensor is None:
            return None
        return self.draft.tensor(numbers if shape is None else numbers.reshape(shape), tensor.key)

    def along(self, role: str, axis: int, rank: int) -> str | None:
        """A vector laid along one axis of a value of this rank."""
        return self.weight(role, [-1 if place == axis else 1 for place in range(rank)])

    # --- shapes

    def reshaped(self, value: str, shape: Sequence[int]) -> str:
        """The numbers of the batch's examples stay together, however many there are."""
        target = [-1, *shape[1:]] if self.node.name in self.draft.batched else list(shape)
        return self.emit("Reshape", value, self.integers(target))

    def cut(self, value: str, axis: int, start: int, stop: int, step: int | None = None) -> str:
        """A piece of a value along one axis."""
        numbers = [start, stop, axis] if step is None else [start, stop, axis, step]
        given = [self.integers([int(number)]) for number in numbers]
        return self.emit("Slice", value, *given)

    def refused(self, why: str) -> ModelError:
        return ModelError(f"{self.node.name[:60]!r} ({self.node.op}) cannot be written as ONNX: {why}.")
