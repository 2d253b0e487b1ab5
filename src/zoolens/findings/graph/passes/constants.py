"""What depends on no input: one number becomes the attribute `scalar`, and arithmetic on tensors is done at once."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import SMALL
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, nested_tuples
from zoolens.findings.graph.ir.rotary_tables import matrix_shape
from zoolens.findings.graph.ir.vocabulary import ARITHMETIC, FIXED
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.graph.reference.ops import OPERATIONS

_BINARY: Final = ARITHMETIC | {"compare"}
_ORDERED: Final = frozenset({"sub", "div", "pow", "compare"})
_FOLDED: Final = frozenset(OPERATIONS) - {*FIXED, "unknown", "output_of", "recurrent", "input"}


def settle_leaves(graph: Graph) -> Graph:
    """Constants of one number become attributes, and tensors have at once the shape they are used in."""
    if not any(node.op in FIXED for node in graph.nodes):
        return graph
    return rewrite(graph, {**dict.fromkeys(_BINARY, _scalar), "reshape": _reshaped})


def fold_constants(graph: Graph) -> Graph:
    if not any(node.op in FIXED for node in graph.nodes):
        return graph
    return rewrite(graph, dict.fromkeys(_FOLDED, _fold))


def _scalar(node: Node, editor: Editor) -> Node | str:
    if len(node.inputs) != 2:
        return node
    makers = [editor.maker(name) for name in node.inputs]
    for place, (maker, other) in enumerate(zip(makers, reversed(makers), strict=True)):
        number = single_number(maker)
        if number is not None and other.shape == node.shape and other.op != "constant":
            kept = replace(node, inputs=(node.inputs[1 - place],))
            is_reversed = place == 0 and node.op in _ORDERED
            return kept.with_attributes(scalar=number, reverse=is_reversed or None)
    return node


def _reshaped(node: Node, editor: Editor) -> Node | str:
    leaf = editor.maker(node.inputs[0])
    if leaf.op not in FIXED:
        return node
    shaped = tuple(replace(tensor, shape=node.shape) for tensor in leaf.parameters)
    if matrix_shape(leaf.shape) != matrix_shape(node.shape):
        leaf = leaf.with_attributes(rotary=None, rates=None)  # they speak of tokens × width
    return replace(leaf, name=node.name, shape=node.shape, parameters=shaped)


def _fold(node: Node, editor: Editor) -> Node | str:
    makers = [editor.maker(name) for name in node.inputs]
    if not makers or any(maker.op not in FIXED for maker in makers) or node.learned:
        return node  # a layer keeps the weights that it learned, whatever it is given
    return _folded(node, makers, editor)


def _folded(node: Node, makers: list[Node], editor: Editor) -> Node:
    learned = any(maker.op == "parameter" for maker in makers)
    largest = max(prod(maker.shape) for maker in makers)
    if prod(node.shape) > largest:  # as a leaf it would count as more learned numbers than the source has
        return node
    values = _computed(node, makers, editor)
    leaf = replace(node, op="parameter" if learned else "constant", inputs=(), attributes={}, axes="")
    if not learned and values is not None and values.size <= SMALL:
        return replace(leaf.with_attributes(value=nested_tuples(values.tolist())), parameters=())
    key = f"{node.name}:folded"
    if node.op == "transpose" and len(node.shape) == 2 and learned and makers[0].parameters:
        key = transposed_key(makers[0].parameters[0].key)  # one tensor, whichever way round layers take it
    if values is not None:
        editor.weights[key] = values
    return replace(leaf, parameters=(Parameter("value", node.shape, key),))


def _computed(node: Node, makers: list[Node], editor: Editor) -> Array | None:
    """The value, where the weights it needs are there."""
    parts = tuple({maker.name: maker for maker in makers}.values())
    weights: dict[str, Array] = {}
    for part in (*parts, node):
        for tensor in part.parameters:
            values = editor.values(tensor.key)
            if values is None:
                return None
            weights[tensor.key] = values
    try:
        return run(Graph(node.name, (*parts, node), (node.name,), weights), {})[node.name]
    except ModelError:
        return None


def single_number(node: Node) -> float | None:
    """The value of a constant of one element."""
    value: Any = node.get("value")
    if node.op != "constant" or value is None or prod(node.shape) != 1:
        return None
    return float(np.asarray(value).reshape(()))


def parameter_of(node: Node) -> Parameter | None:
    """The tensor behind a `parameter` node, or a `constant` whose values are weights."""
    return node.parameter("value") if node.op in FIXED else None


def transposed_key(key: str) -> str:
    """The key of a matrix that is transposed; transposed twice, it is the same one."""
    suffix = ":transposed"
    return key.removesuffix(suffix) if key.endswith(suffix) else f"{key}{suffix}"
