"""Layers that have their partners, but are computed from others than these are."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from zoolens.graph.diff.alignment import Alignment
from zoolens.graph.diff.causes import CONNECTIONS, LayerFinding
from zoolens.graph.model import Graph
from zoolens.graph.vocabulary import COMMUTATIVE

# The order of a concat's parts is free: it only numbers the channels that the next layer has weights for.
_UNORDERED: Final = COMMUTATIVE | {"concat"}


def connection_findings(alignment: Alignment, a: Graph, b: Graph) -> Iterator[LayerFinding]:
    """The first layer that the other side computes nowhere in the same way, where all layers have partners of their own
    kind. Elsewhere other connections follow from what is missing or replaced, which is told as such."""
    pairs = [(row, pair) for row, aligned in enumerate(alignment.rows) for pair in aligned.pairs]
    if any(pair.a is None or pair.b is None or pair.a.node.op != pair.b.node.op for _, pair in pairs):
        return
    ours, theirs = _derivations(a), set(_derivations(b).values())
    place = {node.name: number for number, node in enumerate(a.nodes)}
    foreign = [(row, pair) for row, pair in pairs if pair.a and ours[pair.a.node.name] not in theirs]
    if foreign:
        row, pair = min(foreign, key=lambda item: place[item[1].either.node.name])
        yield LayerFinding(CONNECTIONS, row, pair, "", (None, None))


def _derivations(graph: Graph) -> dict[str, str]:
    """For every value a digest of the operators that lead to it and of how they are connected, and of nothing else."""
    digests: dict[str, str] = {}
    for node in graph.nodes:
        inputs = [digests[name] for name in node.inputs]
        text = "\0".join([node.op, *(sorted(inputs) if node.op in _UNORDERED else inputs)])
        digests[node.name] = blake2b(text.encode(), digest_size=12).hexdigest()
    return digests
