"""Puts a segment of one network, with its weights, in the place of a segment of another.

Only the values that go in and come out must have the same shapes: the segments may differ in everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.model import Graph, Node, checked, pruned, unused_name
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.segments.segment import Segment

SPLICED: Final = "spliced"  # in Graph.facts: what stands in for what, in the order in which it was done


def splice(m: Graph, segment: Segment, donor: Graph, replacement: Segment) -> Graph:
    """The graph `m` with the donor's segment in the place of its own; ModelError where the two do not fit."""
    check_segment(m, segment)
    check_segment(donor, replacement)
    _check_ends(m, segment, donor, replacement)
    names = _renaming(m, segment, donor, replacement)
    taken = _with_leaves(donor, replacement)
    keys = _rekeyed(m, taken)
    nodes = tuple(_joined(m, segment, [_moved(node, names, keys) for node in taken]))
    weights = {**m.weights, **{new: donor.weights[old] for old, new in keys.items() if old in donor.weights}}
    whole = checked(pruned(replace(m, nodes=nodes, facts=_recorded(m, segment, donor, replacement))))
    used = {tensor.key for node in whole.nodes for tensor in node.parameters}
    return replace(whole, weights={key: values for key, values in weights.items() if key in used})


def splice_all(m: Graph, donor: Graph, pairs: Iterable[tuple[Segment, Segment]]) -> Graph:
    """Several segments of `m`, none of which overlap, each replaced by one of the donor's."""
    for segment, replacement in pairs:
        m = splice(m, segment, donor, replacement)
    return m


def check_segment(graph: Graph, segment: Segment) -> None:
    """ModelError unless one value goes in and one comes out."""
    inside = set(segment.nodes)
    known = graph.by_name
    lost = next((name for name in (segment.entry, segment.exit, *segment.nodes) if name not in known), None)
    if lost is not None:
        raise ModelError(f"{graph.name} has no value {lost[:60]!r}.")
    if segment.exit not in inside or segment.entry in inside:
        raise ModelError(f"The segment of {graph.name} that ends with {segment.exit[:60]!r} is not made of its nodes.")
    for node in segment.of(graph):
        stray = next(
            (name for name in node.inputs if name not in inside and not _may_enter(graph, name, segment)), None
        )
        if stray is not None:
            raise ModelError(f"A second value, {stray[:60]!r}, goes into the segment at {node.name[:60]!r}.")
        seen = any(user.name not in inside for user in graph.consumers[node.name]) or node.name in graph.outputs
        if seen and node.name != segment.exit:
            raise ModelError(
                f"A second value, {node.name[:60]!r}, comes out of the segment before {segment.exit[:60]!r}."
            )


def _may_enter(graph: Graph, name: str, segment: Segment) -> bool:
    return name == segment.entry or graph.by_name[name].op in FIXED


def _check_ends(m: Graph, segment: Segment, donor: Graph, replacement: Segment) -> None:
    for end in ("entry", "exit"):
        here, there = (getattr(side, end) for side in (segment, replacement))
        ours = m.by_name[here].shape
        theirs = donor.by_name[there].shape
        if ours != theirs:
            raise ModelError(
                f"The segments do not fit: at the {end}, {here[:60]!r} of {m.name} has the shape {_words(ours)} and "
                f"{there[:60]!r} of {donor.name} {_words(theirs)}."
            )


def _words(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape[:8])) or "()"


def _with_leaves(donor: Graph, replacement: Segment) -> list[Node]:
    """The segment's nodes in order, with the learned values and constants that it uses from outside."""
    wanted = set(replacement.nodes)
    used = {name for node in replacement.of(donor) for name in node.inputs}
    wanted.update(name for name in used if donor.by_name[name].op in FIXED)
    return [node for node in donor.nodes if node.name in wanted and node.name != replacement.entry]


def _renaming(m: Graph, segment: Segment, donor: Graph, replacement: Segment) -> dict[str, str]:
    """The donor's names as they are in the stitched model: the ends have ours, the others theirs where nobody has it
    yet."""
    taken = {node.name for node in m.nodes if node.name not in segment.nodes} | {segment.exit}
    names = {replacement.entry: segment.entry, replacement.exit: segment.exit}
    for node in _with_leaves(donor, replacement):
        if node.name not in names:
            names[node.name] = unused_name(node.name, taken)
            taken.add(names[node.name])
    return names


def _rekeyed(m: Graph, nodes: Iterable[Node]) -> dict[str, str]:
    """A key for each tensor of these nodes that no tensor of `m` has."""
    taken = {tensor.key for node in m.nodes for tensor in node.parameters} | set(m.weights)
    keys = {}
    for key in dict.fromkeys(tensor.key for node in nodes for tensor in node.parameters):
        keys[key] = unused_name(key, taken)
        taken.add(keys[key])
    return keys


def _moved(node: Node, names: Mapping[str, str], keys: Mapping[str, str]) -> Node:
    parameters = tuple(replace(tensor, key=keys[tensor.key]) for tensor in node.parameters)
    inputs = tuple(names[name] for name in node.inputs)
    return replace(node, name=names[node.name], inputs=inputs, parameters=parameters)


def _joined(m: Graph, segment: Segment, moved: Iterable[Node]) -> Iterator[Node]:
    """The new nodes stand where the old exit stood: all they need is made by then, and nobody needs them before."""
    for node in m.nodes:
        if node.name == segment.exit:
            yield from moved
        elif node.name not in segment.nodes:
            yield node


def _recorded(m: Graph, segment: Segment, donor: Graph, replacement: Segment) -> dict[str, Any]:
    done = {
        "entry": segment.entry,
        "exit": segment.exit,
        "nodes": len(segment),
        "donor": donor.name,
        "donor_entry": replacement.entry,
        "donor_exit": replacement.exit,
        "donor_nodes": len(replacement),
    }
    return {**m.facts, SPLICED: (*m.facts.get(SPLICED, ()), done)}
