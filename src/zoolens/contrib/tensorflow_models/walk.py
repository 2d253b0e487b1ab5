"""Walks a tf.Graph with static shapes: no session, no initialised variable, no eager tensor.

Operations that depend on the input become nodes. What else they use is a variable (behind its reads, casts and
identities), or a number TensorFlow can tell without running anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import Arrange, GraphBuilder
from zoolens.findings.graph.ir.model import Array, Parameter, Shape, nested_tuples
from zoolens.findings.graph.ir.seeded_values import seeded_values

_TRANSPARENT: Final = frozenset({"Identity", "ReadVariableOp", "Cast", "StopGradient", "Enter", "Snapshot"})


@dataclass(frozen=True)
class Variable:
    name: str
    shape: Shape


@dataclass
class TensorFlowWalk:
    """The graph under construction. `names` has our value for every tensor that depends on the input."""

    builder: GraphBuilder
    captured: Mapping[str, Variable] = field(default_factory=dict)  # of a function: by the placeholder's name
    names: dict[str, str] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)

    def fed(self, tensor: Any) -> bool:
        return tensor.name in self.names

    def variable(self, tensor: Any) -> Variable | None:
        """The variable whose value this tensor is, or None."""
        operation = tensor.op
        while operation.type in _TRANSPARENT:
            operation = operation.inputs[0].op
        if operation.type in ("VarHandleOp", "VariableV2"):
            extents = [int(axis.size) for axis in operation.get_attr("shape").dim]
            return Variable(operation.name, tuple(extents))
        return self.captured.get(operation.name)

    def parameter(self, role: str, variable: Variable, arrange: Arrange | None = None) -> Parameter:
        name = variable.name
        shape = variable.shape
        return self.builder.arranged_parameter(role, shape, name, lambda: seeded_values(name, shape), arrange)

    def value(self, tensor: Any) -> str:
        """Our value for a tensor: made before, or a learned or constant tensor that becomes a node now."""
        if tensor.name not in self.names:
            self.names[tensor.name] = self._leaf(tensor)
        return self.names[tensor.name]

    def _leaf(self, tensor: Any) -> str:
        variable = self.variable(tensor)
        if variable is not None:
            parameter = self.parameter("value", variable)
            return self.builder.leaf("parameter", parameter, source=variable.name)
        known = constant(tensor)
        if known is None:
            return self.builder.unknown(tensor.op.type, (), static_shape(tensor), source=tensor.op.name)
        key = f"{tensor.op.name}/constant"
        values = self.builder.parameter("value", known.shape, key, known)
        small = nested_tuples(known.tolist()) if known.size <= 16 else None
        return self.builder.add("constant", (), known.shape, source=tensor.op.name, parameters=[values], value=small)

    def with_bias(self, value: str, bias: Parameter) -> bool:
        """Give the convolution or dense layer that made `value` its bias, unless it has one or others see it bare."""
        node = self.builder.node(value)
        is_bare = node.op in ("conv", "dense") and node.parameter("bias") is None
        if not is_bare or self.users.get(value, 0) > 1:
            return False
        self.builder.amend(value, parameters=(*node.parameters, bias))
        return True


def constant(tensor: Any) -> Array | None:
    """The value of a tensor that no input changes, if TensorFlow can tell it from the graph alone."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    return None if value is None else np.asarray(value)


def integers(tensor: Any) -> list[int]:
    """The constant integers an operator is given as a tensor: axes, permutations, pads."""
    values = constant(tensor)
    if values is None:
        raise ModelError(f"{tensor.op.name[:60]!r} is only known when the graph runs; a fixed number was expected.")
    return [int(item) for item in values.ravel()]


def static_shape(tensor: Any) -> Shape:
    if not tensor.shape.is_fully_defined():
        raise ModelError(
            f"The shape of {tensor.name[:60]!r} is only known when the graph runs.", hint="Give an input size."
        )
    return tuple(int(extent) for extent in tensor.shape)


def scope(operation: Any) -> str:
    """Where an operation was made: the layer's name, without the operator's own."""
    place, _, own = str(operation.name).rpartition("/")
    return place or own


def needed_operations(outputs: Iterable[Any], stop: Sequence[Any]) -> set[Any]:
    """Every operation that an output depends on."""
    needed: set[Any] = set()
    waiting = [tensor.op for tensor in outputs]
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            if operation not in stop:
                waiting.extend(tensor.op for tensor in operation.inputs)
    return needed
