"""One order for everything whose order does not matter: the terms of a sum, and the nodes of the graph."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from zoolens.findings.graph.ir.equality import node_hashes
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE


def settle_order(graph: Graph) -> Graph:
    return _in_depth_first_order(_with_longest_first(graph))


def _with_longest_first(graph: Graph) -> Graph:
    """Terms with the longest path first; among equals by their kernels, then by what leads to them. What leads to them
    comes last because a rounded constant or a folded norm far above would change it."""
    depth: dict[str, int] = {}

    def place(name: str) -> tuple[int, str, tuple[int, ...]]:
        node = graph.by_name[name]
        kernel = node.parameter("kernel")
        shape = kernel.shape if kernel else ()
        return -depth[name], node.op, shape

    @cache
    def hashes() -> dict[str, str]:  # they take longer than the rest, and few sums need them
        return node_hashes(graph)

    def ordered(names: tuple[str, ...]) -> tuple[str, ...]:
        places = {name: place(name) for name in names}
        if len(set(places.values())) == len(names):
            return tuple(sorted(names, key=places.__getitem__))
        return tuple(sorted(names, key=lambda name: (places[name], hashes()[name])))

    nodes = []
    for node in graph.nodes:
        depth[node.name] = 1 + max([depth[name] for name in node.inputs], default=0)
        if node.op in COMMUTATIVE and len(node.inputs) > 1:
            inputs = ordered(node.inputs)
            node = replace(node, inputs=inputs) if inputs != node.inputs else node
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _in_depth_first_order(graph: Graph) -> Graph:
    """Inputs first; then each node as soon as the ones before it in its consumer's list are there."""
    placed: dict[str, Node] = {node.name: node for node in graph.inputs}
    for output in graph.outputs:
        waiting = [output]
        while waiting:
            node = graph.by_name[waiting[-1]]
            missing = [name for name in node.inputs if name not in placed]
            if node.name in placed or not missing:
                placed.setdefault(node.name, node)
                waiting.pop()
            else:
                waiting.extend(reversed(missing))
    return replace(graph, nodes=tuple(placed.values()))
