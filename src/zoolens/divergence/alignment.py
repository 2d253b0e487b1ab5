"""Which value of one graph stands beside which value of the other, and what the files say differently there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from zoolens.divergence.evaluation import Grid, exact_value, exact_values, grids_of, with_grids
from zoolens.graph.diff.alignment import align
from zoolens.graph.equality import same_structure, signature
from zoolens.graph.model import Array, Graph, Node, Parameter, unused_name
from zoolens.graph.sequence_alignment import best_pairs
from zoolens.graph.weighted_graph import folded
from zoolens.numerics.deviation import deviation_of_finite, root_mean_square
from zoolens.numerics.rounding import ONE_ROUNDING, rounded

EQUAL: Final = 32 * ONE_ROUNDING  # relative: weights that an exporter computed anew are not other weights
_LEAVES: Final = ("parameter", "constant")


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
    """Two graphs with their pairs in order of computation, and the nodes that only one of them has."""

    a: Graph
    b: Graph
    pairs: tuple[NodePair, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()

    @property
    def same_structure(self) -> bool:
        return not self.only_a and not self.only_b


def aligned(a: Graph, b: Graph) -> Aligned:
    """Nodes beside each other: by place where both have one structure, with norms folded where only one has them."""
    if a is b:
        return Aligned(a, b, tuple(NodePair(node.name, node.name) for node in a.nodes))
    for left, right in _forms(a, b):
        if same_structure(left, right):
            names = zip(left.nodes, right.nodes, strict=True)
            return Aligned(left, right, tuple(NodePair(node.name, other.name) for node, other in names))
        if _norms(left) == _norms(right) and [node.op for node in left.nodes] == [node.op for node in right.nodes]:
            way = _paired(left, right, _in_sequence(left, right))  # another setting, such as the epsilon of a norm
            if way.same_structure:
                return way
    a, b = (folded(a), folded(b)) if _norms(a) != _norms(b) else (a, b)
    ways = (_paired(a, b, partner) for partner in (_in_sequence(a, b), align(a, b).partner))
    return min(ways, key=lambda way: len(way.only_a) + len(way.only_b))


def _in_sequence(a: Graph, b: Graph) -> dict[str, Node]:
    """The partner of each node of A where the two are nearly the same: in order, by what they say and by weights."""
    signatures = {id(node): signature(node) for node in (*a.nodes, *b.nodes)}
    weights = {id(node): _weights_digest(graph, node) for graph in (a, b) for node in graph.nodes}

    def score(ours: Node, theirs: Node) -> float:
        if ours.op != theirs.op or ours.shape != theirs.shape:
            return 0.0
        same = signatures[id(ours)] == signatures[id(theirs)]
        anchored = bool(weights[id(ours)]) and weights[id(ours)] == weights[id(theirs)]
        return 1.0 + same + 4 * anchored

    pairs = best_pairs(a.nodes, b.nodes, score)
    return {ours.name: theirs for ours, theirs in pairs if ours is not None and theirs is not None}


def _weights_digest(graph: Graph, node: Node) -> bytes:
    machine = blake2b(digest_size=12)
    arrays = [
        np.ascontiguousarray(graph.weights[tensor.key]) for tensor in node.parameters if tensor.key in graph.weights
    ]
    for array in arrays:
        machine.update(array.tobytes())
    return machine.digest() if arrays else b""


def _paired(a: Graph, b: Graph, partner: Mapping[str, Node]) -> Aligned:
    partner = {**partner, **{ours.name: theirs for ours, theirs in paired_inputs(a, b)}}
    pairs = tuple(NodePair(node.name, partner[node.name].name) for node in a.nodes if node.name in partner)
    beside = {pair.b for pair in pairs}
    return Aligned(
        a,
        b,
        pairs,
        tuple(node.name for node in a.nodes if node.name not in partner and node.op not in _LEAVES),
        tuple(node.name for node in b.nodes if node.name not in beside and node.op not in _LEAVES),
    )


def paired_inputs(a: Graph, b: Graph) -> list[tuple[Node, Node]]:
    """The inputs of both graphs: by their names in the files where these are the same, else by their places."""
    named = {node.source or node.name: node for node in b.inputs}
    if {node.source or node.name for node in a.inputs} == named.keys():
        return [(node, named[node.source or node.name]) for node in a.inputs]
    return list(zip(a.inputs, b.inputs, strict=False))


def _forms(a: Graph, b: Graph) -> Iterator[tuple[Graph, Graph]]:
    yield a, b
    if _norms(a) or _norms(b):
        yield folded(a), folded(b)


def _norms(graph: Graph) -> int:
    return sum(node.get("norm") is not None for node in graph.nodes)


# --- what the files say differently


@dataclass(frozen=True)
class FileDifference:
    """What two files say differently at one place. `kind`: "weights", "attribute", "operator", "missing" (B lacks the
    node), "extra" (only B has it) or "quantisation" (its values lie on another grid). `effect`: how far that alone
    moves the node's value, given A's exact inputs."""

    kind: str
    a: str | None
    b: str | None
    words: str
    effect: float = 0.0


def differences(graphs: Aligned, inputs: Mapping[str, Array]) -> list[FileDifference]:
    """Every place where the two files say something else, in order of computation, with its effect on this input."""
    differing = {pair.a: pair for pair in graphs.pairs if _differ(graphs, pair)}
    listed = [
        FileDifference("missing", name, None, f"B has no {_named(graphs.a.by_name[name])}") for name in graphs.only_a
    ]
    listed += [
        FileDifference("extra", None, name, f"B has {_named(graphs.b.by_name[name])}, which A has not")
        for name in graphs.only_b
    ]
    values: dict[str, Array] = {}
    needed = {name for pair in differing.values() for name in graphs.a.by_name[pair.a].inputs}
    for node, value in exact_values(graphs.a, inputs):
        if node.name in differing:
            listed.append(_difference(graphs, differing[node.name], values, value))
        if node.name in needed:
            values[node.name] = value
    return sorted(listed, key=_order_of_computation(graphs))


def _order_of_computation(graphs: Aligned) -> Callable[[FileDifference], tuple[int, int]]:
    """Where a difference stands in A; nodes that only B has stand behind what they are computed from, in B's order."""
    place = {node.name: number for number, node in enumerate(graphs.a.nodes)}
    beside = {pair.b: place[pair.a] for pair in graphs.pairs}
    behind: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(graphs.b.nodes, 1):
        before = max((behind[name][0] for name in node.inputs), default=0)
        behind[node.name] = (beside[node.name], 0) if node.name in beside else (before, number)

    def key(difference: FileDifference) -> tuple[int, int]:
        return (place[difference.a], 0) if difference.a is not None else behind[difference.b or ""]

    return key


def _differ(graphs: Aligned, pair: NodePair) -> bool:
    a, b = graphs.a.by_name[pair.a], graphs.b.by_name[pair.b]
    if a.op != b.op or _attributes(a, b) or any(_weights(graphs, a, b)):
        return True
    return not _same_grid(*_grids(graphs, pair))


def _grids(graphs: Aligned, pair: NodePair) -> tuple[Grid | None, Grid | None]:
    return grids_of(graphs.a).get(pair.a), grids_of(graphs.b).get(pair.b)


def _same_grid(a: Grid | None, b: Grid | None) -> bool:
    if a is None or b is None:
        return a is b
    return abs(a.step - b.step) <= 1e-6 * a.step and abs(a.low - b.low) <= a.step / 2


def _difference(graphs: Aligned, pair: NodePair, values: Mapping[str, Array], exact: Array) -> FileDifference:
    a, b = graphs.a.by_name[pair.a], graphs.b.by_name[pair.b]
    weights = list(_weights(graphs, a, b))
    attributes = _attributes(a, b)
    kind = "operator" if a.op != b.op else "attribute" if attributes else "weights"
    words = [f"{a.op} → {b.op}"] if a.op != b.op else []
    words += [f"{name} {_text(ours)} → {_text(theirs)}" for name, (ours, theirs) in attributes.items()]
    words += weights
    grids = _grids(graphs, pair)
    if not _same_grid(*grids):
        kind = "quantisation" if kind == "weights" else kind
        words.append(" → ".join("real numbers" if grid is None else grid.words for grid in grids))
    return FileDifference(kind, a.name, b.name, "; ".join(words), _effect(graphs, a, b, values, exact))


def _attributes(a: Node, b: Node) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys((*a.attributes, *b.attributes))
    return {name: (a.get(name), b.get(name)) for name in names if not _equal(a.get(name), b.get(name))}


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return bool(a == b)


def _weights(graphs: Aligned, a: Node, b: Node) -> Iterator[str]:
    """Words for each tensor that has other values, or that only one side has."""
    roles = dict.fromkeys(tensor.role for tensor in (*a.parameters, *b.parameters))
    for role in roles:
        ours, theirs = a.parameter(role), b.parameter(role)
        if ours is None or theirs is None:
            yield f"{role} {'only in B' if ours is None else 'missing in B'}"
            continue
        values_a, values_b = _values(graphs.a, ours), _values(graphs.b, theirs)
        if values_a is None or values_b is None:
            continue
        if values_a.size != values_b.size:
            yield f"{role} {ours.shape} → {theirs.shape}"
            continue
        moved = deviation_of_finite(values_b.reshape(-1), values_a.reshape(-1))
        if not moved.error <= EQUAL:
            yield _weight_words(role, values_a.reshape(-1), values_b.reshape(-1), moved.error)


def _values(graph: Graph, tensor: Parameter) -> Array | None:
    values = graph.weights.get(tensor.key)
    return None if values is None or np.asarray(values).dtype.kind != "f" else np.asarray(values)


def _weight_words(role: str, values_a: Array, values_b: Array, error: float) -> str:
    for precision in ("float16", "bfloat16"):
        if np.array_equal(rounded(values_a, precision), np.asarray(values_b, np.float32)):
            return f"{role} rounded to {precision} (relative distance {error:.1e})"
    changed = int(np.count_nonzero(np.abs(values_b - values_a.astype(np.float64)) > EQUAL * root_mean_square(values_a)))
    if changed and np.array_equal(np.sort(values_a), np.sort(values_b)):
        return f"{role} holds the same numbers in another order ({changed:,} of {values_a.size:,} moved)"
    return f"{role} has other values ({changed:,} of {values_a.size:,} numbers, relative distance {error:.1e})"


def _effect(graphs: Aligned, a: Node, b: Node, values: Mapping[str, Array], exact: Array) -> float:
    """How far B's definition of a node moves its value, given the exact inputs that it has in A."""
    partner = {pair.a: pair.b for pair in graphs.pairs}
    renamed = {partner.get(name): name for name in a.inputs}
    if a.op == "input":
        grid = grids_of(graphs.b).get(b.name)
        return 0.0 if grid is None else deviation_of_finite(grid.rounded(exact), exact).error
    if not all(name in renamed for name in b.inputs):
        return float("inf")
    given = {name: values[renamed[name]] for name in b.inputs}
    if any(graphs.b.by_name[name].shape != value.shape for name, value in given.items()):
        return float("inf")
    computed = exact_value(graphs.b, given, b.name)
    return deviation_of_finite(computed, exact).error if computed.shape == exact.shape else float("inf")


def transplanted(graphs: Aligned, chosen: list[FileDifference]) -> Graph | None:
    """A with what B says in the place of what it says itself, at the chosen places; None where that has no meaning."""
    graph = graphs.a
    partner = {pair.b: pair.a for pair in graphs.pairs}
    for difference in chosen:
        changed = _changed(graph, graphs.b, difference, partner)
        if changed is None:
            return None
        graph = changed
    return graph


def _changed(graph: Graph, b: Graph, difference: FileDifference, partner: dict[str, str]) -> Graph | None:
    if difference.kind == "missing":
        assert difference.a is not None
        return _without(graph, difference.a)
    assert difference.b is not None
    theirs = b.by_name[difference.b]
    sources = (theirs, *(b.by_name[name] for name in theirs.inputs if b.by_name[name].op in _LEAVES))
    keys = [tensor.key for node in sources for tensor in node.parameters]
    weights = {**graph.weights, **{_key_of_b(key): b.weights[key] for key in keys if key in b.weights}}
    parameters = _taken_from_b(theirs)
    if difference.kind == "extra":
        return _with(replace(graph, weights=weights), b, replace(theirs, parameters=parameters), partner)
    ours = graph.by_name[difference.a or ""]
    if ours.shape != theirs.shape or len(ours.inputs) != len(theirs.inputs):
        return None
    moved = replace(ours, op=theirs.op, attributes=theirs.attributes, parameters=parameters)
    nodes = tuple(moved if node.name == ours.name else node for node in graph.nodes)
    grids = {name: grid for name, grid in grids_of(graph).items() if name != ours.name}
    if theirs.name in grids_of(b):
        grids[ours.name] = grids_of(b)[theirs.name]
    return with_grids(replace(graph, nodes=nodes, weights=weights), grids)


def _key_of_b(key: str) -> str:
    return f"B·{key}"


def _taken_from_b(node: Node) -> tuple[Parameter, ...]:
    return tuple(replace(tensor, key=_key_of_b(tensor.key)) for tensor in node.parameters)


def _without(graph: Graph, name: str) -> Graph | None:
    """The graph without a node that keeps the shape of its one input."""
    node = graph.by_name[name]
    live = [given for given in node.inputs if graph.by_name[given].op not in _LEAVES]
    if len(live) != 1 or graph.by_name[live[0]].shape != node.shape:
        return None
    return _rerouted(graph, {name: live[0]}, tuple(other for other in graph.nodes if other.name != name))


def _with(graph: Graph, b: Graph, node: Node, partner: dict[str, str]) -> Graph | None:
    """The graph with B's node behind the value that it works on in B, which must keep its shape. Constants that the
    node works with are taken over, too."""
    leaves = {name: b.by_name[name] for name in node.inputs if b.by_name[name].op in _LEAVES}
    live = [partner[given] for given in node.inputs if given in partner and given not in leaves]
    if len(live) != 1 or len(leaves) + 1 != len(node.inputs) or graph.by_name[live[0]].shape != node.shape:
        return None
    name = unused_name(f"B·{node.name}", graph.by_name)
    constants = {given: unused_name(f"B·{given}", {**graph.by_name, name: node}) for given in leaves}
    inserted = replace(node, name=name, inputs=tuple(constants.get(given, live[0]) for given in node.inputs))
    nodes: list[Node] = [
        replace(leaf, name=constants[given], parameters=_taken_from_b(leaf)) for given, leaf in leaves.items()
    ]
    for other in graph.nodes:
        moved = tuple(name if given == live[0] else given for given in other.inputs)
        nodes.append(replace(other, inputs=moved) if moved != other.inputs else other)
        if other.name == live[0]:
            nodes.append(inserted)
    partner[node.name] = name
    outputs = tuple(name if out == live[0] else out for out in graph.outputs)
    return replace(graph, nodes=tuple(nodes), outputs=outputs)


def _rerouted(graph: Graph, to: Mapping[str, str], nodes: tuple[Node, ...]) -> Graph:
    moved = tuple(replace(node, inputs=tuple(to.get(name, name) for name in node.inputs)) for node in nodes)
    return replace(graph, nodes=moved, outputs=tuple(to.get(name, name) for name in graph.outputs))


def _named(node: Node) -> str:
    return f"{node.op} ({node.source or node.name})"[:120]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "×".join(map(str, value)) if isinstance(value, tuple) else str(value)
