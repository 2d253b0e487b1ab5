"""Layer after layer of two sides on one input, in bounded memory.

Each side is held against a float64 evaluation of its own graph on its own input (`total`), and layer by layer against
the same layer computed in float64 from the tensors that this very side gave it (`local`). The first grows along the
network, the second belongs to one layer. Floors are measured beside them: how far float32 evaluations get whose
weights and inputs are disturbed by a few roundings.

Windows of layers are captured one after another, so that the tensors of a window and what is computed beside them fit
into the budget. The references run once, in step with the windows, and hold only what a later layer needs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import Deviation, deviation_of_finite, root_mean_square
from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING, ROUNDINGS, disturbed
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.evaluation import dithered, exact_value, exact_values, grids_of
from zoolens.findings.divergence.sides import Feeds, Side
from zoolens.findings.graph.ir.model import Array, Graph
from zoolens.findings.graph.ir.vocabulary import LEAVES
from zoolens.findings.twins.activations import starting_at

NOISY_RUNS: Final = 2  # disturbed evaluations, the farthest of which makes a floor
_TRIVIAL: Final = LEAVES | {"reshape", "flatten"}
_BELOW_ONE: Final = 0.999  # a floor above 1 says that rounding may do anything
_BYTES: Final = 2 * (4 + 8) + 2 * 8 + 2 * NOISY_RUNS * 4  # of one number: captured, as float64, references, noise
SMALLEST_FLOOR: Final = FACTOR * ROUNDINGS * ONE_ROUNDING  # what a sum in any order may be off by


@dataclass(frozen=True)
class SideLayer:
    """One layer of one side. `local` is None where nothing that goes into the layer can be read. `broken`: it holds
    numbers that are not finite where exact arithmetic gives numbers."""

    total: Deviation
    floor: float
    local: Deviation | None
    local_floor: float
    broken: bool = False

    @property
    def faulty(self) -> bool:
        """Whether this layer by itself does more than round."""
        return self.local is not None and self.local.verdict(self.local_floor) == "beyond"


@dataclass(frozen=True)
class InspectedLayer:
    """One value of both graphs. `between` is the difference of the sides there, None where only one of them shows it;
    `floor` is what rounding may do to that. `files` is the difference of what the two files say it is, computed
    exactly, and `files_floor` what rounding may do to that; None where that is not known."""

    pair: NodePair
    between: Deviation | None
    floor: float
    a: SideLayer | None
    b: SideLayer | None
    files: Deviation | None = None
    files_floor: float = 0.0

    @property
    def sides(self) -> tuple[SideLayer | None, SideLayer | None]:
        return self.a, self.b

    @property
    def beyond(self) -> bool:
        return self.between is not None and self.between.verdict(self.floor) == "beyond"

    @property
    def files_beyond(self) -> bool:
        return self.files is not None and self.files.verdict(self.files_floor) == "beyond"

    @property
    def faulty(self) -> tuple[str, ...]:
        """The sides whose layer does more than round by itself."""
        return tuple(label for label, side in zip("AB", self.sides, strict=True) if side is not None and side.faulty)


def worst_layer(layers: Sequence[InspectedLayer]) -> InspectedLayer:
    """One layer on several inputs: each of its deviations from the input on which it is farthest beyond its floor."""
    farthest = max(layers, key=lambda layer: _floors_beyond(layer.between, layer.floor))
    by_files = max(layers, key=lambda layer: _floors_beyond(layer.files, layer.files_floor))
    return replace(
        farthest,
        a=_worst_side(layer.a for layer in layers),
        b=_worst_side(layer.b for layer in layers),
        files=by_files.files,
        files_floor=by_files.files_floor,
    )


def _worst_side(layers: Iterable[SideLayer | None]) -> SideLayer | None:
    shown = (layer for layer in layers if layer is not None)
    return max(shown, key=lambda layer: (layer.broken, _floors_beyond(layer.local, layer.local_floor)), default=None)


def _floors_beyond(moved: Deviation | None, floor: float) -> float:
    """How many floors a deviation amounts to; where rounding may do anything, none."""
    if moved is None or math.isinf(floor) or not moved.error:
        return 0.0
    return moved.error / floor if floor else math.inf


@dataclass(frozen=True)
class Inspection:
    """What was seen on one input."""

    layers: tuple[InspectedLayer, ...]
    observed: Mapping[str, float]  # by side: difference of the answer with and without observation
    skipped: tuple[str, ...] = ()  # values that alone would exceed the memory budget
    # By side: the output of the exact evaluation, flat, and those of the disturbed ones.
    outputs: Mapping[str, tuple[Array, ...]] = field(default_factory=dict)


class DisturbedWeights(Mapping[str, Array]):
    """The weights of a graph, each number off by a few roundings; made when they are read, and not kept."""

    def __init__(self, weights: Mapping[str, Array], seed: int) -> None:
        self._weights, self._seed = weights, seed

    def __getitem__(self, key: str) -> Array:
        values = np.asarray(self._weights[key])
        if values.dtype.kind != "f":
            return values
        return disturbed(values, np.random.default_rng([self._seed, zlib.crc32(key.encode())]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def disturbed_weights(graph: Graph, seed: int) -> Graph:
    return replace(graph, weights=DisturbedWeights(graph.weights, seed))


def noisy(graph: Graph, seed: int) -> Graph:
    """The graph with disturbed weights, and with values that are disturbed before they are rounded to a grid."""
    return dithered(disturbed_weights(graph, seed), seed)


def noisy_inputs(inputs: Mapping[str, Array], seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    noisy_values = dict(inputs)
    for name, value in inputs.items():
        if value.dtype.kind == "f":  # whole numbers, such as those of tokens, are exact
            noisy_values[name] = disturbed(value, generator)
    return noisy_values


def noise_floor(exact: Array, disturbed_values: Iterable[Array], least: float = SMALLEST_FLOOR) -> float:
    """How far rounding may move a value: several times the farthest of its disturbed evaluations."""
    return max(least, *(FACTOR * deviation_of_finite(value, exact).error for value in disturbed_values))


class _Walk:
    """An evaluation that is paused between windows. Values that are wanted later are kept as it passes them."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Array], wanted: set[str], ends: Sequence[str]) -> None:
        self._steps = exact_values(graph, inputs)
        self._wanted = wanted
        self._kept: dict[str, Array] = {}
        self._ends = dict.fromkeys(ends)
        self._outputs: dict[str, Array] = {}

    def take(self, name: str) -> Array:
        while name not in self._kept:
            self._step()
        return self._kept.pop(name)

    def output(self, name: str) -> Array:
        """One of the ends, flat, once all that is wanted was taken."""
        while name not in self._outputs:
            self._step()
        return self._outputs[name]

    def _step(self) -> None:
        node, value = next(self._steps)  # the walk passes every name that it was told of
        if node.name in self._wanted:
            self._kept[node.name] = value
        if node.name in self._ends:
            self._outputs[node.name] = value.reshape(-1)


@dataclass(frozen=True)
class SideView:
    """A side with an input: what its references walk along, and from which tensors each of its layers is computed."""

    side: Side
    feeds: Feeds
    inputs: Mapping[str, Array]  # the same as real numbers in the axes of the graph

    @cached_property
    def graph(self) -> Graph:
        assert self.side.graph is not None
        return self.side.graph

    def shows(self, name: str) -> bool:
        return name in self.side.points

    def givers(self, name: str) -> tuple[str, ...]:
        """The nearest values before a node that can be read, or inputs of the graph."""
        names: dict[str, None] = {}
        seen: set[str] = set()
        waiting = list(self.graph.by_name[name].inputs)
        while waiting:
            before = waiting.pop()
            if before in seen:
                continue
            seen.add(before)
            node = self.graph.by_name[before]
            if before in self.side.points or node.op == "input":
                names[before] = None
            else:
                waiting.extend(node.inputs)
        return tuple(names)

    def members(self, name: str) -> tuple[str, ...]:
        """The nodes that the layer which ends with this one is made of: those behind its givers."""
        givers = self.givers(name)
        segment = starting_at(self.graph, givers, (name,))
        return tuple(node.name for node in segment.nodes if node.op not in _TRIVIAL and node.name not in givers)

    def local(self, name: str, captured: Mapping[str, Array]) -> tuple[Deviation | None, float]:
        """How far the layer is from what float64 makes of the side's own tensors, and what rounding may do there; that
        is measured only where the layer is off by more than rounding may do anywhere."""
        known = {**self.inputs, **captured}
        given = {giver: known[giver] for giver in self.givers(name)}
        if not given:
            return None, 0.0
        segment = starting_at(self.graph, given, (name,))
        exact = exact_value(segment, given, name)
        off = deviation_of_finite(captured[name], exact)
        floor = max(SMALLEST_FLOOR, self._half_a_step(name, exact))
        if off.error <= floor:
            return off, floor
        moved = (exact_value(noisy(segment, seed), noisy_inputs(given, seed), name) for seed in range(NOISY_RUNS))
        return off, noise_floor(exact, moved, floor)

    def _half_a_step(self, name: str, exact: Array) -> float:
        """Integer kernels round in their own ways: a quantised value is right within half a step, on average."""
        grid = grids_of(self.graph).get(name) or self.side.points[name].grid
        if grid is None:
            return 0.0
        size = root_mean_square(exact)
        return min(0.5 * grid.step / size, _BELOW_ONE) if size else _BELOW_ONE


def same_evaluation(a: SideView, b: SideView) -> bool:
    """Whether both sides have one graph and one input, so that what is computed exactly is the same."""
    if a.graph is not b.graph:
        return False
    return all(np.array_equal(array, b.inputs[name]) for name, array in a.inputs.items())


def inspect(a: SideView, b: SideView, pairs: Sequence[NodePair], budget: int) -> Inspection:
    """Compare these values of two sides on one input. `budget`: bytes for the tensors that are compared."""
    views = (a, b)
    windows, skipped = windows_of(views, pairs, budget)
    kept = [pair for window in windows for pair in window]
    same = same_evaluation(a, b)
    if same:
        ours = theirs = list(_walks(a, {pair.a for pair in kept}, (a.side.output, b.side.output)))
    else:
        ours = list(_walks(a, {pair.a for pair in kept}, (a.side.output,)))
        theirs = list(_walks(b, {pair.b for pair in kept}, (b.side.output,)))
    walks = [ours, theirs]
    layers: list[InspectedLayer] = []
    answers: dict[str, Array] = {}
    for window in windows:
        values = []
        for place, view in enumerate(views):
            names = [pair.names[place] for pair in window if view.shows(pair.names[place])]
            captured: dict[str, Array] = {}
            if names:
                captured, answers[view.side.label] = _captured(view, names)
            values.append(captured)
        layers += [_layer(views, pair, values, walks, same) for pair in window]
    observed: dict[str, float] = {}
    for side, feeds in ((a.side, a.feeds), (b.side, b.feeds)):
        if side.label in answers:
            # A runtime that must show a tensor may fuse less, and so compute something else.
            unobserved = side.real_answer(side.answer(feeds))
            observed[side.label] = deviation_of_finite(side.real_answer(answers[side.label]), unobserved).error
    outputs = {
        view.side.label: tuple(walk.output(view.side.output) for walk in own)
        for view, own in zip(views, walks, strict=True)
    }
    return Inspection(tuple(layers), observed, skipped, outputs)


def _layer(
    views: tuple[SideView, SideView],
    pair: NodePair,
    values: Sequence[Mapping[str, Array]],
    walks: Sequence[Sequence[_Walk]],
    same: bool,
) -> InspectedLayer:
    """`same`: both sides have one graph and one input, so that one exact value and one floor hold for both."""
    exact_a, floor_a = _exact(walks[0], pair.a)
    exact_b, floor_b = (exact_a, floor_a) if same else _exact(walks[1], pair.b)
    side_a = _side_layer(views[0], pair.a, values[0], exact_a, floor_a)
    side_b = _side_layer(views[1], pair.b, values[1], exact_b, floor_b)
    between = None
    if side_a is not None and side_b is not None:
        between = deviation_of_finite(values[1][pair.b], values[0][pair.a])
    shown = [side.floor for side in (side_a, side_b) if side is not None]
    floor = floor_between(views[0].side, views[1].side, shown)
    if same:
        return InspectedLayer(pair, between, floor, side_a, side_b, Deviation(0.0))
    files = deviation_of_finite(exact_b, exact_a)
    files_floor = floor_between(views[0].side, views[1].side, (floor_a, floor_b))
    return InspectedLayer(pair, between, floor, side_a, side_b, files, files_floor)


def floor_between(a: Side, b: Side, floors: Sequence[float]) -> float:
    """The floor of a difference from those of its two sides: the larger, but where only one file is quantised, for
    what its grids do is not rounding."""
    if _is_quantised(a) != _is_quantised(b):
        return min(floors)
    return max(floors)


def _is_quantised(side: Side) -> bool:
    return side.graph is not None and bool(grids_of(side.graph))


def _exact(walks: Sequence[_Walk], name: str) -> tuple[Array, float]:
    exact = walks[0].take(name)
    return exact, noise_floor(exact, (walk.take(name) for walk in walks[1:]))


def _walks(view: SideView, wanted: set[str], ends: Sequence[str]) -> Iterator[_Walk]:
    """The exact evaluation, then the noisy ones."""
    yield _Walk(view.graph, view.inputs, wanted, ends)
    for seed in range(NOISY_RUNS):
        yield _Walk(noisy(view.graph, seed), noisy_inputs(view.inputs, seed), wanted, ends)


def _captured(view: SideView, names: Sequence[str]) -> tuple[dict[str, Array], Array]:
    wanted = dict.fromkeys(names)
    for name in names:
        wanted.update(dict.fromkeys(giver for giver in view.givers(name) if giver in view.side.points))
    return view.side.capture(view.feeds, tuple(wanted))


def _side_layer(view: SideView, name: str, values: Mapping[str, Array], exact: Array, floor: float) -> SideLayer | None:
    """What a side makes of a layer; None where it does not show it."""
    if not view.shows(name):
        return None
    value = values[name]
    local, local_floor = view.local(name, values)
    broken = bool((~np.isfinite(value) & np.isfinite(exact)).any())
    return SideLayer(deviation_of_finite(value, exact), floor, local, local_floor, broken)


def windows_of(
    views: Sequence[SideView], pairs: Sequence[NodePair], budget: int
) -> tuple[list[list[NodePair]], tuple[str, ...]]:
    """Runs of values, in order, whose tensors fit into the budget together; and those that alone do not."""
    windows: list[list[NodePair]] = []
    skipped: list[str] = []
    left = 0
    for pair in pairs:
        needed = sum(_bytes(view, name) for view, name in zip(views, pair.names, strict=True) if view.shows(name))
        if needed > budget:
            skipped.append(pair.a)
            continue
        if not windows or needed > left:
            windows.append([])
            left = budget
        windows[-1].append(pair)
        left -= needed
    return windows, tuple(skipped)


def _bytes(view: SideView, name: str) -> int:
    """What one value costs on one side, with the tensors that go into its layer."""
    sizes = [prod(view.graph.by_name[node].shape) for node in (name, *view.givers(name))]
    return _BYTES * sum(sizes)
