"""Where two networks part, layer by layer.

Both graphs are computed in float64: there equal layers agree to many digits more than in any framework. What nobody
here computes, an unknown layer, is compared at its borders: what it is given, in float64, and what it answers live. B's
unknown layers then hand on what A's answered, so that the layers behind them are compared with equal inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.base.numerics.deviation import Deviation, deviation
from zoolens.base.numerics.rounding import FACTOR, ONE_ROUNDING, disturbed
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import OPAQUE, VIEWS
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.sides.network_sides import PortSide

EXACT: Final = 1e-9  # relative: two float64 computations of one layer agree to more digits than that
_LEAST_FLOOR: Final = 1e-5  # relative, for a framework's own answer beside the exact one
_LEAVES: Final = frozenset({"input", "parameter", "constant"})
_RUNS: Final = 4  # with disturbed weights, of which the farthest counts

Pairs = Sequence[tuple[Node, Node]]


@dataclass(frozen=True)
class Parting:
    """A pair of aligned layers whose values differ; `error` is relative."""

    a: str
    b: str
    op: str
    error: float

    @property
    def text(self) -> str:
        apart = "whose values have other shapes" if self.error == float("inf") else f"by {self.error:.1e}"
        return f"{self.a} of A and {self.b} of B ({self.op.replace('_', ' ')}), {apart}"


@dataclass(frozen=True)
class Border:
    """An unknown layer of A and one of B, live."""

    a: str
    b: str
    op: str
    # How far apart in float64 what they are given is, everything before them that is unknown having answered alike; NaN
    # where it is not known.
    inputs: float
    answers: float
    floor: float  # how far rounding alone moves A's answer

    @property
    def agree(self) -> bool | None:
        """None where it cannot be told: they are given other numbers already, or what they are given is not known."""
        if self.answers <= self.floor:
            return True
        return False if self.inputs <= EXACT else None

    @property
    def text(self) -> str:
        """What the unknown layer does, seen from outside."""
        named = f"{self.a} of A and {self.b} of B ({self.op})"
        figures = f"{self.answers:.1e} apart; rounding alone moves A's by up to {self.floor:.1e}"
        if self.agree:
            return f"{named} answer alike ({figures})."
        if self.agree is False:
            return f"{named} answer otherwise although they are given equal numbers ({figures})."
        if isnan(self.inputs):
            return f"{named} are given what could not be compared, and answer {figures}."
        return f"{named} are given other numbers already ({self.inputs:.1e} apart), and answer {figures}."


@dataclass(frozen=True)
class LayerValues:
    """Aligned layers of both, beside each other."""

    partings: tuple[Parting, ...] = ()  # those that differ, in A's order
    borders: tuple[Border, ...] = ()
    compared: int = 0  # of how many
    stopped: str = ""  # why no more could be compared
    wrong: str = ""  # why nothing may be told from the layers


@dataclass(frozen=True)
class _Computed:
    """One side: its graph, the values of its nodes, and the live answers among them."""

    graph: Graph
    values: Mapping[str, Array]
    live: Mapping[str, Array]
    stopped: str

    def following(self, names: Collection[str]) -> set[str]:
        """Nodes that depend on one of these, themselves included."""
        dependents: set[str] = set()
        for node in self.graph.nodes:
            if node.name in names or not dependents.isdisjoint(node.inputs):
                dependents.add(node.name)
        return dependents


def layer_values(
    sides: tuple[PortSide, PortSide],
    diff: Diff,
    fed: Sequence[Array],
    answers: tuple[Sequence[Array], Sequence[Array]],
    weights: Mapping[str, Array],
    *,
    floor: float,
    precision: str,
) -> LayerValues:
    """Compare aligned layers on one input; `answers` are each side's own, `weights` those of A, `floor` that of the
    outputs."""
    computed = []
    for side, answer in zip(sides, answers, strict=True):
        try:
            computed.append(_computed(side, fed, answer, floor))
        except ModelError as error:
            return LayerValues(wrong=error.message)
    a, b = computed
    pairs = _aligned(diff, a.graph, b.graph)
    handed = _handed_on(pairs, a.live, b.live)
    behind, _ = _values(b.graph, fed, {**b.live, **handed}) if handed else (b.values, "")
    floors = _floors(sides[0], fed, a.live, weights, precision) if handed else {}
    borders = {
        layer_b.name: _border(layer_a, layer_b, (a, b), behind, floors)
        for layer_a, layer_b in pairs
        if layer_b.name in handed
    }
    partings = list(_compared(pairs, (a, b), behind, borders, floor))
    return LayerValues(
        tuple(parting for parting, apart in partings if apart),
        tuple(borders.values()),
        len(partings),
        a.stopped or b.stopped,
    )


def facing(array: Array, wanted: tuple[int, ...]) -> Array:
    """A tensor whose shape differs only by axes of extent 1, in the other's shape. Channels come first in both."""
    if array.shape == wanted:
        return array
    without = [tuple(extent for extent in shape if extent != 1) for shape in (array.shape, wanted)]
    return array.reshape(wanted) if without[0] == without[1] else array


def _apart(computed: Array, exact: Array) -> Deviation:
    """How far a value is from the one that stands beside it."""
    computed, exact = _of_reals(computed), _of_reals(exact)
    return deviation(facing(computed, exact.shape), exact)


def _of_reals(array: Array) -> Array:
    """Complex numbers as pairs of their parts, along a last axis; others as they are."""
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _computed(side: PortSide, fed: Sequence[Array], answer: Sequence[Array], floor: float) -> _Computed:
    """ModelError where the graph cannot be had, or is not what the network computes."""
    try:
        graph = side.canonical_graph()
        live = side.opaque_answers(fed) if any(node.op in OPAQUE for node in graph) else {}
    except ModelError as error:
        raise ModelError(f"{side.text} cannot be read: {error.message}") from error
    fitting = {
        name: array
        for name, array in live.items()
        if name in graph.by_name and graph.by_name[name].shape == array.shape
    }
    values, why = _values(graph, fed, fitting)
    if why:
        stopped = f"{side.text} cannot be computed in float64 behind its first unknown layer: {why}"
        return _Computed(graph, values, fitting, stopped)
    outputs = [_of_reals(values[name]) for name in graph.outputs]
    moved = [_apart(y, x) for x, y in zip(answer, outputs, strict=True)]
    if any(each.verdict(max(floor, _LEAST_FLOOR)) == "beyond" for each in moved):
        farthest = max(each.error for each in moved)
        raise ModelError(f"our reading of {side.text} computes something else than it does, by {farthest:.1e}.")
    return _Computed(graph, values, fitting, "")


def _values(graph: Graph, fed: Sequence[Array], given: Mapping[str, Array]) -> tuple[dict[str, Array], str]:
    """The values of layers up to the first that nobody can compute, and why that one cannot be; "" for none."""
    inputs = {node.name: array for node, array in zip(graph.inputs, fed, strict=True)}
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    values: dict[str, Array] = {}
    try:
        for node, value in node_values(graph, wide, given, precision=np.dtype(np.float64)):
            values[node.name] = value
    except ModelError as error:
        return values, error.message
    return values, ""


def _aligned(diff: Diff, a: Graph, b: Graph) -> Pairs:
    """Aligned layers in the order in which A computes them."""
    place = {node.name: number for number, node in enumerate(diff.a.nodes)}
    both = [(pair.a.node, pair.b.node) for pair in diff.alignment.pairs if pair.a and pair.b]
    known = [nodes for nodes in both if nodes[0].name in a.by_name and nodes[1].name in b.by_name]
    return sorted(known, key=lambda nodes: place[nodes[0].name])


def _handed_on(pairs: Pairs, a: Mapping[str, Array], b: Mapping[str, Array]) -> dict[str, Array]:
    """What B's unknown layers hand on instead of their own answers: those of A's that stand beside them."""
    beside = {
        layer_b.name: facing(a[layer_a.name], b[layer_b.name].shape)
        for layer_a, layer_b in pairs
        if layer_a.name in a and layer_b.name in b
    }
    return {name: array for name, array in beside.items() if array.shape == b[name].shape}


def _floors(
    side: PortSide, fed: Sequence[Array], live: Mapping[str, Array], weights: Mapping[str, Array], precision: str
) -> dict[str, float]:
    """How far rounding alone moves the answer of each unknown layer of A."""
    farthest = dict.fromkeys(live, ONE_ROUNDING)
    try:
        for run in range(_RUNS):
            generator = np.random.default_rng(run)
            side.assign({name: disturbed(values, generator, precision) for name, values in weights.items()})
            moved = side.opaque_answers(fed)
            for name, array in live.items():
                farthest[name] = max(farthest[name], _apart(moved[name], array).error if name in moved else 0.0)
    finally:
        side.assign(weights)
    return {name: FACTOR * error for name, error in farthest.items()}


def _border(
    layer_a: Node,
    layer_b: Node,
    sides: tuple[_Computed, _Computed],
    behind: Mapping[str, Array],
    floors: Mapping[str, float],
) -> Border:
    a, b = sides
    given = [
        _apart(behind[y], a.values[x]).error if x in a.values and y in behind else float("nan")
        for x, y in zip(layer_a.inputs, layer_b.inputs, strict=False)
    ]
    inputs = float(np.max(given, initial=0.0)) if len(layer_a.inputs) == len(layer_b.inputs) else float("inf")
    exact = a.live[layer_a.name]
    answers = _apart(b.live[layer_b.name], exact).error
    return Border(_name(layer_a), _name(layer_b), _kind(layer_a), inputs, answers, floors[layer_a.name])


def _compared(
    pairs: Pairs,
    sides: tuple[_Computed, _Computed],
    behind: Mapping[str, Array],
    borders: Mapping[str, Border],
    floor: float,
) -> Iterator[tuple[Parting, bool]]:
    """Every pair of aligned layers that have values, and whether they are apart: by more than the digits of float64,
    or, of live values and what follows from them, by more than rounding."""
    a, b = sides
    inexact_a = a.following(
        [name for name in a.live if name not in {layer_a.name for layer_a, layer_b in pairs if layer_b.name in borders}]
    )
    inexact_b = b.following([name for name in b.live if name not in borders])
    for layer_a, layer_b in pairs:
        if layer_a.op in _LEAVES or layer_a.name not in a.values or layer_b.name not in behind:
            continue
        border = borders.get(layer_b.name)
        if border is not None:
            yield Parting(border.a, border.b, border.op, border.answers), border.agree is not True
            continue
        exact = a.values[layer_a.name]
        if layer_a.op in VIEWS and exact.size != behind[layer_b.name].size:
            continue  # values that are arranged otherwise stand beside each other by their order only
        error = _apart(behind[layer_b.name], exact).error
        live = layer_a.name in inexact_a or layer_b.name in inexact_b
        yield (
            Parting(_name(layer_a), _name(layer_b), _kind(layer_a), error),
            error > (max(floor, _LEAST_FLOOR) if live else EXACT),
        )


def _kind(node: Node) -> str:
    """What sentences call the operator: an unknown one by the name that its source has for it."""
    if node.op in OPAQUE:
        return f"unknown layer {node.get('source_op') or node.op}"
    return f"{node.op} with its norm" if node.get("norm") else node.op


def _name(node: Node) -> str:
    return node.source or node.name
