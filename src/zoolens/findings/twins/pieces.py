"""The parts that a stitched model is made of: common segments, cut where a single value passes in both networks.

Two networks of one structure have one common segment, which is all of them. Pieces of a layer or a block each can be
exchanged, measured and dropped by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.segments.segment import Common, Kind, Segment
from zoolens.findings.graph.segments.weight_distance import weight_distance


@dataclass(frozen=True)
class Piece:
    """`macs` and `parameters` are those of the reference's part, and of the donor's that stands in for it."""

    common: Common
    macs: int
    parameters: int
    donor_macs: int
    donor_parameters: int

    @property
    def kind(self) -> Kind:
        return self.common.kind

    @property
    def distance(self) -> float | None:
        return self.common.distance


def pieces_of(a: Graph, b: Graph, commons: Iterable[Common]) -> list[Piece]:
    """Every common segment in pieces, in order of computation in `a`. Of segments that overlap the first counts.

    A segment that learned nothing and is the same in both is left out: to exchange it would change nothing.
    """
    ours, theirs = _Costs(a), _Costs(b)
    taken: set[str] = set()
    pieces: list[Piece] = []
    for common in commons:
        parts = [_piece(part, ours, theirs) for part in _cut(a, b, common)]
        telling = [part for part in parts if part.parameters or part.donor_parameters or part.distance != 0]
        if telling and taken.isdisjoint(common.a.nodes):
            taken.update(common.a.nodes)
            pieces += telling
    place = {node.name: number for number, node in enumerate(a.nodes)}
    return sorted(pieces, key=lambda piece: place[piece.common.a.exit])


class _Costs:
    def __init__(self, graph: Graph) -> None:
        self._layers = {layer.name: layer for layer in cost(graph).layers}

    def of(self, segment: Segment) -> tuple[int, int]:
        layers = [self._layers[name] for name in segment.nodes]
        return sum(layer.macs for layer in layers), sum(layer.parameters for layer in layers)


def _piece(common: Common, ours: _Costs, theirs: _Costs) -> Piece:
    return Piece(common, *ours.of(common.a), *theirs.of(common.b))


def _cut(a: Graph, b: Graph, common: Common) -> Iterator[Common]:
    nodes = [_computing(graph, segment) for graph, segment in ((a, common.a), (b, common.b))]
    if common.kind in ("same interface", "not known") or not _alike(*nodes):
        yield common
        return
    narrow = [_narrow(own, segment) for own, segment in zip(nodes, (common.a, common.b), strict=True)]
    start = 0
    entries = common.a.entry, common.b.entry
    for stop in _ends(nodes[0], [i for i in narrow[0] if i in set(narrow[1])]):
        parts = [
            Segment(entry, own[stop].name, tuple(node.name for node in own[start : stop + 1]))
            for own, entry in zip(nodes, entries, strict=True)
        ]
        yield _weighed(a, b, parts[0], parts[1])
        start, entries = stop + 1, (parts[0].exit, parts[1].exit)


def _computing(graph: Graph, segment: Segment) -> list[Node]:
    """Leaves go wherever they are used: they belong to no piece."""
    return [node for node in segment.of(graph) if node.op not in FIXED]


def _alike(a: Sequence[Node], b: Sequence[Node]) -> bool:
    """Node for node the same operator with parameters of the same shapes, in the same order of computation."""
    return len(a) == len(b) and all(
        node_a.op == node_b.op and node_a.shape == node_b.shape and _shapes(node_a) == _shapes(node_b)
        for node_a, node_b in zip(a, b, strict=True)
    )


def _shapes(node: Node) -> list[tuple[str, tuple[int, ...]]]:
    return sorted((parameter.role, parameter.shape) for parameter in node.parameters)


def _narrow(nodes: Sequence[Node], segment: Segment) -> list[int]:
    """The places after which only the value just made is still needed."""
    last: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in node.inputs:
            last[name] = place
    places, alive = [], last.get(segment.entry, 0)
    for place, node in enumerate(nodes):
        if alive <= place:
            places.append(place)
        alive = max(alive, last.get(node.name, len(nodes) if node.name == segment.exit else place))
    return places


def _ends(nodes: Sequence[Node], narrow: Sequence[int]) -> list[int]:
    """Where pieces end: what has no parameters of its own goes with the layer before it, or the first one after."""
    ends: list[int] = []
    start, has_layer = 0, False
    for stop in narrow:
        learned = any(node.parameters for node in nodes[start : stop + 1])
        if learned and has_layer:
            ends.append(start - 1)
        has_layer = has_layer or learned
        start = stop + 1
    return [*ends, len(nodes) - 1]


def _weighed(a: Graph, b: Graph, ours: Segment, theirs: Segment) -> Common:
    """What the weights of one piece say about its kind."""
    pairs = zip(_computing(a, ours), _computing(b, theirs), strict=True)
    distance = weight_distance(a, b, pairs, weighted=True)
    return Common(ours, theirs, distance.kind, distance.distance)
