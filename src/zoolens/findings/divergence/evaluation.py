"""The exact evaluation of a file: float64 arithmetic, with quantised values rounded to the grids of the file.

What a quantised file means is real arithmetic between grids. `Graph.facts["grids"]` has the grid of each value that the
file quantises, by node; `with_grids` puts it there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.findings.twins.activations import starting_at

_GRIDS: Final = "grids"
_DITHER: Final = "dither"
_DITHERED: Final = 0.01  # of a step


@dataclass(frozen=True)
class Grid:
    """How a stored integer stands for a real number: (integer − zero) × step, between `low` and `high`."""

    step: float
    zero: int
    low: float
    high: float

    @classmethod
    def of(cls, step: float, zero: int, dtype: str) -> Grid:
        limits = np.iinfo(dtype)
        return cls(step, zero, (limits.min - zero) * step, (limits.max - zero) * step)

    def rounded(self, value: Array) -> Array:
        steps = np.round(value / self.step)
        return np.clip(steps * self.step, self.low, self.high)

    @property
    def words(self) -> str:
        return f"steps of {self.step:.3g} from {self.low:.3g} to {self.high:.3g}"


def with_grids(graph: Graph, grids: Mapping[str, Grid]) -> Graph:
    """The graph with these grids in the place of those it has."""
    if not grids and _GRIDS not in graph.facts:
        return graph
    return replace(graph, facts={**graph.facts, _GRIDS: dict(grids)})


def grids_of(graph: Graph) -> Mapping[str, Grid]:
    grids: Mapping[str, Grid] = graph.facts.get(_GRIDS, {})
    return grids


def exact_values(
    graph: Graph, inputs: Mapping[str, Array], given: Mapping[str, Array] | None = None
) -> Iterator[tuple[Node, Array]]:
    """Every node with its value, in order; `given` values are taken instead of being computed."""
    grids = grids_of(graph)
    own = graph.facts.get("input_axes", {})  # inputs of the file, and not values that replace a part of it
    fed = dict(inputs)
    for name, array in inputs.items():
        if name in grids and name in own:
            fed[name] = grids[name].rounded(array)
    rounding = _rounding(grids, graph.facts.get(_DITHER))
    return node_values(graph, fed, given, rounding, _precision(graph, fed))


def _precision(graph: Graph, inputs: Mapping[str, Array]) -> np.dtype[np.floating] | None:
    """Real inputs bring their precision along; a graph that is given whole numbers only is computed in float64, and in
    float32 where rounding is to be seen."""
    if any(array.dtype.kind == "f" for array in inputs.values()):
        return None
    return np.dtype(np.float32 if _DITHER in graph.facts else np.float64)


def exact_value(graph: Graph, inputs: Mapping[str, Array], name: str) -> Array:
    """One value, computed from inputs, which may be any values of the graph by name."""
    segment = starting_at(graph, inputs, (name,))
    return next(computed for node, computed in exact_values(segment, inputs) if node.name == name)


def dithered(graph: Graph, seed: int) -> Graph:
    """The graph whose values are moved by up to a hundredth of a step before they are rounded to their grid: integer
    kernels round in their own ways, and a value near the middle between two steps may become either."""
    return replace(graph, facts={**graph.facts, _DITHER: seed})


def _rounding(grids: Mapping[str, Grid], seed: int | None) -> Callable[[Node, Array], Array] | None:
    if not grids:
        return None

    def rounded(node: Node, computed: Array) -> Array:
        grid = grids.get(node.name)
        if grid is None:
            return computed
        if seed is not None:
            # Seeded by the node's name, so that a part of the graph is disturbed as the whole is.
            generator = np.random.default_rng([seed, zlib.crc32(node.name.encode())])
            noise = _DITHERED * grid.step * generator.uniform(-1, 1, computed.shape)
            computed = computed + noise.astype(computed.dtype)
        return grid.rounded(computed).astype(computed.dtype)

    return rounded
