"""Tensors that layers of one side share, where the other side has one for each layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zoolens.findings.graph.diff.alignment import Alignment, LayerPair
from zoolens.findings.graph.diff.diff_causes import SHARING, LayerFinding
from zoolens.findings.graph.ir.model import STATISTICS, Graph, Node, Parameter
from zoolens.findings.graph.ir.vocabulary import FIXED


def sharing_findings(alignment: Alignment, a: Graph, b: Graph) -> Iterator[LayerFinding]:
    """One for each pair of layers of which only one takes a tensor of an earlier layer. Its values are the names of
    that earlier layer, on the side that has one."""
    owners = _owners(a), _owners(b)
    for number, row in enumerate(alignment.rows):
        for pair in row.pairs:
            yield from _of_pair(pair, number, owners)


def _of_pair(
    pair: LayerPair, row: int, owners: tuple[Mapping[str, Node], Mapping[str, Node]]
) -> Iterator[LayerFinding]:
    if pair.a is None or pair.b is None or pair.a.node.op in FIXED:
        return
    nodes = (pair.a.node, pair.b.node)
    for tensor in _learned(nodes[0]):
        other = nodes[1].parameter(tensor.role)
        if other is None or other.key not in owners[1]:
            continue
        first = owners[0][tensor.key], owners[1][other.key]
        shares = tuple(owner.name != node.name for owner, node in zip(first, nodes, strict=True))
        if shares[0] != shares[1]:
            values = tuple(
                owner.source or owner.name if share else None for owner, share in zip(first, shares, strict=True)
            )
            yield LayerFinding(SHARING, row, pair, "sharing", (values[0], values[1]), shares)


def _owners(graph: Graph) -> dict[str, Node]:
    """The first layer that takes each learned tensor, by the tensor's key."""
    owners: dict[str, Node] = {}
    for node in graph.nodes:
        for tensor in _learned(node):
            owners.setdefault(tensor.key, node)
    return owners


def _learned(node: Node) -> list[Parameter]:
    if node.op in FIXED or node.get("gives") == "cell":  # the cells of a layer, beside its states
        return []
    return [tensor for tensor in node.parameters if tensor.key and tensor.role not in STATISTICS]
