"""Distance of the weights of two segments of the same structure."""

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
class WeightDistance:
    """Squared distance of all parameters, and squared length of the first segment's; both 0 without parameters."""

    squared_distance: float = 0.0
    squared_length: float = 0.0
    parameters: int = 0
    known: bool = True  # both sides have values

    def __add__(self, other: WeightDistance) -> WeightDistance:
        return WeightDistance(
            self.squared_distance + other.squared_distance,
            self.squared_length + other.squared_length,
            self.parameters + other.parameters,
            self.known and other.known,
        )

    @property
    def distance(self) -> float | None:
        if not self.known:
            return None
        if not self.squared_distance:
            return 0.0
        if self.squared_length:
            return sqrt(self.squared_distance / self.squared_length)
        return float("inf")

    @property
    def kind(self) -> Kind:
        distance = self.distance
        if distance is None or not distance <= NEAR:  # nor is one that is not a number
            return "same structure"
        return "near weights" if distance else "equal weights"


def weight_distance(a: Graph, b: Graph, pairs: Iterable[tuple[Node, Node]], *, weighted: bool) -> WeightDistance:
    """Sum the distances of the weights of paired nodes; `weighted` says that both graphs carry weights."""
    total = WeightDistance(known=weighted)
    for node_a, node_b in pairs:
        for ours, theirs in zip(_by_role(node_a), _by_role(node_b), strict=True):
            total += _of_tensors(a, ours, b, theirs) if weighted else WeightDistance(parameters=1, known=False)
    return total


def _by_role(node: Node) -> list[Parameter]:
    return sorted(node.parameters, key=lambda tensor: tensor.role)


def _of_tensors(a: Graph, ours: Parameter, b: Graph, theirs: Parameter) -> WeightDistance:
    if ours.key not in a.weights or theirs.key not in b.weights:
        return WeightDistance(parameters=1, known=False)
    values_a = np.asarray(a.weights[ours.key]).reshape(-1)
    values_b = np.asarray(b.weights[theirs.key]).reshape(-1)
    squared_length = float(np.square(values_a, dtype=np.float64).sum())
    if np.array_equal(values_a, values_b):
        return WeightDistance(0.0, squared_length, 1)
    squared_distance = float(np.square(values_a.astype(np.float64) - values_b).sum())
    # A square may underflow to 0, but only what is equal in every number is equal.
    return WeightDistance(squared_distance or np.finfo(np.float64).tiny, squared_length, 1)
