"""Rows of a table that whole numbers name: `gather` as an embedding."""

from __future__ import annotations

import numpy as np

from zoolens.findings.graph.importers.jax.walk import JaxCall, Leaf, Operand
from zoolens.findings.graph.ir.model import Node


def gather(call: JaxCall) -> Operand:
    table = call.operands[0]
    numbers = call.settings["dimension_numbers"]
    if not isinstance(table, Leaf) or len(call.given[0]) != 2 or isinstance(call.operands[1], Leaf):
        return call.unknown()
    rows, width = call.given[0]
    places = call.given[1][:-1]
    whole_rows = tuple(call.settings["slice_sizes"]) == (1, width)
    by_row = tuple(numbers.start_index_map) == (0,) and tuple(numbers.collapsed_slice_dims) == (0,)
    by_place = tuple(numbers.start_index_map) == (0, 1) and not numbers.collapsed_slice_dims
    expected = (*places, width) if by_row else (*places, 1, width)
    if not whole_rows or not (by_row or by_place) or call.shape != expected:
        return call.unknown()
    first = _before_reshapes(call, str(call.operands[1]))
    if by_place:  # Equinox names the first column as well
        if first.op != "concat" or len(first.inputs) != 2 or not _is_zero(call, first.inputs[1]):
            return call.unknown()
        first = _before_reshapes(call, first.inputs[0])
    indices = _not_negative(call, first, rows)
    shape = call.walk.builder.shapes[indices]
    if shape != places:
        indices = call.add("reshape", indices, shape=places)
    parameter = call.walk.parameter("table", Leaf(table.full(call.given[0]), table.key, table.learned))
    made = call.add("embedding", indices, parameters=[parameter], shape=(*places, width))
    if call.shape == (*places, width):
        return made
    return call.add("reshape", made)


def _before_reshapes(call: JaxCall, name: str) -> Node:
    node = call.walk.maker(name)
    while node.op == "reshape":
        node = call.walk.maker(node.inputs[0])
    return node


def _is_zero(call: JaxCall, name: str) -> bool:
    node = _before_reshapes(call, name)
    if node.op != "constant":
        return False
    stored = [call.walk.builder.weights[parameter.key] for parameter in node.parameters]
    return not np.any(stored[0] if stored else np.asarray(node.get("value")))


def _not_negative(call: JaxCall, node: Node, rows: int) -> str:
    """The numbers themselves, where those below 0 were counted from the end: an embedding has none below 0."""
    if node.op != "where":
        return node.name
    below, moved, plain = (call.walk.maker(name) for name in node.inputs)
    wraps = below.op == "compare" and below.get("kind") == "<" and below.get("scalar") == 0
    added = moved.op == "add" and moved.get("scalar") == rows and moved.inputs == (plain.name,)
    if wraps and added and below.inputs == (plain.name,):
        return plain.name
    return node.name
