"""The canonical graph with every value that depends on no input as one tensor, for comparing with files that store it.

An exporter may compute such a value once (a bias by position, gathered from a table) and keep the result instead of
the weights it comes from.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node, Parameter, pruned
from zoolens.findings.graph.ir.rotary_tables import RATES, ROTARY
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.order import settle_order


def stored_values(graph: Graph) -> Graph:
    """Replace every value that depends on no input by one tensor; a constant tensor becomes a parameter."""
    fixed: set[str] = set()
    nodes = []
    for node in graph.nodes:
        if _is_fixed(node, fixed):
            fixed.add(node.name)
            node = _leaf(node)
        nodes.append(node)
    return settle_order(pruned(replace(graph, nodes=tuple(nodes))))


def _is_fixed(node: Node, fixed: set[str]) -> bool:
    if node.op in FIXED:
        return True
    if node.op == "input" or node.get("extents"):
        return False
    return all(name in fixed for name in node.inputs)  # an unknown operator of constants alone has no inputs


def _leaf(node: Node) -> Node:
    if node.op in FIXED and not node.parameters:
        return node  # a few numbers, which are an attribute
    key = node.parameters[0].key if node.op in FIXED else f"{node.name}:stored"
    stored = Node(node.name, "parameter", (), node.shape, {}, (Parameter("value", node.shape, key),), node.source)
    mask = "learned numbers" if node.op == "parameter" else node.get("mask")
    return stored.with_attributes(mask=mask, weak=node.get("weak"), rotary=node.get(ROTARY), rates=node.get(RATES))
