"""Which value of one graph stands beside which value of the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

import numpy as np

from zoolens.base.numerics.rounding import ONE_ROUNDING
from zoolens.base.numerics.sequence_alignment import best_pairs
from zoolens.findings.graph.diff.alignment import align
from zoolens.findings.graph.ir.equality import same_structure, signature
from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.attention_settings import keep_few_heads, set_causal, share_tables
from zoolens.findings.graph.structures.weighted_graph import folded

EQUAL: Final = 32 * ONE_ROUNDING  # relative: weights that an exporter computed anew are not other weights
_SHARED: Final = 0.7  # of the nodes of the smaller graph that must have a partner of their name and kind


@dataclass(frozen=True)
class NodePair:
    """A node of each graph that stand for each other, by name."""

    a: str
    b: str

    @property
    def names(self) -> tuple[str, str]:
        return self.a, self.b


@dataclass(frozen=True)
class Aligned:
    """Two graphs with their pairs in order of computation, and the nodes that only one of them has. `named`: pairs have
    one name, so that it is known what each node is connected to in the other graph."""

    a: Graph
    b: Graph
    pairs: tuple[NodePair, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    named: bool = False

    @property
    def same_structure(self) -> bool:
        return not self.only_a and not self.only_b


def aligned(a: Graph, b: Graph) -> Aligned:
    """Return nodes beside each other: by place where both have one structure, with norms folded where one has none."""
    if a is b:
        return Aligned(a, b, tuple(NodePair(node.name, node.name) for node in a.nodes))
    for left, right in _forms(a, b):
        if same_structure(left, right):
            names = zip(left.nodes, right.nodes, strict=True)
            return Aligned(left, right, tuple(NodePair(node.name, other.name) for node, other in names))
        same_operators = [node.op for node in left.nodes] == [node.op for node in right.nodes]
        if same_operators and _norms(left) == _norms(right):
            # Only a setting differs, such as the epsilon of a norm.
            way = _paired(left, right, _in_sequence(left, right))
            if way.same_structure:
                return way
    if _norms(a) != _norms(b):
        a, b = folded(a), folded(b)
    by_sequence = _paired(a, b, _in_sequence(a, b))
    by_diff = _paired(a, b, align(a, b).partner)
    return min(by_sequence, by_diff, key=lambda way: len(way.only_a) + len(way.only_b))


def aligned_by_name(a: Graph, b: Graph) -> Aligned | None:
    """Nodes of one name beside each other, where nearly all nodes have a partner of their own kind: copies of one file.
    None where they have not."""
    shared = [name for name in a.by_name if name in b.by_name]
    alike = sum(a.by_name[name].op == b.by_name[name].op for name in shared)
    if alike < _SHARED * min(len(a.nodes), len(b.nodes)):
        return None
    pairs = tuple(NodePair(name, name) for name in shared)
    only_a = tuple(name for name in a.by_name if name not in b.by_name)
    only_b = tuple(name for name in b.by_name if name not in a.by_name)
    return Aligned(a, b, pairs, only_a, only_b, named=True)


def as_file(raw: Graph) -> Graph:
    """A raw graph whose inputs and outputs are found as those of a canonical one are."""
    return replace(raw, facts={**raw.facts, "input_axes": {}, "file_outputs": raw.outputs})


def _in_sequence(a: Graph, b: Graph) -> dict[str, Node]:
    """The partner of each node of A where the two are nearly the same: in order, by what they say and by weights."""
    signatures = {id(node): signature(node) for node in (*a.nodes, *b.nodes)}
    weights = {id(node): _weights_digest(graph, node) for graph in (a, b) for node in graph.nodes}

    def score(ours: Node, theirs: Node) -> float:
        if ours.op != theirs.op or _broadcast_shape(ours) != _broadcast_shape(theirs):
            return 0.0
        same = signatures[id(ours)] == signatures[id(theirs)]
        anchored = bool(weights[id(ours)]) and weights[id(ours)] == weights[id(theirs)]
        return 1.0 + same + 4 * anchored

    pairs = best_pairs(a.nodes, b.nodes, score)
    return {ours.name: theirs for ours, theirs in pairs if ours is not None and theirs is not None}


def _broadcast_shape(node: Node) -> Shape:
    """The shape of a node; of a constant or a table without the leading axes of extent 1, which converters add."""
    shape = node.shape
    while node.op in FIXED and shape[:1] == (1,):
        shape = shape[1:]
    return shape


def _weights_digest(graph: Graph, node: Node) -> bytes:
    machine = blake2b(digest_size=12)
    arrays = [
        np.ascontiguousarray(graph.weights[tensor.key]) for tensor in node.parameters if tensor.key in graph.weights
    ]
    for array in arrays:
        machine.update(array.tobytes())
    return machine.digest() if arrays else b""


def _paired(a: Graph, b: Graph, partner: Mapping[str, Node]) -> Aligned:
    inputs = {ours.name: theirs for ours, theirs in paired_inputs(a, b)}
    partner = {**partner, **inputs}
    pairs = tuple(NodePair(name, partner[name].name) for name in a.by_name if name in partner)
    beside = {pair.b for pair in pairs}
    # A constant without a partner is no difference of structure: converters fold it, spread it or store it twice.
    only_a = tuple(node.name for node in a.nodes if node.name not in partner and node.op not in FIXED)
    only_b = tuple(node.name for node in b.nodes if node.name not in beside and node.op not in FIXED)
    return Aligned(a, b, pairs, only_a, only_b)


def paired_inputs(a: Graph, b: Graph) -> list[tuple[Node, Node]]:
    """The inputs of both graphs: those of one name in the files, then the others by their places."""
    named = {_name_in_file(node): node for node in b.inputs}
    pairs = [(node, named[_name_in_file(node)]) for node in a.inputs if _name_in_file(node) in named]
    taken = {theirs.name for _, theirs in pairs}
    left = [node for node in a.inputs if _name_in_file(node) not in named]
    right = [node for node in b.inputs if node.name not in taken]
    return [*pairs, *zip(left, right, strict=False)]


def _name_in_file(node: Node) -> str:
    return node.source or node.name


def _forms(a: Graph, b: Graph) -> Iterator[tuple[Graph, Graph]]:
    yield a, b
    settled = [share_tables(keep_few_heads(set_causal(graph))) for graph in (a, b)]
    if settled[0] is not a or settled[1] is not b:
        yield settled[0], settled[1]
    if _norms(a) or _norms(b):
        yield folded(a), folded(b)


def _norms(graph: Graph) -> int:
    return sum(node.get("norm") is not None for node in graph.nodes)
