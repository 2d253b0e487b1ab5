"""Where each number of a canonical graph comes from in the tensors of the live network.

Importers and passes turn, cut and join tensors. Instead of following them, the network's tensors are filled with
numbers that say where they stand, and the graph is made as always: what stands in it then tells its origin, element by
element. Random numbers confirm it. What the graph computes from several tensors has no origin, and is said to have
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.equality import same_structure
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.axis_labels import canonical_order
from zoolens.findings.graph.passes.canonical import before_layout
from zoolens.training.pairs.mapping.comparable_graph import comparable
from zoolens.training.pairs.networks.framework import Array, LiveNetwork

_MOST_AXES: Final = 5  # of a tensor whose order of axes is looked for
_SAMPLES: Final = 64
_NEARLY: Final = 1e-10
_EXACT: Final = {"float16": 1 << 11, "bfloat16": 1 << 8}  # whole numbers that a type holds; float32 holds 2^24
_SINGLE: Final = 1 << 24


@dataclass(frozen=True)
class Origin:
    """A tensor of the graph, flat, is this tensor of the network with its axes in the order `axes`, flat, or, where
    that is None, its elements `indices`."""

    tensor: str
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None
    indices: Array | None = None

    @property
    def whole(self) -> bool:
        """Whether every element of the tensor is there once."""
        return self.axes is not None or (self.indices is not None and len(np.unique(self.indices)) == prod(self.shape))

    def places(self) -> Array:
        """For each element of the graph's tensor, flat, its place in the network's tensor, flat."""
        if self.axes is None:
            assert self.indices is not None
            return self.indices
        numbers = np.arange(prod(self.shape), dtype=np.int64 if prod(self.shape) > np.iinfo(np.int32).max else np.int32)
        return numbers.reshape(self.shape).transpose(self.axes).reshape(-1)

    def taken(self, values: Array) -> Array:
        """The graph's numbers, flat, from those of the network's tensor."""
        if self.axes is None:
            return values.reshape(-1)[self.indices]
        return values.transpose(self.axes).reshape(-1)

    def put(self, values: Array, numbers: Array) -> None:
        """Write the graph's numbers, flat, into the network's tensor, in place."""
        if self.axes is None:
            values.reshape(-1)[self.indices] = numbers
        else:
            turned = tuple(self.shape[axis] for axis in self.axes)
            values[...] = numbers.reshape(turned).transpose(np.argsort(self.axes))


def graph_and_origins(network: LiveNetwork) -> tuple[Graph, dict[str, Origin]]:
    """The canonical graph, with random values, and the origin of each of its tensors by key.

    The network's tensors are as before afterwards.
    """
    before = network.tensors()
    base = next((count for kind, count in _EXACT.items() if kind in network.dtype()), _SINGLE)
    generator = np.random.default_rng(0)
    try:
        network.assign({name: generator.uniform(0.5, 1.5, values.shape) for name, values in before.items()})
        drawn = network.tensors()  # as the network's own type keeps them
        graph = comparable(network.graph())
        places = _Codes(network, graph, {name: numbered(values.shape) for name, values in before.items()}, base)
        names = _Codes(
            network, graph, {name: np.full(before[name].shape, i, np.int64) for i, name in enumerate(before)}, base
        )
    finally:
        network.assign(before)
    origins: dict[str, Origin] = {}
    for position, node in enumerate(graph.nodes):
        for which, tensor in enumerate(node.parameters):
            values = graph.values(node, tensor).reshape(-1)
            origin = _origin(list(before), drawn, names.at(position, which), places.at(position, which), values)
            if origin is not None:
                origins[tensor.key] = origin
    return graph, origins


def output_axes(network: LiveNetwork) -> list[str]:
    """What the axes of each output are, in the network's own order, such as "NHWC"; empty where nothing is known.

    It is read from the graph. Shapes would not tell it: a map may have as many channels as rows.
    """
    graph, known = before_layout(network.graph())
    return [known.get(name, "") for name in graph.outputs]


def opaque_answers(network: LiveNetwork, inputs: Sequence[Array]) -> dict[str, Array]:
    """What the layers answer that nobody here computes, by the names of their nodes, in the order of axes that the
    canonical graph has them in."""
    raw, answers = network.opaque_answers(inputs)
    _, known = before_layout(raw)
    return {
        name: np.ascontiguousarray(array.transpose(canonical_order(known[name]))) if name in known else array
        for name, array in answers.items()
    }


def run_with_channels_first(network: LiveNetwork, inputs: Sequence[Array], axes: Sequence[str]) -> list[Array]:
    """The outputs, maps with their channels first whatever the framework's own order is. `axes`: of each output, as
    `output_axes` has them."""
    answers = network.run(inputs)
    if len(answers) != len(axes):
        return answers
    return [
        np.ascontiguousarray(answer.transpose(canonical_order(known)))
        if known and len(known) == answer.ndim
        else answer
        for answer, known in zip(answers, axes, strict=True)
    ]


def numbered(shape: tuple[int, ...]) -> Array:
    """A tensor whose elements are their own places."""
    return np.arange(prod(shape), dtype=np.int64).reshape(shape)


class _Codes:
    """What stands in the graph's tensors when whole numbers, digit by digit, stand in the network's."""

    def __init__(self, network: LiveNetwork, graph: Graph, numbers: Mapping[str, Array], base: int) -> None:
        self._base = base
        self._graphs: list[Graph] = []
        largest = max((int(values.max(initial=0)) for values in numbers.values()), default=0)
        while True:
            factor = base ** len(self._graphs)
            network.assign({name: (values // factor % base).astype(np.float32) for name, values in numbers.items()})
            coded = comparable(network.graph())
            if not same_structure(graph, coded):
                if graph.facts.get("leaves_torch"):
                    raise ModelError(
                        f"{graph.name} takes numbers out of torch in its own forward, as by .numpy() or .item(), so "
                        "that what it computes from them cannot be seen.",
                        hint="Put that part into a module of its own: it is then compared as one unknown layer.",
                    )
                raise ModelError(
                    f"{graph.name} computes in another way when its weights are others: it has no one structure.",
                    hint="Remove control flow that depends on numbers or on chance.",
                )
            self._graphs.append(coded)
            if largest < factor * base:
                break

    def at(self, position: int, which: int) -> Array | None:
        """The numbers in one tensor of one node; None where they are no whole numbers any more."""
        total: Array | None = None
        for power, graph in enumerate(self._graphs):
            node = graph.nodes[position]
            digits = graph.values(node, node.parameters[which]).reshape(-1)
            with np.errstate(invalid="ignore"):
                near = np.round(digits)  # a layer may keep a variance of 0 a little above it
                whole = np.isfinite(digits).all() and (np.abs(digits - near) <= _NEARLY).all()
            if not whole or near.min(initial=0) < 0 or near.max(initial=0) >= self._base:
                return None
            part = near.astype(np.int64) * self._base**power
            total = part if total is None else total + part
        return total


def _origin(
    names: list[str], drawn: Mapping[str, Array], numbers: Array | None, places: Array | None, values: Array
) -> Origin | None:
    if numbers is None or places is None or not values.size or (numbers != numbers[0]).any():
        return None
    if not 0 <= numbers[0] < len(names):
        return None
    name = names[int(numbers[0])]
    source = drawn[name]
    if places.max() >= source.size or not np.array_equal(source.reshape(-1)[places].astype(np.float32), values):
        return None
    axes = order_of_axes(source.shape, places) if places.size == source.size else None
    return Origin(name, source.shape, axes, None if axes is not None else places)


def order_of_axes(shape: tuple[int, ...], places: Array, wanted: tuple[int, ...] = ()) -> tuple[int, ...] | None:
    """The order of axes that gives a tensor's elements in these places; None where it is no mere order of axes.

    Of several, one that gives the shape `wanted` is preferred.
    """
    if not shape:
        return ()
    real = [axis for axis, extent in enumerate(shape) if extent != 1]
    if len(real) > _MOST_AXES:
        return None
    orders = list(_orders(len(shape), real))
    fitting = [axes for axes in permutations(range(len(shape))) if tuple(shape[axis] for axis in axes) == wanted]
    probes = np.linspace(0, places.size - 1, min(_SAMPLES, places.size), dtype=np.int64)
    numbers = numbered(shape)
    for axes in (*fitting, *orders):
        turned = numbers.transpose(axes)
        at = np.unravel_index(probes, turned.shape)
        if np.array_equal(turned[at], places[probes]) and np.array_equal(turned.reshape(-1), places):
            return axes
    return None


def _orders(rank: int, real: list[int]) -> Iterator[tuple[int, ...]]:
    """All orders of the axes that have an extent, the given one first; axes of extent 1 stay at the end."""
    yield tuple(range(rank))
    ones = [axis for axis in range(rank) if axis not in real]
    for order in permutations(real):
        yield (*order, *ones)


def packed_origins(origins: Mapping[str, Origin]) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """Origins as plain data, and the tensors that go with them, for another process."""
    rows = [
        {"key": key, "tensor": origin.tensor, "shape": list(origin.shape), "axes": origin.axes and list(origin.axes)}
        for key, origin in origins.items()
    ]
    return rows, {key: origin.indices for key, origin in origins.items() if origin.indices is not None}


def unpacked_origins(rows: list[Mapping[str, Any]], indices: Mapping[str, Array]) -> dict[str, Origin]:
    """What `packed_origins` packed. An origin of no axes (a single number) has an empty order."""
    return {
        row["key"]: Origin(
            str(row["tensor"]),
            tuple(int(extent) for extent in row["shape"]),
            None if row["key"] in indices else tuple(int(axis) for axis in row["axes"] or ()),
            indices.get(row["key"]),
        )
        for row in rows
    }
