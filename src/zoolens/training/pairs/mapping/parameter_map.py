"""Which tensor of one network becomes which tensor of the other, and how its axes turn.

Layers stand beside each other as the comparison of the two graphs aligned them; within a pair, tensors of one role
belong together. Both have one shape there, and each knows where in its network it comes from, so that nothing about any
framework's layout is assumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.diff.alignment import LayerPair
from zoolens.findings.graph.diff.report import Diff
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.training.pairs.mapping.gate_tensors import (
    BiasSum,
    bias_sums,
    gate_of,
    gate_order,
    joined_origins,
    second_biases,
)
from zoolens.training.pairs.mapping.origins import Origin
from zoolens.training.pairs.mapping.turning import turning
from zoolens.training.pairs.networks.framework import Array

# What a tensor without a partner is set to, so that its layer computes as one that lacks it.
NEUTRAL: Final = {"bias": 0.0, "shift": 0.0, "scale": 1.0, "mean": 0.0, "norm_shift": 0.0, "norm_scale": 1.0}

COMPUTED_TOGETHER: Final = "it is computed together with others, so that it has no place of its own in the comparison"


@dataclass(frozen=True)
class Move:
    """One tensor of A beside one tensor of B. `how`: what turns A's into B's, in words."""

    a: Origin
    b: Origin
    role: str
    layers: tuple[str, str]
    how: str

    def apply(self, values: Array, into: Array) -> None:
        """Write A's numbers into B's tensor, in place."""
        self.b.put(into, self.a.taken(values).astype(into.dtype))


@dataclass(frozen=True)
class Fold:
    """A bias of A before a batch norm, where B's layer has none: B's norm subtracts that much less.

    In evaluation both then compute the same. In training such a bias has no effect, for the norm takes it out.
    """

    bias: Origin
    mean: Origin
    layers: tuple[str, str]

    def apply(self, values: Array, mean: Array) -> None:
        """Take A's bias off the mean of B's norm, in place."""
        self.mean.put(mean, (self.mean.taken(mean) - self.bias.taken(values)).astype(mean.dtype))


@dataclass(frozen=True)
class MappedSide:
    """What the map needs to know of one network: the origins of its graph's tensors by key, the shapes of all of its
    tensors by name, and those that change no output."""

    origins: Mapping[str, Origin]
    shapes: Mapping[str, tuple[int, ...]]
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unmatched:
    """A tensor of one side that has no partner. `neutral`: what it can be set to where the other side lacks it."""

    tensor: str
    shape: tuple[int, ...]
    layer: str
    role: str
    why: str
    neutral: float | None = None


@dataclass(frozen=True)
class ParameterMap:
    """Which tensor of A becomes which tensor of B."""

    moves: tuple[Move, ...]
    only_a: tuple[Unmatched, ...]  # not moved
    only_b: tuple[Unmatched, ...]  # nothing is moved to them
    unused: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))  # tensors that lead to no output, by side
    folds: tuple[Fold, ...] = ()
    sums: tuple[BiasSum, ...] = ()  # second biases of A that go into B's only one
    added: tuple[BiasSum, ...] = ()  # second biases of B where A has one, with the first ones of B

    @property
    def complete(self) -> bool:
        """Whether every tensor of B that matters gets a value: from A, or a neutral one where A has none."""
        return all(tensor.neutral is not None for tensor in self.only_b)

    @property
    def lossless(self) -> bool:
        """Whether B can hold all that A has."""
        return self.complete and not self.only_a

    def candidates(self) -> list[tuple[Unmatched, tuple[Unmatched, ...]]]:
        """Tensors of B without a partner, each with those of A that have as many numbers and no partner either."""
        pairs = [
            (tensor, tuple(other for other in self.only_a if prod(other.shape) == prod(tensor.shape)))
            for tensor in self.only_b
        ]
        return [(tensor, others) for tensor, others in pairs if others]

    def moved(self, values: Mapping[str, Array], onto: Mapping[str, Array]) -> dict[str, Array]:
        """B's tensors with A's values in them; what has no partner is neutral, or stays where it cannot be."""
        into = {name: array.copy() for name, array in onto.items()}
        for tensor in self.only_b:
            if tensor.neutral is not None:
                into[tensor.tensor][...] = tensor.neutral
        for move in self.moves:
            move.apply(values[move.a.tensor], into[move.b.tensor])
        for fold in self.folds:
            fold.apply(values[fold.bias.tensor], into[fold.mean.tensor])
        for each in self.sums:
            each.apply(values[each.bias.tensor], into[each.into.tensor])
        return into

    def reversed(self) -> ParameterMap:
        """The map from B to A."""
        moves = tuple(
            Move(move.b, move.a, move.role, move.layers[::-1], turning(move.b, move.a)) for move in self.moves
        )
        neutral = tuple(
            Unmatched(fold.bias.tensor, fold.bias.shape, fold.layers[0], "bias", "it has been folded into a norm", 0.0)
            for fold in self.folds
        )
        neutral += tuple(
            Unmatched(each.bias.tensor, each.bias.shape, each.layers[0], "bias", "it is added to another bias", 0.0)
            for each in self.sums
        )
        return ParameterMap(moves, self.only_b, self.only_a + neutral, self.unused[::-1])


def parameter_map(diff: Diff, a: MappedSide, b: MappedSide, chosen: Mapping[str, str] | None = None) -> ParameterMap:
    """The map from A to B. `chosen`: tensors of B for tensors of A, by name, as the user says, which come before what
    the alignment finds. Every tensor of each side is moved, without a partner, or unused."""
    sides = (a, b)
    moves = [_chosen(name, other, sides) for name, other in (chosen or {}).items()]
    taken = ({move.a.tensor for move in moves}, {move.b.tensor for move in moves})
    missing: tuple[list[Unmatched], list[Unmatched]] = ([], [])
    seen: set[tuple[str, str]] = set()
    for pair in diff.alignment.pairs:
        for move in _moves(pair, sides, (diff.a, diff.b), missing, taken):
            if (move.a.tensor, move.b.tensor) not in seen or move.a.axes is None:
                seen.add((move.a.tensor, move.b.tensor))
                moves.append(move)
    moves = _whole_tensors(_without_conflicts(moves, missing[0]))
    moves += _by_name(sides, moves)
    sums = bias_sums(diff.alignment.pairs, (a.origins, b.origins))
    partly = _partly_covered(moves, sums, missing[1])
    alone = [_alone(side, moves, missing[number], partly[number], number) for number, side in enumerate(sides)]
    folds = _folds(diff.alignment.pairs, moves, {tensor.tensor for tensor in alone[0]}, sides)
    folded = {fold.bias.tensor for fold in folds} | {each.bias.tensor for each in sums}
    folded -= {tensor.tensor for tensor in partly[0]}
    only_a = tuple(tensor for tensor in alone[0] if tensor.tensor not in folded)
    added = second_biases(diff.alignment.pairs, (a.origins, b.origins))
    return ParameterMap(tuple(moves), only_a, tuple(alone[1]), (a.unused, b.unused), folds, sums, added)


def _by_name(sides: tuple[MappedSide, MappedSide], moves: Sequence[Move]) -> list[Move]:
    """Moves of tensors that no graph has a place for, since they are computed together with others, as the parts of a
    normed weight are: those that have one name and one shape in both networks. The outputs prove it, or do not."""
    left = []
    for number, side in enumerate(sides):
        placed = {origin.tensor for origin in side.origins.values()} | {*side.unused}
        placed |= {(move.a, move.b)[number].tensor for move in moves}
        left.append({name: shape for name, shape in side.shapes.items() if name not in placed})
    both = {name: shape for name, shape in left[0].items() if left[1].get(name) == shape}
    origins = {name: Origin(name, shape, tuple(range(len(shape)))) for name, shape in both.items()}
    return [Move(origin, origin, "value", (name, name), "as it is") for name, origin in origins.items()]


def _folds(
    pairs: Sequence[LayerPair], moves: Sequence[Move], alone: set[str], sides: tuple[MappedSide, MappedSide]
) -> tuple[Fold, ...]:
    """Biases of A without a partner whose layers have a batch norm on both sides, of which the mean moves."""
    moved = {move.b.tensor for move in moves if move.role == "norm_mean"}
    folds: dict[str, Fold] = {}
    shared: set[str] = set()
    for pair in pairs:
        layer_a, layer_b = pair.a.node if pair.a else None, pair.b.node if pair.b else None
        if layer_a is None or layer_b is None or layer_a.get("norm") != "batch" or layer_b.get("norm") != "batch":
            continue
        bias, mean = layer_a.parameter("bias"), layer_b.parameter("norm_mean")
        origins = sides[0].origins.get(bias.key) if bias else None, sides[1].origins.get(mean.key) if mean else None
        if origins[0] is None or origins[1] is None or layer_b.parameter("bias") is not None:
            continue
        if origins[0].tensor in alone and origins[0].whole and origins[1].whole and origins[1].tensor in moved:
            shared |= {origins[0].tensor} & folds.keys()
            folds[origins[0].tensor] = Fold(origins[0], origins[1], (_name(layer_a), _name(layer_b)))
    means = Counter(fold.mean.tensor for fold in folds.values())
    return tuple(fold for name, fold in folds.items() if name not in shared and means[fold.mean.tensor] == 1)


def _chosen(a: str, text: str, sides: tuple[MappedSide, MappedSide]) -> Move:
    """The move that the user asks for; "@1,0" behind the name in B is the order of axes, where several fit."""
    b, sign, order = text.partition("@")
    for letter, side, name in zip("AB", sides, (a, b), strict=True):
        if name not in side.shapes:
            raise ModelError(f"{letter} has no tensor {name!r}, which --map names.")
    from_shape, to_shape = sides[0].shapes[a], sides[1].shapes[b]
    fitting = [
        axes for axes in permutations(range(len(from_shape))) if tuple(from_shape[axis] for axis in axes) == to_shape
    ]
    if sign:
        fitting = [axes for axes in fitting if ",".join(map(str, axes)) == order]
    if len(fitting) != 1:
        words = "can turn into it in several ways" if fitting else "cannot become it by turning its axes"
        choices = " or ".join(f"{a}={b}@{','.join(map(str, axes))}" for axes in fitting[:2])
        raise ModelError(
            f"--map {a}={text}: {_size(from_shape)} {words} ({_size(to_shape)}).",
            hint=f"Say how, as {choices}." if choices else None,
        )
    origin_a, origin_b = Origin(a, from_shape, fitting[0]), Origin(b, to_shape, tuple(range(len(to_shape))))
    return Move(origin_a, origin_b, "value", (a, b), turning(origin_a, origin_b))


def _moves(
    pair: LayerPair,
    sides: tuple[MappedSide, MappedSide],
    graphs: tuple[Graph, Graph],
    missing: tuple[list[Unmatched], list[Unmatched]],
    taken: tuple[set[str], set[str]],
) -> list[Move]:
    nodes = (pair.a.node if pair.a else None, pair.b.node if pair.b else None)
    tensors = [_by_place(node) for node in nodes]
    moves = []
    for place in dict.fromkeys((*tensors[0], *tensors[1])):
        both = tuple(side.get(place) for side in tensors)
        origins = tuple(sides[side].origins.get(tensor.key) if tensor else None for side, tensor in enumerate(both))
        if any(origin is not None and origin.tensor in taken[side] for side, origin in enumerate(origins)):
            continue
        role = place[0]
        a, b = origins
        if a is not None and b is not None and both[0] and both[1] and both[0].size == both[1].size:
            names = (_name(nodes[0]), _name(nodes[1]))
            moves.append(Move(a, b, role, names, turning(a, b, _flattened(nodes[0], graphs[0], role))))
            continue
        for side, origin in enumerate(origins):
            if origin is not None:
                other = nodes[1 - side]
                why = _why(other, both[1 - side] is not None, origins[1 - side] is not None, "BA"[side])
                absent = both[1 - side] is None and other is not None
                neutral = _neutral(role) if absent else None
                missing[side].append(Unmatched(origin.tensor, origin.shape, _name(nodes[side]), role, why, neutral))
    return moves


def _neutral(role: str) -> float | None:
    """What a tensor is set to so that its layer computes as one that lacks it; None where there is no such number."""
    if role.endswith("variance"):
        return 1.0
    return 0.0 if gate_of(role) and role.endswith("bias") else NEUTRAL.get(role)


def _whole_tensors(moves: Sequence[Move]) -> list[Move]:
    """The moves, those of several gates of one tensor to one other as one."""
    groups: dict[tuple[str, ...], list[Move]] = {}
    for move in moves:
        gate = gate_of(move.role)
        key = (move.a.tensor, move.b.tensor, move.role.removeprefix(gate)) if gate else (str(len(groups)),)
        groups.setdefault(key, []).append(move)
    return [_of_gates(members) if len(members) > 1 else members[0] for members in groups.values()]


def _of_gates(members: Sequence[Move]) -> Move:
    sides = [move.a for move in members], [move.b for move in members]
    a, b = joined_origins(*sides)
    gates = [gate_of(move.role) for move in members]
    orders = [gate_order(gates, side) for side in sides]
    how = turning(a, b)
    if orders[0] != orders[1]:
        how = f"its gates from the order {', '.join(orders[0])} to {', '.join(orders[1])}"
    return Move(a, b, members[0].role.removeprefix(f"{gates[0]}_"), members[0].layers, how)


def _by_place(node: Node | None) -> dict[tuple[str, int], Parameter]:
    """A node's tensors by role, and by their number among those of one role, of which an unknown layer has several."""
    counts: Counter[str] = Counter()
    places = {}
    for tensor in node.parameters if node is not None else ():
        places[tensor.role, counts[tensor.role]] = tensor
        counts[tensor.role] += 1
    return places


def _why(other: Node | None, has_tensor: bool, has_origin: bool, side: str) -> str:
    if other is None:
        return f"{side} has no such layer"
    if not has_tensor:
        return f"{_name(other)} of {side} has no such tensor"
    return f"{_name(other)} of {side} has another size" if has_origin else f"{side} has fixed or computed numbers there"


def _name(node: Node | None) -> str:
    return (node.source or node.name) if node is not None else ""


def _alone(
    side: MappedSide, moves: Sequence[Move], missing: Sequence[Unmatched], partly: Sequence[Unmatched], number: int
) -> list[Unmatched]:
    """Every tensor that is neither moved as a whole nor unused, with the reason."""
    incomplete = {tensor.tensor: tensor for tensor in partly}
    moved = {(move.a, move.b)[number].tensor for move in moves}
    reasons = {tensor.tensor: tensor for tensor in missing}
    alone = []
    for name, shape in side.shapes.items():
        if name in incomplete:
            alone.append(incomplete[name])
        elif name not in moved and name not in side.unused:
            alone.append(reasons.get(name) or Unmatched(name, shape, "", "value", COMPUTED_TOGETHER))
    return alone


def _partly_covered(
    moves: Sequence[Move], sums: Sequence[BiasSum], missing: Sequence[Unmatched]
) -> tuple[list[Unmatched], list[Unmatched]]:
    """Tensors of each side of which only some elements move. `missing`: of B, of which the rest may be neutral."""
    partly: tuple[list[Unmatched], list[Unmatched]] = ([], [])
    for side in (0, 1):
        parts: dict[str, list[Move]] = {}
        for move in moves:
            parts.setdefault((move.a, move.b)[side].tensor, []).append(move)
        for name, members in parts.items():
            origins = [(move.a, move.b)[side] for move in members]
            if side == 0:
                origins += [each.bias for each in sums if each.bias.tensor == name]
            if any(origin.axes is not None for origin in origins):
                continue
            covered = len(np.unique(np.concatenate([origin.places() for origin in origins])))
            if covered < prod(origins[0].shape):
                why = f"only {covered:,} of its {prod(origins[0].shape):,} numbers have a partner"
                first = members[0]
                rest = {tensor.neutral for tensor in missing if tensor.tensor == name} if side else {None}
                neutral = rest.pop() if len(rest) == 1 else None
                partly[side].append(Unmatched(name, origins[0].shape, first.layers[side], first.role, why, neutral))
    return partly


def _without_conflicts(moves: Sequence[Move], missing: list[Unmatched]) -> list[Move]:
    """Two tensors of A cannot become one that B shares between layers: the first of them does, the others are added to
    what is missing."""
    first: dict[str, str] = {}
    kept = []
    for move in moves:
        owner = first.setdefault(move.b.tensor, move.a.tensor)
        if owner == move.a.tensor or move.b.axes is None:
            kept.append(move)
            continue
        why = f"B shares {move.b.tensor} between layers, and {owner} has its place"
        missing.append(Unmatched(move.a.tensor, move.a.shape, move.layers[0], move.role, why))
    return kept


def _flattened(node: Node | None, graph: Graph, role: str) -> tuple[int, ...]:
    """The extents, channels first, of the map that a dense layer reads flattened; empty where it reads none."""
    if node is None or node.op != "dense" or role != "kernel":
        return ()
    before = graph.by_name[node.inputs[0]]
    while before.op in ("dropout", "identity"):
        before = graph.by_name[before.inputs[0]]
    return graph.by_name[before.inputs[0]].shape[1:] if before.op == "flatten" else ()


def _size(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "one number"
