"""Which layers of two traces compute the same: groups of operators that both sides cover as a whole.

Runtimes fuse operators of a file differently. Where one computes conv and relu in one layer and the other in two, both
belong to one group. Two traces of the same file meet in the names of its operators. Traces of different files meet in
the canonical graph: an operator of either file is known there by its source, and the two graphs are aligned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.findings.graph.diff.alignment import Alignment, align
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import LEAVES
from zoolens.findings.tracing.families import family
from zoolens.findings.tracing.operators import traced_graph
from zoolens.findings.tracing.report import merged_layers
from zoolens.findings.tracing.spans import Level
from zoolens.findings.tracing.stored import Trace
from zoolens.findings.tracing.trace_layers import TracedLayer, timing

Names = Callable[[Sequence[str]], list[str]]  # what operators of a file are called where both sides meet


@dataclass(frozen=True)
class Group:
    """Layers of both sides that compute the same operators. A side without layers computes them elsewhere, or not."""

    nodes_a: tuple[str, ...]
    nodes_b: tuple[str, ...]
    a: tuple[TracedLayer, ...]
    b: tuple[TracedLayer, ...]


@dataclass(frozen=True)
class AlignedLayers:
    """`groups` in the order of computation. `only_a` and `only_b` are layers of which nobody knows what they compute,
    such as changes of layout. `by` says how both sides met: "file", "graph" or "kind"."""

    groups: tuple[Group, ...]
    only_a: tuple[TracedLayer, ...]
    only_b: tuple[TracedLayer, ...]
    by: str
    reason: str = ""  # why they met in kinds of operators only; of graphs a sentence on how well they fit


def align_layers(a: Trace, b: Trace) -> AlignedLayers:
    """The layers of two traces side by side; by kinds of operators where nothing better is known."""
    return _aligned(a, b, list(innermost_layers(a)), list(innermost_layers(b)))


def needs_graphs(a: Trace, b: Trace) -> bool:
    """Whether the graphs of both files must be read to align two traces, which can take long."""
    return a.run.model.fingerprint != b.run.model.fingerprint and all(
        any(layer.nodes for layer in innermost_layers(trace)) for trace in (a, b)
    )


def alignment_as_data(a: Trace, b: Trace) -> dict[str, Any]:
    """How the layers of two traces meet, as plain data that another process reads with `alignment_from_data`."""
    left, right = list(innermost_layers(a)), list(innermost_layers(b))
    aligned = _aligned(a, b, left, right)
    places = {id(layer): place for side in (left, right) for place, layer in enumerate(side)}

    def of(layers: Sequence[TracedLayer]) -> list[int]:
        return [places[id(layer)] for layer in layers]

    return {
        "groups": [[list(group.nodes_a), list(group.nodes_b), of(group.a), of(group.b)] for group in aligned.groups],
        "only_a": of(aligned.only_a),
        "only_b": of(aligned.only_b),
        "by": aligned.by,
        "reason": aligned.reason,
    }


def alignment_from_data(a: Trace, b: Trace, data: Mapping[str, Any]) -> AlignedLayers:
    left, right = list(innermost_layers(a)), list(innermost_layers(b))
    groups = [
        Group(
            tuple(nodes_a), tuple(nodes_b), tuple(left[place] for place in in_a), tuple(right[place] for place in in_b)
        )
        for nodes_a, nodes_b, in_a, in_b in data["groups"]
    ]
    return AlignedLayers(
        tuple(groups),
        tuple(left[place] for place in data["only_a"]),
        tuple(right[place] for place in data["only_b"]),
        data["by"],
        data["reason"],
    )


def _aligned(a: Trace, b: Trace, left: Sequence[TracedLayer], right: Sequence[TracedLayer]) -> AlignedLayers:
    if not (any(layer.nodes for layer in left) and any(layer.nodes for layer in right)):
        silent = a.runtime if not any(layer.nodes for layer in left) else b.runtime
        return _by_kind(left, right, f"{silent} does not report which operators of the file its layers compute")
    if a.run.model.fingerprint == b.run.model.fingerprint:
        return _by_nodes(left, right, list, list, "file")
    try:
        names_a, names_b, fit = _meeting_names(a, b)
    except ZoolensError as error:
        return _by_kind(left, right, error.message.rstrip("."))
    aligned = replace(_by_nodes(left, right, names_a, names_b, "graph"), reason=fit)
    if not any(group.a and group.b for group in aligned.groups):
        return _by_kind(left, right, "the two graphs have no operator in common")
    return aligned


def innermost_layers(trace: Trace) -> Iterator[TracedLayer]:
    """The layers to compare: the innermost ones whose operators are known. What a layer does besides those inside it
    is a layer of its own, of which nothing is known."""
    return _innermost(merged_layers(trace), trace)


def _innermost(layers: Sequence[TracedLayer], trace: Trace) -> Iterator[TracedLayer]:
    for layer in layers:
        inner = [child for child in layer.children if child.level == Level.LAYER]
        if not any(child.knows_nodes for child in inner):
            yield layer
            continue
        yield from _innermost(inner, trace)
        beside = layer.samples - np.nansum([child.samples for child in inner], axis=0)
        clean = trace.layer.clean if trace.layer is not None else np.ones(len(beside), bool)
        samples = np.maximum(beside, 0.0)
        yield replace(layer, samples=samples, timing=timing(samples, clean), nodes=(), children=())


def _by_nodes(
    a: Sequence[TracedLayer], b: Sequence[TracedLayer], names_a: Names, names_b: Names, by: str
) -> AlignedLayers:
    """Join layers that have an operator in common, until no two groups have one."""
    sides = [(layer, names_a(layer.nodes)) for layer in a], [(layer, names_b(layer.nodes)) for layer in b]
    joined = JoinedNames()
    for side in sides:
        for _, names in side:
            joined.join(names)
    members: dict[str, tuple[list[TracedLayer], list[TracedLayer]]] = {}
    unknown: tuple[list[TracedLayer], list[TracedLayer]] = ([], [])
    for place, side in enumerate(sides):
        for layer, names in side:
            own = members.setdefault(joined.root(names[0]), ([], [])) if names else unknown
            own[place].append(layer)
    groups = [
        Group(_nodes(from_a), _nodes(from_b), tuple(from_a), tuple(from_b)) for from_a, from_b in members.values()
    ]
    ordered = sorted(groups, key=lambda group: min(layer.started for layer in group.a or group.b))
    return AlignedLayers(tuple(ordered), tuple(unknown[0]), tuple(unknown[1]), by)


def _nodes(layers: Sequence[TracedLayer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node for layer in layers for node in layer.nodes))


class JoinedNames:
    """Sets of names that are joined (union–find)."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def root(self, name: str) -> str:
        path = []
        while (above := self._above.setdefault(name, name)) != name:
            path.append(name)
            name = above
        for passed in path:
            self._above[passed] = name
        return name

    def join(self, names: Sequence[str]) -> None:
        for name in names:
            self._above[self.root(name)] = self.root(names[0])


def _by_kind(a: Sequence[TracedLayer], b: Sequence[TracedLayer], reason: str) -> AlignedLayers:
    """All layers of one kind of operator beside those of the other side. Each framework has its own names for kinds:
    families of operators have one name for both."""
    kinds: dict[str, tuple[list[TracedLayer], list[TracedLayer]]] = defaultdict(lambda: ([], []))
    for place, side in enumerate((a, b)):
        for layer in side:
            kinds[family(layer.kind)][place].append(layer)
    groups = [Group((kind,), (kind,), tuple(from_a), tuple(from_b)) for kind, (from_a, from_b) in kinds.items()]
    return AlignedLayers(tuple(groups), (), (), "kind", reason)


def _meeting_names(a: Trace, b: Trace) -> tuple[Names, Names, str]:
    """The places of the aligned canonical graphs that each operator of either file has a part in, and how well the two
    graphs fit."""
    left, right = traced_graph(a), traced_graph(b)
    aligned = align(left.graph, right.graph)
    reverse = {name: f"a:{node.name}" for name, node in aligned.reverse.items()}

    def names_a(operators: Sequence[str]) -> list[str]:
        return [f"a:{name}" for name in left.nodes(operators)]

    def names_b(operators: Sequence[str]) -> list[str]:
        return [reverse.get(name, f"b:{name}") for name in right.nodes(operators)]

    return names_a, names_b, _fit(left.graph, right.graph, aligned)


def _fit(left: Graph, right: Graph, aligned: Alignment) -> str:
    """How many operators of two networks are matched, in a sentence."""
    counts = [sum(node.op not in LEAVES for node in graph.nodes) for graph in (left, right)]
    pairs = [(left.by_name[name], node) for name, node in aligned.partner.items() if node.op not in LEAVES]
    other = sum(_size(node) != _size(partner) for node, partner in pairs)
    words = f"Of {counts[0]} and {counts[1]} operators, {len(pairs)} are matched"
    return (
        f"{words}, {other} of them with another size or kind." if other else f"{words}, all of the same kind and size."
    )


def _size(node: Node) -> tuple[object, ...]:
    """What two operators must have in common to be the same one. Norms and biases are left out, because one file may
    have them merged into the kernel and the other not."""
    return node.op, node.shape[1:], [tensor.shape for tensor in node.parameters if tensor.role in ("kernel", "table")]
