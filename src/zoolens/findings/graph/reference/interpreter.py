"""Computes a graph in numpy, raw or canonical: slow, plain, and independent of every framework.

It is what canonicalisation is proved against. In a raw graph, `Node.axes` says where the channels are; where it is
empty they are taken to be the second axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter
from zoolens.findings.graph.reference.layers import NodeCall
from zoolens.findings.graph.reference.ops import OPERATIONS


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs by name, in the floating type of the inputs (float32 if they have none)."""
    wanted = set(graph.outputs)
    values = {node.name: value for node, value in node_values(graph, inputs) if node.name in wanted}
    return {name: values[name] for name in graph.outputs}


def node_values(
    graph: Graph,
    inputs: Mapping[str, Array],
    given: Mapping[str, Array] | None = None,
    adjust: Callable[[Node, Array], Array] | None = None,
    precision: np.dtype[np.floating] | None = None,
) -> Iterator[tuple[Node, Array]]:
    """Every node with its value, in order of computation, in this precision or else the floating type of the inputs.

    Only values that a later node needs are held. `given`: values that are taken instead of being computed. `adjust`
    changes each computed value before others use it. Whoever keeps what is yielded must not change it.
    """
    dtype = precision or _precision(inputs)
    taken = given or {}
    left = Counter(name for node in graph.nodes for name in node.inputs)
    values: dict[str, Array] = {}
    for node in graph.nodes:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value = _valued(graph, node, inputs, taken, values, dtype)
            if adjust is not None and node.op != "input" and node.name not in taken:
                value = adjust(node, value)
        values[node.name] = value
        for name in node.inputs:
            left[name] -= 1
            if not left[name]:
                values.pop(name, None)
        if not left[node.name]:
            values.pop(node.name, None)
        yield node, value


def _valued(
    graph: Graph,
    node: Node,
    inputs: Mapping[str, Array],
    taken: Mapping[str, Array],
    values: Mapping[str, Array],
    dtype: np.dtype[np.floating],
) -> Array:
    if node.name in taken:
        value = taken[node.name]
        return value.astype(dtype, copy=False) if value.dtype.kind == "f" else value
    if node.op == "input":
        return _fed(node, inputs)
    return _computed(graph, node, values, dtype)


def _precision(inputs: Mapping[str, Array]) -> np.dtype[np.floating]:
    kinds = [value.dtype for value in inputs.values() if value.dtype.kind == "f"]
    return np.result_type(*kinds) if kinds else np.dtype(np.float32)


def _fed(node: Node, inputs: Mapping[str, Array]) -> Array:
    value = inputs.get(node.name)
    if value is None:
        raise ModelError(f"The graph needs a value for its input {node.name!r}.")
    if value.shape != node.shape:
        raise ModelError(f"The input {node.name!r} has the shape {value.shape}, not {node.shape}.")
    return value


def _computed(graph: Graph, node: Node, values: Mapping[str, Array], dtype: np.dtype[np.floating]) -> Array:
    operation = OPERATIONS.get(node.op)
    if operation is None:
        raise ModelError(f"{node.name[:60]!r} cannot be computed: {node.op!r} is not in the vocabulary.")
    fed = tuple(values[name] for name in node.inputs)
    learned = {tensor.role: _weights(graph, node, tensor, dtype) for tensor in node.parameters}
    try:
        result = operation(NodeCall(node, fed, learned, _layout(graph, node)))
    except (ValueError, IndexError, TypeError, KeyError) as error:
        raise ModelError(f"{node.name[:60]!r} ({node.op}) cannot be computed: {error}.") from error
    if result.shape != node.shape:
        raise ModelError(f"{node.name[:60]!r} ({node.op}) computes the shape {result.shape}, not {node.shape}.")
    return result.astype(dtype, copy=False) if result.dtype.kind == "f" else result


def _weights(graph: Graph, node: Node, tensor: Parameter, dtype: np.dtype[np.floating]) -> Array:
    values = graph.values(node, tensor)
    return values.astype(dtype, copy=False) if values.dtype.kind == "f" else values


def _layout(graph: Graph, node: Node) -> str:
    """The axes of the first input: those of the node where ranks agree, else those of whoever made the input."""
    if not node.inputs:
        return ""
    source = graph.by_name[node.inputs[0]]
    for axes in (node.axes, source.axes):
        if len(axes) == len(source.shape):
            return axes
    if node.op in ("global_avg_pool", "global_max_pool") and node.shape[-1] == source.shape[-1] != source.shape[1]:
        return "N" + "DHW"[-(len(source.shape) - 2) :] + "C"
    return ""
