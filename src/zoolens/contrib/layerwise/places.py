"""Which node of a stitched model stands where a node of the original stood, though the donor's nodes have names of
their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zoolens.findings.graph.ir.equality import signature
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import COMMUTATIVE
from zoolens.findings.graph.segments.splicing import SPLICED


@dataclass(frozen=True)
class Places:
    """How the values of a stitched model relate to the original's. `stands` names the original's value that a value of
    the stitched model stands for. `ends` are those that another segment makes; all others are made by the same kind of
    node from values that stand for each other."""

    stands: dict[str, str]
    ends: frozenset[str]


def places(original: Graph, twin: Graph) -> Places:
    """Walks both graphs from their inputs on. Exits of spliced segments, and outputs, stand for those they replace."""
    exits = {done["exit"]: done["exit"] for done in twin.facts.get(SPLICED, ()) if done["exit"] in original.by_name}
    exits |= zip(twin.outputs, original.outputs, strict=True)
    stands: dict[str, str] = {}
    ends = []
    for node in twin.nodes:
        partner = next(_candidates(original, node, stands), None)
        if partner is not None:
            stands[node.name] = partner
        elif node.name in exits and original.by_name[exits[node.name]].shape == node.shape:
            stands[node.name] = exits[node.name]
            ends.append(node.name)
    return Places(stands, frozenset(ends))


def _candidates(original: Graph, node: Node, stands: dict[str, str]) -> Iterator[str]:
    """Nodes of the original that this one could stand for, the one of its own name first."""
    wanted = [stands[name] for name in node.inputs if name in stands]
    if len(wanted) < len(node.inputs):
        return
    named = original.by_name.get(node.name)
    others = original.consumers[wanted[0]] if wanted else original.nodes
    taken = set(stands.values())
    own = signature(node)
    for candidate in (*((named,) if named else ()), *others):
        if candidate.name not in taken and _alike(candidate, wanted) and signature(candidate) == own:
            yield candidate.name


def _alike(node: Node, inputs: list[str]) -> bool:
    if node.op in COMMUTATIVE:
        return sorted(node.inputs) == sorted(inputs)
    return list(node.inputs) == inputs


def spliced_segments(twin: Graph) -> dict[str, str]:
    """For each node that came from a donor, the exit of the segment it came with, as splicing has recorded it."""
    exits: dict[str, str] = {}
    for done in twin.facts.get(SPLICED, ()):
        open_ = [done["exit"]]
        while open_:
            name = open_.pop()
            if name in exits or name == done["entry"] or name not in twin.by_name:
                continue
            exits[name] = done["exit"]
            open_ += twin.by_name[name].inputs
    return exits
