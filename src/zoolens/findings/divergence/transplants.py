"""One file with places of the other in it: what a cause in the files is proved by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zoolens.findings.divergence.alignment import Aligned
from zoolens.findings.divergence.evaluation import grids_of, with_grids
from zoolens.findings.divergence.file_differences import FileDifference
from zoolens.findings.graph.ir.model import Graph, Node, Parameter, unused_name
from zoolens.findings.graph.ir.vocabulary import FIXED


def transplanted(graphs: Aligned, chosen: list[FileDifference]) -> Graph | None:
    """A with what B says in the place of what it says itself, at the chosen places; None where that has no meaning."""
    if graphs.named:
        return _taken_over(graphs, chosen)
    graph = graphs.a
    partner = {pair.b: pair.a for pair in graphs.pairs}
    for difference in chosen:
        changed = _changed(graph, graphs.b, difference, partner)
        if changed is None:
            return None
        graph = changed
    return graph


def _taken_over(graphs: Aligned, chosen: list[FileDifference]) -> Graph:
    """A with B's definitions of these nodes and their connections; nodes that only differ in their shape, which is a
    consequence, are taken over too."""
    a, b = graphs.a, graphs.b
    taken = {difference.b for difference in chosen if difference.b is not None}
    taken |= {pair.b for pair in graphs.pairs if a.by_name[pair.a].shape != b.by_name[pair.b].shape}
    made: dict[str, Node] = {}
    waiting = list(a.outputs)
    while waiting:
        name = waiting[-1]
        if name in taken or name not in a.by_name:
            node = b.by_name[name]
            node = replace(node, parameters=_taken_from_b(node))
        else:
            node = a.by_name[name]
        missing = [given for given in node.inputs if given not in made]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        made.setdefault(name, node)
    inputs = {node.name: node for node in a.inputs if node.name not in made}
    weights = {**a.weights, **{_key_of_b(key): values for key, values in b.weights.items()}}
    return replace(a, nodes=(*inputs.values(), *made.values()), weights=weights)


def _changed(graph: Graph, b: Graph, difference: FileDifference, partner: dict[str, str]) -> Graph | None:
    if difference.kind == "missing":
        assert difference.a is not None
        return _without(graph, difference.a)
    assert difference.b is not None
    theirs = b.by_name[difference.b]
    sources = (theirs, *(b.by_name[name] for name in theirs.inputs if b.by_name[name].op in FIXED))
    keys = [tensor.key for node in sources for tensor in node.parameters]
    weights = {**graph.weights, **{_key_of_b(key): b.weights[key] for key in keys if key in b.weights}}
    parameters = _taken_from_b(theirs)
    if difference.kind == "extra":
        return _with(replace(graph, weights=weights), b, replace(theirs, parameters=parameters), partner)
    ours = graph.by_name[difference.a or ""]
    fits = ours.shape == theirs.shape or theirs.op in FIXED  # a table may have more axes of extent 1
    if not fits or len(ours.inputs) != len(theirs.inputs):
        return None
    moved = replace(ours, op=theirs.op, shape=theirs.shape, attributes=theirs.attributes, parameters=parameters)
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
    live = [given for given in node.inputs if graph.by_name[given].op not in FIXED]
    if len(live) != 1 or graph.by_name[live[0]].shape != node.shape:
        return None
    others = [other for other in graph.nodes if other.name != name]
    return _rerouted(graph, {name: live[0]}, others)


def _with(graph: Graph, b: Graph, node: Node, partner: dict[str, str]) -> Graph | None:
    """Return the graph with B's node behind the value that it works on in B; None if that changes the shape.

    Constants that the node works with are taken over, too.
    """
    leaves = {name: b.by_name[name] for name in node.inputs if b.by_name[name].op in FIXED}
    live = [partner[given] for given in node.inputs if given in partner and given not in leaves]
    if len(live) != 1 or len(leaves) + 1 != len(node.inputs):
        return None
    value = live[0]
    if graph.by_name[value].shape != node.shape:
        return None
    name = unused_name(f"B·{node.name}", graph.by_name)
    taken = {**graph.by_name, name: node}
    constants = {given: unused_name(f"B·{given}", taken) for given in leaves}
    inputs = tuple(constants.get(given, value) for given in node.inputs)
    inserted = replace(node, name=name, inputs=inputs)
    nodes: list[Node] = []
    for given, leaf in leaves.items():
        nodes.append(replace(leaf, name=constants[given], parameters=_taken_from_b(leaf)))
    behind = {value: name}
    for other in graph.nodes:
        nodes.append(replace(other, inputs=_renamed(other.inputs, behind)))
        if other.name == value:
            nodes.append(inserted)
    partner[node.name] = name
    return replace(graph, nodes=tuple(nodes), outputs=_renamed(graph.outputs, behind))


def _rerouted(graph: Graph, to: Mapping[str, str], nodes: Sequence[Node]) -> Graph:
    moved = tuple(replace(node, inputs=_renamed(node.inputs, to)) for node in nodes)
    return replace(graph, nodes=moved, outputs=_renamed(graph.outputs, to))


def _renamed(names: Sequence[str], to: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(to.get(name, name) for name in names)
