"""Whether two networks answer alike on the same input with the same weights, and if not, where they part.

Both run in their own frameworks. How far rounding may move an answer is measured by running A again with its weights
disturbed by some roundings. Where they part is found by computing both graphs in float64: there equal layers agree to
many digits more, and each framework's own answer confirms that its graph is what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from zoolens.errors import ModelError
from zoolens.graph.diff.report import Diff
from zoolens.graph.model import Graph, Node
from zoolens.graph.reference import node_values
from zoolens.numerics.deviation import Deviation, deviation
from zoolens.numerics.rounding import FACTOR, ONE_ROUNDING, disturbed
from zoolens.port.frameworks.base import Array
from zoolens.port.sides import InputShape, Side

RUNS: Final = 4  # with disturbed weights, of which the farthest counts
SAMPLES: Final = 2  # inputs
REPEATS: Final = 3  # of each input; a few dropped numbers may be the same ones by chance
_EXACT: Final = 1e-9  # relative: two float64 computations of one layer agree to more digits than that
_LEAST_FLOOR: Final = 1e-5  # relative, for a framework's own answer beside the exact one
_LEAVES: Final = frozenset({"input", "parameter", "constant"})
_LARGE: Final = 16.0
_TOKENS: Final = 10  # values of whole-number inputs, where no embedding says how many it has


@dataclass(frozen=True)
class Parting:
    """The first pair of aligned layers whose values differ, computed in float64; `error` is relative."""

    a: str
    b: str
    op: str
    error: float


@dataclass(frozen=True)
class Agreement:
    """`error`: how far the outputs are apart, relative to the larger; `floor`: how far rounding alone moves them.

    `first`: where they part at all; `beyond`: where by more than the floor of the outputs; `layers`: why the layers
    could not be compared, where they could not. `random`: the sides that answer the same input with other numbers each
    time.
    """

    error: float
    floor: float
    why: str = "value"
    first: Parting | None = None
    beyond: Parting | None = None
    layers: str = ""
    random: tuple[str, ...] = ()
    compared: int = 0
    inputs: int = 0

    @property
    def agree(self) -> bool | None:
        """None where it cannot be told: the floor is as large as the answers, a side is random, or not finite."""
        if self.random or self.why == "not finite":
            return None
        verdict = Deviation(self.error, self.why).verdict(self.floor)  # type: ignore[arg-type]
        return None if verdict == "blind" else verdict == "within"


def random_inputs(inputs: Sequence[InputShape], graphs: Sequence[Graph], seed: int) -> list[Array]:
    """One batch of one: numbers around zero, those of odd seeds large, or whole numbers that every embedding has.

    Large ones reach the bends of activations that small ones do not, such as the 6 of ReLU6.
    """
    generator = np.random.default_rng(seed)
    size = _LARGE if seed % 2 else 1.0
    drawn = (_drawn(given, place, graphs, generator) for place, given in enumerate(inputs))
    return [array * np.float32(size) if array.dtype.kind == "f" else array for array in drawn]


def _drawn(given: InputShape, place: int, graphs: Sequence[Graph], generator: np.random.Generator) -> Array:
    if given.kind == "float":
        return generator.standard_normal((1, *given.shape)).astype(np.float32)
    tables = [
        table.shape[0]
        for graph in graphs
        for user in graph.consumers[graph.inputs[place].name]
        if (table := user.parameter("table")) is not None
    ]
    return generator.integers(0, min(tables, default=_TOKENS), (1, *given.shape))


def agreement(
    a: Side, b: Side, diff: Diff, fed: Sequence[Sequence[Array]], weights: Mapping[str, Array], *, layers: bool = True
) -> Agreement:
    """Compare both on every input of `fed`; they have their weights already, and `weights` are those of A."""
    answers = [[side.run(inputs) for inputs in fed] for side in (a, b)]
    random = tuple(
        side.text
        for side, given in zip((a, b), answers, strict=True)
        if not all(
            _equal(side.run(inputs), answer) for inputs, answer in zip(fed, given, strict=True) for _ in range(REPEATS)
        )
    )
    apart = [_apart(x, y) for x, y in zip(*answers, strict=True)]
    number = max(range(len(fed)), key=lambda place: apart[place].error)
    worst = apart[number]
    floor = _floor(a, fed, answers[0], weights, _coarsest(a, b))
    if worst.why == "not finite":
        finite = [all(np.isfinite(array).all() for array in given[number]) for given in answers]
        why = worst.why if not any(finite) else f"not finite in {'AB'[finite.index(False)]} alone"
        return Agreement(worst.error, floor, why, layers=_not_finite(a, weights), random=random, inputs=len(fed))
    if not layers or worst.verdict(floor) == "within" or random:
        return Agreement(worst.error, floor, worst.why, random=random, inputs=len(fed))
    found = Agreement(worst.error, floor, worst.why, inputs=len(fed))
    return _with_layers(found, (a, b), diff, fed[number], (answers[0][number], answers[1][number]))


def _not_finite(side: Side, weights: Mapping[str, Array]) -> str:
    """Which weights are to blame, if any."""
    names = [name for name, values in weights.items() if not np.isfinite(values).all()]
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{side.text} has weights that are not finite: {', '.join(names[:4])}{more}." if names else ""


def _coarsest(a: Side, b: Side) -> str:
    """The type whose roundings both sides' answers have: that of float32, unless one computes in a shorter one."""
    return next((kind for kind in ("bfloat16", "float16") if kind in a.dtype or kind in b.dtype), "float32")


def _equal(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return len(one) == len(other) and all(np.array_equal(x, y, equal_nan=True) for x, y in zip(one, other, strict=True))


def _apart(a: Sequence[Array], b: Sequence[Array]) -> Deviation:
    """The farthest of the outputs, in order."""
    if len(a) != len(b):
        return Deviation(float("inf"), "shape")
    return max((deviation(_facing(y, x.shape), x) for x, y in zip(a, b, strict=True)), key=lambda moved: moved.error)


def _facing(array: Array, wanted: tuple[int, ...]) -> Array:
    """A tensor whose shape differs only by axes of extent 1, in the other's shape. Channels come first in both."""
    if array.shape == wanted:
        return array
    without = [tuple(extent for extent in shape if extent != 1) for shape in (array.shape, wanted)]
    return array.reshape(wanted) if without[0] == without[1] else array


def _floor(
    side: Side,
    fed: Sequence[Sequence[Array]],
    answers: Sequence[Sequence[Array]],
    weights: Mapping[str, Array],
    precision: str,
) -> float:
    farthest = ONE_ROUNDING
    try:
        for run in range(RUNS):
            generator = np.random.default_rng(run)
            side.assign({name: disturbed(values, generator, precision) for name, values in weights.items()})
            moved = [_apart(exact, side.run(inputs)) for inputs, exact in zip(fed, answers, strict=True)]
            farthest = max(farthest, *(each.error for each in moved))
    finally:
        side.assign(weights)
    return FACTOR * farthest


def _with_layers(
    found: Agreement,
    sides: tuple[Side, Side],
    diff: Diff,
    fed: Sequence[Array],
    answers: tuple[Sequence[Array], Sequence[Array]],
) -> Agreement:
    computed: list[dict[str, Array]] = []
    stopped = ""
    for side, answer in zip(sides, answers, strict=True):
        try:
            graph = side.canonical_graph()
        except ModelError as error:
            return replace(found, layers=f"{side.text} cannot be read: {error.message}")
        values, why = _values_as_far_as_possible(graph, fed)
        computed.append(values)
        if why:
            stopped = stopped or f"{side.text} cannot be computed in float64 behind its first unknown layer: {why}"
            continue
        moved = _apart([values[name] for name in graph.outputs], answer)
        if moved.verdict(max(found.floor, _LEAST_FLOOR)) == "beyond":
            sentence = f"our reading of {side.text} computes something else than it does, by {moved.error:.1e}."
            return replace(found, layers=sentence)
    pairs = list(_compared(diff, computed[0], computed[1]))
    first = next((parting for parting in pairs if parting.error > _EXACT), None)
    beyond = next((parting for parting in pairs if parting.error > max(found.floor, _EXACT)), None)
    return replace(found, first=first, beyond=beyond, compared=len(pairs), layers=stopped)


def _values_as_far_as_possible(graph: Graph, fed: Sequence[Array]) -> tuple[dict[str, Array], str]:
    """The values of layers up to the first that nobody here can compute, and why that one cannot be; "" for none."""
    values: dict[str, Array] = {}
    try:
        for name, value in _values(graph, fed):
            values[name] = value  # noqa: PERF403 - what was computed before an error stays
    except ModelError as error:
        return values, error.message
    return values, ""


def _values(graph: Graph, fed: Sequence[Array]) -> Iterator[tuple[str, Array]]:
    inputs = {node.name: array for node, array in zip(graph.inputs, fed, strict=True)}
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    return ((node.name, value) for node, value in node_values(graph, wide, precision=np.dtype(np.float64)))


def _compared(diff: Diff, a: Mapping[str, Array], b: Mapping[str, Array]) -> Iterator[Parting]:
    """Aligned layers in the order in which A computes them, with how far their values are apart."""
    place = {node.name: number for number, node in enumerate(diff.a.nodes)}
    both = [(pair.a.node, pair.b.node) for pair in diff.alignment.pairs if pair.a and pair.b]
    for one, other in sorted(both, key=lambda nodes: place[nodes[0].name]):
        if one.name in a and other.name in b and one.op not in _LEAVES:
            values = _facing(b[other.name], a[one.name].shape)
            kind = f"{one.op} with its norm" if one.get("norm") else one.op
            yield Parting(_name(one), _name(other), kind, deviation(values, a[one.name]).error)


def _name(node: Node) -> str:
    return node.source or node.name
