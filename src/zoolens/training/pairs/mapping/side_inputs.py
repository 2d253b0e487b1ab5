"""Masks and first states that one side has and the other lacks: their layers are compared without them.

What makes a mask or a first state runs beside the layers that use it. Where only one side has such a branch, nothing
stands where it would, although the layers are those of the other side: the branch is the difference, and is named.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.diff.report import diff as graph_diff
from zoolens.findings.graph.ir.model import Graph, Node, pruned
from zoolens.training.pairs.mapping.gate_tensors import without_added_biases


def compared(a: Graph, b: Graph, names: tuple[str, str]) -> Diff:
    """How two graphs differ; without masks and first states where that shows that only one side has them."""
    whole = without_added_biases(graph_diff(a, b, names=names, exported=False))
    bare = _bare(a), _bare(b)
    if whole.same or (bare[0] is a and bare[1] is b):
        return whole
    parts = without_added_biases(graph_diff(*bare, names=names, exported=False))
    fewer = _count(parts) < _count(whole)
    return parts if fewer and any(_is_of_side_input(pair) for pair in _pairs(parts)) else whole


def _count(diff: Diff) -> int:
    return len(diff.differences) + len(diff.unproved)


def _pairs(diff: Diff) -> list[tuple[Node, Node]]:
    return [(pair.a.node, pair.b.node) for pair in diff.alignment.pairs if pair.a and pair.b]


def _is_of_side_input(pair: tuple[Node, Node]) -> bool:
    """Whether one of two aligned layers is given a mask or a first state that the other is not."""
    a, b = pair
    return a.op == b.op and (a.get("given"), a.get("masked")) != (b.get("given"), b.get("masked"))


def _bare(graph: Graph) -> Graph:
    nodes = tuple(_alone(node) for node in graph.nodes)
    changed = any(before is not after for before, after in zip(graph.nodes, nodes, strict=True))
    return pruned(replace(graph, nodes=nodes)) if changed else graph


def _alone(node: Node) -> Node:
    if node.op == "recurrent_layer" and len(node.inputs) > 1:
        return replace(node, inputs=node.inputs[:1])
    if node.op == "attention" and len(node.inputs) > 3:
        return replace(node.with_attributes(masked=True), inputs=node.inputs[:3])
    return node
