"""Which weight tensor of one file is which of another, by the structure of both.

The names in ONNX files are their exporter's: the comparison of the two graphs has put their layers beside each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from zoolens.base.errors import ModelError
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.equality import node_hashes
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE
from zoolens.findings.graph.weights.weight_diff import KeyPair


def tensor_pairs(compared: Diff) -> list[KeyPair]:
    """The keys of each weight tensor in both graphs, where these have one structure as they are; else ModelError."""
    changed = compared.norm_blind or compared.folded or compared.scaled or compared.stored
    if not compared.same or changed:
        raise ModelError(
            "Weights in ONNX files are compared only where the structures are the same as they are: which tensor is "
            "which follows from that.",
            hint="`zoolens diff` without --weights says what differs.",
        )
    for graph in (compared.a, compared.b):
        _check_no_two_alike(graph)
    pairs: dict[KeyPair, None] = {}
    for pair in compared.alignment.pairs:
        if pair.a is not None and pair.b is not None:
            pairs.update(dict.fromkeys(_of_layers(pair.a.node, pair.b.node)))
    if not pairs:
        raise ModelError(f"{compared.a.name} and {compared.b.name} have no weights that could be compared.")
    for graph, known in zip((compared.a, compared.b), zip(*pairs, strict=True), strict=True):
        if not {tensor.key for _, tensor in graph.learned_tensors()} <= set(known):
            raise ModelError(f"It is not known which tensor of {graph.name} is which of the other file.")
    return list(pairs)


def _check_no_two_alike(graph: Graph) -> None:
    """Refuses terms of a sum that only their weights tell apart: either may be either of the other file's."""
    hashes = node_hashes(graph)
    for node in graph:
        terms = {hashes[name] for name in set(node.inputs)}
        if node.op in COMMUTATIVE and len(terms) < len(set(node.inputs)):
            raise ModelError(
                f"The weights of {graph.name} are not compared: branches that meet at {node.name[:60]!r} are alike but "
                "for their weights, so that it is not known which of the other file is which."
            )


def _of_layers(a: Node, b: Node) -> Iterator[KeyPair]:
    if a.op == "constant":
        return
    for tensor in a.parameters:
        other = b.parameter(tensor.role)
        if other is not None and tensor.key and other.key:
            yield tensor.key, other.key
