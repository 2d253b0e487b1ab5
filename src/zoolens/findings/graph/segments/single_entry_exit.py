"""Where a network can be cut so that one value passes: its single-entry, single-exit parts, all of them.

A node *dominates* another when every way from the inputs to the other leads through it. The *step* to a node v starts
at its nearest dominator u: it is all that lies on ways from u to v. It is single-entry by construction, and
single-exit if nothing in it but v is used elsewhere. Steps join where the value between them is used by the next step
only; joined steps are a *chain*. Every single-entry, single-exit part of a network is a run of consecutive steps of
one chain, for the dominators of its exit, up to its entry, cut it into such steps. (One kind is left out: parts in
which two steps share a learned value or a constant, where neither is single-entry without the other.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.segments.segment import Segment


@dataclass(frozen=True)
class SegmentChain:
    """Segments, each of which takes in the value that the one before it puts out."""

    steps: tuple[Segment, ...]

    @cached_property
    def size(self) -> int:
        return sum(len(step) for step in self.steps)


def joined(steps: Sequence[Segment], place: Mapping[str, int]) -> Segment:
    """Consecutive steps of a chain as one segment; `place` is each node's place in the graph."""
    names = [name for step in steps for name in step.nodes]
    names.sort(key=place.__getitem__)
    return Segment(steps[0].entry, steps[-1].exit, tuple(names))


def chains(graph: Graph) -> tuple[SegmentChain, ...]:
    """All chains, in order of their first node. One that lies inside a step of another is there by itself too."""
    finder = _StepFinder(graph)
    lines: dict[str, list[Segment]] = {}
    for node in graph.nodes:
        step = finder.step(node.name)
        if step is None:
            continue
        line = lines.pop(step.entry, None) if finder.only_inside(step.entry, step) else None
        lines[node.name] = [*(line or ()), step]
    ordered = sorted(lines.values(), key=lambda line: finder.place[line[0].nodes[0]])
    return tuple(SegmentChain(tuple(line)) for line in ordered)


class _StepFinder:
    """What is asked again and again while a graph is cut."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = {node.name: number for number, node in enumerate(graph.nodes)}
        self.inputs = {node.name: node.inputs for node in graph.nodes}
        self.above = dominators(graph)
        self.last = self._last_uses()

    def _last_uses(self) -> dict[str, int]:
        """The place of the last node that uses a value; beyond all places for an output."""
        last = dict.fromkeys(self.place, -1)
        for node in self.graph.nodes:
            for name in node.inputs:
                last[name] = self.place[node.name]
        return {**last, **dict.fromkeys(self.graph.outputs, len(self.place))}

    def step(self, exit_: str) -> Segment | None:
        """All between a node's nearest dominator and itself; None where that is not single-exit."""
        entry = self.above.get(exit_)
        if not entry:
            return None
        inside = self._between(entry, exit_)
        if inside is None or not self._closed(inside, exit_):
            return None
        return Segment(entry, exit_, tuple(sorted(inside, key=self.place.__getitem__)))

    def _between(self, entry: str, exit_: str) -> set[str] | None:
        """Backwards from the exit. What is used after the exit ends the search at once: it would leave the step."""
        end = self.place[exit_]
        inside = {exit_}
        open_ = [exit_]
        while open_:
            for name in self.inputs[open_.pop()]:
                if name == entry or name in inside:
                    continue
                if self.last[name] > end:
                    return None
                inside.add(name)
                open_.append(name)
        return inside

    def _closed(self, inside: set[str], exit_: str) -> bool:
        consumers = self.graph.consumers
        return all(user.name in inside for name in inside if name != exit_ for user in consumers[name])

    def only_inside(self, value: str, step: Segment) -> bool:
        """Whether nothing but this step uses a value."""
        if self.last[value] > self.place[step.exit]:
            return False
        inside = set(step.nodes)
        return all(user.name in inside for user in self.graph.consumers[value])


def dominators(graph: Graph) -> dict[str, str]:
    """The nearest dominator of every value that depends on an input; "" where only the start itself dominates."""
    depth = {"": 0}
    above: dict[str, str] = {}
    for node in graph.nodes:
        if node.op == "input":
            above[node.name], depth[node.name] = "", 1
            continue
        before = [name for name in node.inputs if name in above]
        if before:
            nearest = _meeting(before, above, depth)
            above[node.name], depth[node.name] = nearest, depth[nearest] + 1
    return above


def _meeting(values: Sequence[str], above: Mapping[str, str], depth: Mapping[str, int]) -> str:
    """The nearest value that dominates all of these."""
    first, *others = values
    for other in others:
        while first != other:
            if depth[first] >= depth[other]:
                first = above[first]
            else:
                other = above[other]
    return first


def homes(all_chains: Sequence[SegmentChain]) -> dict[str, tuple[SegmentChain, ...]]:
    """Which chains lie directly inside which step, by the step's exit; under "" those that lie inside none."""
    around: dict[str, list[tuple[Segment, frozenset[str]]]] = {}
    wide = [step for chain in all_chains for step in chain.steps if len(step) > 1]
    for step in sorted(wide, key=len):
        names = frozenset(step.nodes)
        for name in step.nodes:
            around.setdefault(name, []).append((step, names))
    inner: dict[str, list[SegmentChain]] = {}
    for chain in all_chains:
        inner.setdefault(_home(chain, around.get(chain.steps[0].exit, ())), []).append(chain)
    return {exit_: tuple(held) for exit_, held in inner.items()}


def _home(chain: SegmentChain, around: Iterable[tuple[Segment, frozenset[str]]]) -> str:
    """The exit of the smallest step that holds the chain and more."""
    for step, names in around:
        if chain.size < len(names) and all(name in names for own in chain.steps for name in own.nodes):
            return step.exit
    return ""
