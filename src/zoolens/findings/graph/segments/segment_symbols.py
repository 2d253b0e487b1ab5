"""A symbol for each segment: equal where two compute the same from what goes in.

A node's label is its signature with the labels of what it takes in (Weisfeiler–Lehman, along the edges); the symbol of
a segment is the label of its exit with those of all its nodes. Labels are numbers given on first sight, so unlike
hashes they never collide. Whether two segments of one symbol are the same graph is settled by pairing their nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.equality import signature
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE
from zoolens.findings.graph.segments.segment import Segment

_SAMPLES: Final = 32  # numbers of a tensor that tell it from most others


@dataclass(frozen=True)
class Labels:
    """The labels of one segment. `exact` is equal only where the weights are likely equal too; `nodes` has the label of
    each node by name."""

    structure: int
    exact: int
    nodes: dict[str, int]


class Symbols:
    """Gives out labels; segments are compared by those of one and the same giver."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[tuple[int, str], tuple[int, int]] = {}

    def of(self, graph: Graph, segment: Segment) -> Labels:
        entry = self._number(("entry", graph.by_name[segment.entry].shape))
        labels = {segment.entry: entry}
        exact = {segment.entry: entry}
        for node in segment.of(graph):
            own, weighted = self._alone(graph, node)
            labels[node.name] = self._number((own, _order(node, labels)))
            exact[node.name] = self._number((weighted, _order(node, exact)))
        del labels[segment.entry], exact[segment.entry]
        return Labels(self._whole(labels, segment), self._whole(exact, segment), labels)

    def _whole(self, labels: dict[str, int], segment: Segment) -> int:
        """A number for the labels of all nodes: a value that is computed twice differs from one that is used twice."""
        every = tuple(sorted(labels.values()))
        return self._number((labels[segment.exit], every))

    def _alone(self, graph: Graph, node: Node) -> tuple[int, int]:
        """Numbers of the node by itself, without and with its weights."""
        known = self._seen.get((id(graph), node.name))
        if known is None:
            own = self._number(signature(node))
            samples = tuple((tensor.role, _sample(graph.weights.get(tensor.key))) for tensor in node.parameters)
            known = self._seen[id(graph), node.name] = own, self._number((own, samples))
        return known

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _order(node: Node, labels: dict[str, int]) -> tuple[int, ...]:
    taken = [labels[name] for name in node.inputs]
    return tuple(sorted(taken) if node.op in COMMUTATIVE else taken)


def _sample(values: Array | None) -> bytes | None:
    if values is None:
        return None
    flat = np.asarray(values).reshape(-1)
    return flat[:: max(1, flat.size // _SAMPLES)].astype(np.float64).tobytes()


def paired(a: tuple[Graph, Segment, Labels], b: tuple[Graph, Segment, Labels]) -> tuple[tuple[Node, Node], ...] | None:
    """Each node of one segment with its partner in the other, in order; None where they are not the same graph."""
    partner = {a[1].entry: b[1].entry}
    open_ = [(a[1].exit, b[1].exit)]
    while open_:
        ours, theirs = open_.pop()
        if ours in partner:
            if partner[ours] != theirs:
                return None
            continue
        if a[2].nodes.get(ours, -1) != b[2].nodes.get(theirs, -2):
            return None
        partner[ours] = theirs
        open_ += zip(_sources(a, ours), _sources(b, theirs), strict=True)
    if len(set(partner.values())) != len(partner) or len(partner) != len(a[1]) + 1 or len(a[1]) != len(b[1]):
        return None
    return tuple((a[0].by_name[name], b[0].by_name[partner[name]]) for name in a[1].nodes)


def _sources(side: tuple[Graph, Segment, Labels], name: str) -> list[str]:
    graph, _, labels = side
    node = graph.by_name[name]
    if node.op in COMMUTATIVE:
        return sorted(node.inputs, key=lambda source: labels.nodes.get(source, -1))
    return list(node.inputs)
