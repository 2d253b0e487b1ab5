"""ReLUs that the quantisation of a file implies.

Whether the network has them there, and whether they end at 6, does not follow from ranges of numbers: the data of the
calibration may never have been negative, or never as large as 6.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.order import settle_order

_IMPLIED: Final = ("relu", "relu6")


def implies_activations(graph: Graph) -> bool:
    return any(node.get("implied") for node in graph)


def without_implied(graph: Graph, names: Container[str] | None = None) -> Graph:
    """The graph without the implied activations of these names, or without any."""

    def dropped(node: Node, _: Editor) -> Node | str:
        gone = node.get("implied") and (names is None or node.name in names)
        return node.inputs[0] if gone else node

    return settle_order(rewrite(graph, dict.fromkeys(_IMPLIED, dropped)))


def readings(graph: Graph) -> tuple[Graph, ...]:
    """The graph as it is, and, where it implies activations, with a limit of 6 and without them."""
    if not implies_activations(graph):
        return (graph,)
    limited = tuple(replace(node, op="relu6") if node.get("implied") else node for node in graph.nodes)
    return graph, replace(graph, nodes=limited), without_implied(graph)
