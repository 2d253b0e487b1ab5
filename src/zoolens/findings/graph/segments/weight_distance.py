"""How alike the weights of two segments of the same structure are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.segments.segment import Kind

NEAR: Final = 0.1  # relative distance up to which weights count as near


@dataclass(frozen=True)
class Likeness:
    """Squared distance of all parameters, and squared length of the first segment's; both 0 without parameters."""

    apart: float = 0.0
    size: float = 0.0
    parameters: int = 0
    known: bool = True  # both sides have values

    def __add__(self, other: Likeness) -> Likeness:
        return Likeness(
            self.apart + other.apart,
            self.size + other.size,
            self.parameters + other.parameters,
            self.known and other.known,
        )

    @property
    def distance(self) -> float | None:
        if not self.known:
            return None
        return 0.0 if not self.apart else sqrt(self.apart / self.size) if self.size else float("inf")

    @property
    def kind(self) -> Kind:
        distance = self.distance
        if distance is None or not distance <= NEAR:  # nor is one that is not a number
            return "same structure"
        return "near weights" if distance else "equal weights"


def likeness(a: Graph, b: Graph, pairs: Iterable[tuple[Node, Node]], *, weighted: bool) -> Likeness:
    """How alike the weights of nodes that stand for each other are; `weighted` says that both graphs carry weights."""
    total = Likeness(known=weighted)
    for node_a, node_b in pairs:
        for ours, theirs in zip(_by_role(node_a), _by_role(node_b), strict=True):
            total += _of_tensors(a, ours, b, theirs) if weighted else Likeness(parameters=1, known=False)
    return total


def _by_role(node: Node) -> list[Parameter]:
    return sorted(node.parameters, key=lambda tensor: tensor.role)


def _of_tensors(a: Graph, ours: Parameter, b: Graph, theirs: Parameter) -> Likeness:
    if ours.key not in a.weights or theirs.key not in b.weights:
        return Likeness(parameters=1, known=False)
    values_a, values_b = (np.asarray(values).reshape(-1) for values in (a.weights[ours.key], b.weights[theirs.key]))
    size = float(np.square(values_a, dtype=np.float64).sum())
    if np.array_equal(values_a, values_b):
        return Likeness(0.0, size, 1)
    apart = float(np.square(values_a.astype(np.float64) - values_b).sum())
    return Likeness(apart or np.finfo(np.float64).tiny, size, 1)  # equal is only what is equal in every number
