"""Which nodes of the canonical graph the operators of a traced file became.

The canonical graph says what a network computes, with fewer operators than a file: a batch normalisation is part of the
convolution before it, seven operators are one attention. A node bears the name of one operator as its source. The
others are found here, so that the time of a layer that only normalises is not called time of nobody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import LEAVES
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.structures.weighted_graph import raw_graph
from zoolens.findings.tracing.runner import SHAPES
from zoolens.findings.tracing.stored import Trace
from zoolens.inventory.catalog.stored import check_model, stored_entry

Nodes = Mapping[str, tuple[str, ...]]  # names of nodes, by the operator of the file


@dataclass(frozen=True)
class TracedGraph:
    """The canonical graph of a file, with the operators that its nodes came from."""

    graph: Graph
    named: Nodes  # nodes that bear the name of an operator of the file
    absorbed: Nodes  # nodes that took in an operator whose name no node bears

    def nodes(self, operators: Collection[str]) -> list[str]:
        """The names of the nodes that a layer with these operators computes.

        What was absorbed counts only for layers that have nothing else: a layer that dequantises and multiplies
        computes the product, and no part of the layer before it.
        """
        for known in (self.named, self.absorbed):
            names = list(dict.fromkeys(name for operator in operators for name in known.get(operator, ())))
            if names:
                return names
        return []


def traced_graph(trace: Trace) -> TracedGraph:
    """The graph of the file that was traced; ZoolensError where it is gone or cannot be read as a graph."""
    entry = stored_entry(trace.run)
    check_model(entry, trace.run)
    for asset in entry.manifest.assets:
        if asset.format == trace.run.model.format:
            raw = raw_graph(entry, asset, _extents(trace))
            graph = canonical(raw)
            return TracedGraph(graph, *canonical_nodes(raw, graph))
    raise ModelError(f"{trace.run.ref} has no file in the format {trace.run.model.format} any more.")


def _extents(trace: Trace) -> dict[str, tuple[int, ...]] | None:
    """The shapes that made-up inputs had, where some were asked for."""
    shapes = trace.run.resolved.get(SHAPES)
    return {name: tuple(shape) for name, shape in shapes.items()} if isinstance(shapes, dict) else None


def canonical_nodes(raw: Graph, graph: Graph) -> tuple[Nodes, Nodes]:
    """The nodes of the canonical graph by the operators of the raw one that they compute: named and absorbed ones.

    An operator that no node bears the name of went into the node that has its learned tensors; else into the node
    behind it, where that is of a kind which the canonical form makes of several operators; else into the node before
    it, and where there is none, into the one behind it.
    """
    named: dict[str, list[str]] = defaultdict(list)
    for node in graph.nodes:
        if node.op not in LEAVES:
            named[node.source].append(node.name)
    own = {source: tuple(names) for source, names in named.items()}
    absorbed = _Absorbed(raw, graph, own)
    lost = [node for node in raw.nodes if node.op not in LEAVES and node.source not in own]
    return own, {node.source: into for node in lost if (into := absorbed.into(node))}


class _Absorbed:
    """Finds the nodes that took operators in."""

    def __init__(self, raw: Graph, graph: Graph, named: Nodes) -> None:
        self._raw, self._graph, self._named = raw, graph, named
        self._operators: dict[str, set[str]] = defaultdict(set)
        for node in raw.nodes:
            self._operators[node.source].add(node.op)
        self._owners = {tensor.key: node.name for node in graph.nodes for tensor in node.parameters if tensor.key}

    def into(self, node: Node) -> tuple[str, ...]:
        owners = {self._owners[tensor.key] for tensor in node.parameters if tensor.key in self._owners}
        if len(owners) == 1:
            return tuple(owners)
        behind = self._nearest(node, lambda value: self._raw.consumers[value.name])
        if behind is not None and self._is_composed(behind):
            return self._named[behind.source]
        before = self._nearest(node, lambda value: (self._raw.by_name[name] for name in value.inputs))
        nearest = before or behind
        return () if nearest is None else self._named[nearest.source]

    def _nearest(self, start: Node, neighbours: Callable[[Node], Iterable[Node]]) -> Node | None:
        """The first operator in one direction whose name a node bears."""
        waiting, seen = list(neighbours(start)), {start.name}
        while waiting:
            node = waiting.pop(0)
            if node.name in seen or node.op in LEAVES:
                continue
            if node.source in self._named:
                return node
            seen.add(node.name)
            waiting += neighbours(node)
        return None

    def _is_composed(self, node: Node) -> bool:
        """Whether the node that bears this operator's name is of another kind: it was made of several operators."""
        return all(
            self._graph.by_name[name].op not in self._operators[node.source] for name in self._named[node.source]
        )
