"""Segments: parts of a network with one value going in and one coming out, which another part could stand in for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zoolens.base.present.results import Result
from zoolens.findings.graph.ir.model import Graph, Node

Kind = Literal["equal weights", "near weights", "same structure", "same interface", "not known"]


@dataclass(frozen=True)
class Segment:
    """Nodes of one canonical graph, in order of computation. Every use of `entry` or of an inner value by the segment
    stays inside it, and only `exit`, its last node, is used outside: single entry, single exit."""

    entry: str  # name of the value that goes in; it is made outside the segment
    exit: str  # name of the last node, whose value comes out
    nodes: tuple[str, ...]

    def of(self, graph: Graph) -> tuple[Node, ...]:
        return tuple(graph.by_name[name] for name in self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True, repr=False)
class Common(Result):
    """A segment of A and the one of B that could stand in for it, with the same shapes at both ends.

    `kind`: "equal weights" and "near weights" (relative distance `distance`) where both graphs carry values; "same
    structure" where node for node they are the same and weights differ or are unknown; "same interface" where only
    the shapes at the ends are equal; "not known" where operators have one name and nobody here knows what they compute.
    """

    a: Segment
    b: Segment
    kind: Kind
    distance: float | None = None  # ‖Wa − Wb‖ / ‖Wa‖ over all parameters of the segment
