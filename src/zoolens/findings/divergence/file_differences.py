"""What two files say differently at places that stand beside each other, and how far each alone moves a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.base.numerics.deviation import deviation_of_finite, root_mean_square
from zoolens.base.numerics.rounding import ONE_ROUNDING, is_representable, rounded
from zoolens.findings.divergence.alignment import EQUAL, Aligned, NodePair
from zoolens.findings.divergence.evaluation import Grid, exact_value, exact_values, grids_of
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter
from zoolens.findings.graph.ir.rotary_tables import RATES, ROTARY, rate_words, same_rates
from zoolens.findings.graph.ir.vocabulary import FIXED

_ANEW: Final = 16 * ONE_ROUNDING  # what weights that are computed anew may differ by
# A ReLU that a grid implies computes what any other does; the numbers of tables are compared themselves.
_SAYS_NOTHING: Final = ("implied", ROTARY, RATES, "weak")


@dataclass(frozen=True)
class FileDifference:
    """What two files say differently at one place."""

    # "weights", "attribute", "operator", "connections", "missing" (in B), "extra" (in B) or "quantisation" (grid)
    kind: str
    a: str | None
    b: str | None
    words: str
    effect: float = 0.0  # how far that alone moves the node's value, given A's exact inputs
    rounding: Rounding | None = None  # where nothing but rounded weights differs


@dataclass(frozen=True)
class Rounding:
    """Weights that one file keeps in a lower precision than the other."""

    side: str  # "A" or "B", whose file it is
    precision: str


@dataclass(frozen=True)
class _ChangedTensor:
    words: str
    rounding: Rounding | None = None


def differences(graphs: Aligned, inputs: Mapping[str, Array]) -> list[FileDifference]:
    """Every place where the two files say something else, in order of computation, with its effect on this input."""
    differing = {pair.a: pair for pair in graphs.pairs if _differ(graphs, pair)}
    listed: list[FileDifference] = []
    for name in graphs.only_a:
        words = f"B has no {_named(graphs.a.by_name[name])}"
        listed.append(FileDifference("missing", name, None, words))
    for name in graphs.only_b:
        words = f"B has {_named(graphs.b.by_name[name])}, which A has not"
        listed.append(FileDifference("extra", None, name, words))
    values: dict[str, Array] = {}
    needed = {name for pair in differing.values() for name in graphs.a.by_name[pair.a].inputs}
    for node, value in exact_values(graphs.a, inputs):
        if node.name in differing:
            listed.append(_difference(graphs, differing[node.name], values, value))
        if node.name in needed:
            values[node.name] = value
    return sorted(listed, key=_order_of_computation(graphs))


def _order_of_computation(graphs: Aligned) -> Callable[[FileDifference], tuple[int, int]]:
    """Where a difference stands in A; nodes that only B has stand behind what they are computed from, in B's order."""
    place = {node.name: number for number, node in enumerate(graphs.a.nodes)}
    beside = {pair.b: place[pair.a] for pair in graphs.pairs}
    behind: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(graphs.b.nodes, 1):
        if node.name in beside:
            behind[node.name] = (beside[node.name], 0)
        else:
            before = max((behind[name][0] for name in node.inputs), default=0)
            behind[node.name] = (before, number)

    def key(difference: FileDifference) -> tuple[int, int]:
        if difference.a is not None:
            return place[difference.a], 0
        return behind[difference.b or ""]

    return key


def _differ(graphs: Aligned, pair: NodePair) -> bool:
    a = graphs.a.by_name[pair.a]
    b = graphs.b.by_name[pair.b]
    if a.op != b.op or _attributes(a, b) or _rewired(graphs, a, b) or any(_weights(graphs, a, b)):
        return True
    return not _same_grid(*_grids(graphs, pair))


def _rewired(graphs: Aligned, a: Node, b: Node) -> str:
    """What a node is given instead of what, in words; "" where it is given the same, or where that is not known."""
    if not graphs.named or a.inputs == b.inputs:
        return ""
    lost = [_named(graphs.a.by_name[name]) for name in a.inputs if name not in b.inputs]
    got = [_named(graphs.b.by_name[name]) for name in b.inputs if name not in a.inputs]
    if not lost and not got:
        return "it is given its inputs in another order"
    return f"it is given {' and '.join(got) or 'nothing'} instead of {' and '.join(lost) or 'nothing'}"


def _grids(graphs: Aligned, pair: NodePair) -> tuple[Grid | None, Grid | None]:
    return grids_of(graphs.a).get(pair.a), grids_of(graphs.b).get(pair.b)


def _same_grid(a: Grid | None, b: Grid | None) -> bool:
    if a is None or b is None:
        return a is b
    same_step = abs(a.step - b.step) <= 1e-6 * a.step  # steps are float32
    return same_step and abs(a.low - b.low) <= a.step / 2


def _difference(graphs: Aligned, pair: NodePair, values: Mapping[str, Array], exact: Array) -> FileDifference:
    a = graphs.a.by_name[pair.a]
    b = graphs.b.by_name[pair.b]
    weights = list(_weights(graphs, a, b))
    attributes = _attributes(a, b)
    words: list[str] = []
    kind = "attribute" if attributes else "weights"
    if a.op != b.op:
        kind = "operator"
        words.append(f"{a.op} → {b.op}")
    words += [f"{name} {_text(ours)} → {_text(theirs)}" for name, (ours, theirs) in attributes.items()]
    words += [*_rates(a, b), *(tensor.words for tensor in weights)]
    if not words and (rewired := _rewired(graphs, a, b)):
        kind = "connections"
        words.append(rewired)
    grids = _grids(graphs, pair)
    if not _same_grid(*grids):
        kind = "quantisation" if kind == "weights" else kind
        words.append(" → ".join("real numbers" if grid is None else grid.words for grid in grids))
    rounding = None
    if kind == "weights":
        roundings = {tensor.rounding for tensor in weights}
        rounding = roundings.pop() if len(roundings) == 1 else None
    effect = _effect(graphs, a, b, values, exact)
    return FileDifference(kind, a.name, b.name, "; ".join(words), effect, rounding)


def common_rounding(every: Sequence[FileDifference]) -> Rounding | None:
    """The rounding that all differences are; None where one of them is something else."""
    roundings = {difference.rounding for difference in every}
    return roundings.pop() if len(roundings) == 1 else None


def _attributes(a: Node, b: Node) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, with the value of each side."""
    differing = {}
    for name in dict.fromkeys((*a.attributes, *b.attributes)):
        ours = a.get(name)
        theirs = b.get(name)
        if name not in _SAYS_NOTHING and not _equal(ours, theirs):
            differing[name] = (ours, theirs)
    return differing


def _rates(a: Node, b: Node) -> Iterator[str]:
    """By what rotary positions turn in both, where these are other rates."""
    rates = a.get(RATES), b.get(RATES)
    if None not in rates and not same_rates(*rates):
        yield f"rotary positions turn by {rate_words(rates[0])} → {rate_words(rates[1])}"


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
    return bool(a == b)


def _weights(graphs: Aligned, a: Node, b: Node) -> Iterator[_ChangedTensor]:
    """Each tensor that has other values, or that only one side has."""
    roles = dict.fromkeys(tensor.role for tensor in (*a.parameters, *b.parameters))
    for role in roles:
        ours, theirs = a.parameter(role), b.parameter(role)
        if ours is None or theirs is None:
            yield _ChangedTensor(f"{role} {'only in B' if ours is None else 'missing in B'}")
            continue
        values_a, values_b = _values(graphs.a, ours), _values(graphs.b, theirs)
        if values_a is None or values_b is None:
            continue
        if values_a.size != values_b.size:
            yield _ChangedTensor(f"{role} {ours.shape} → {theirs.shape}")
            continue
        moved = deviation_of_finite(values_b.reshape(-1), values_a.reshape(-1))
        if not moved.error <= EQUAL:
            yield _changed(role, values_a.reshape(-1), values_b.reshape(-1), moved.error)


def _values(graph: Graph, tensor: Parameter) -> Array | None:
    values = graph.weights.get(tensor.key)
    if values is None or np.asarray(values).dtype.kind not in "fiub":
        return None
    return np.asarray(values)


def _changed(role: str, values_a: Array, values_b: Array, error: float) -> _ChangedTensor:
    for precision in ("float16", "bfloat16"):
        for side, whole, half in (("B", values_a, values_b), ("A", values_b, values_a)):
            if _is_rounded(whole, half, precision):
                where = "" if side == "B" else " in A"
                words = f"{role} rounded to {precision}{where} (relative distance {error:.1e})"
                return _ChangedTensor(words, Rounding(side, precision))
    moved = np.abs(values_b - values_a.astype(np.float64))
    changed = int(np.count_nonzero(moved > EQUAL * root_mean_square(values_a)))
    if changed and np.array_equal(np.sort(values_a), np.sort(values_b)):
        return _ChangedTensor(
            f"{role} holds the same numbers in another order ({changed:,} of {values_a.size:,} moved)"
        )
    words = f"{role} has other values ({changed:,} of {values_a.size:,} numbers, relative distance {error:.1e})"
    return _ChangedTensor(words)


def _is_rounded(whole: Array, half: Array, precision: str) -> bool:
    """Whether the second numbers are the first in this precision. A converter that multiplies a norm into a kernel
    computes it anew, so that a number which lies between two may be rounded to either."""
    if whole.dtype.kind != "f" or not is_representable(half, precision):
        return False
    stored = np.asarray(half, np.float32)
    nearest = [rounded(whole * (1 + slack), precision) for slack in (0.0, -_ANEW, _ANEW)]
    is_nearest = np.logical_or.reduce([near == stored for near in nearest])
    return bool(is_nearest.all())


def _effect(graphs: Aligned, a: Node, b: Node, values: Mapping[str, Array], exact: Array) -> float:
    """Return how far B's definition of a node moves its value, given the exact inputs that it has in A."""
    if a.op == "input":
        grid = grids_of(graphs.b).get(b.name)
        return 0.0 if grid is None else deviation_of_finite(grid.rounded(exact), exact).error
    partner = {pair.a: pair.b for pair in graphs.pairs}
    renamed = {partner.get(name): name for name in a.inputs}
    if not all(name in renamed for name in b.inputs):
        return float("inf")
    given = {name: values[renamed[name]] for name in b.inputs}
    if any(graphs.b.by_name[name].shape != value.shape for name, value in given.items()):
        return float("inf")
    computed = exact_value(graphs.b, given, b.name)
    reshaped = a.op in FIXED and computed.size == exact.size
    if computed.shape != exact.shape and not reshaped:
        return float("inf")
    return deviation_of_finite(computed.reshape(exact.shape), exact).error


def _named(node: Node) -> str:
    return f"{node.op} ({node.source or node.name})"[:120]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "×".join(map(str, value)) if isinstance(value, tuple) else str(value)
