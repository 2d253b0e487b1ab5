"""What two networks computed at a training step, quantity by quantity: B's in the names and axes of A.

Tensors, gradients and slots of the optimizer go through the parameter map. Layers stand beside each other where all
tensors of the one belong to tensors of the other and of no further layer; their answers keep the order of axes of their
framework, and are turned where only that makes their shapes equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import Deviation, deviation
from zoolens.training.pairs.lockstep.quantities import (
    AFTER_GRADIENTS,
    Capture,
    Key,
    captured_key,
    computation_order,
    key_of,
)
from zoolens.training.pairs.mapping.gate_tensors import BiasSum
from zoolens.training.pairs.mapping.parameter_map import Move, ParameterMap
from zoolens.training.pairs.mapping.tensor_names import owner
from zoolens.training.pairs.networks.framework import Array

OF_TENSORS: Final = ("gradient", *AFTER_GRADIENTS, "statistic")


@dataclass(frozen=True)
class Counterpart:
    """A quantity of A and that of B: one array beside another, the second in its own axes where it is an answer."""

    key: Key
    a: Array
    b: Array

    def apart(self) -> Deviation:
        """The least of the ways in which B's axes can face those of A; a turned array never agrees by accident."""
        facing = list(_facing(self.b, self.a.shape)) if self.key[0] in ("activation", "output") else [self.b]
        deviations = [deviation(values, self.a) for values in facing]
        return min(deviations, key=lambda moved: moved.error, default=Deviation(inf, "shape"))


def _facing(array: Array, wanted: tuple[int, ...]) -> Iterator[Array]:
    turned = [array]
    if array.ndim > 2:
        turned += [np.moveaxis(array, -1, 1), np.moveaxis(array, 1, -1)]
    for values in turned:
        if _without_ones(values.shape) == _without_ones(wanted):
            yield values.reshape(wanted)


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


class Counterparts:
    """Pairs the captures of two sides by their parameter map."""

    def __init__(self, map_: ParameterMap, start: Capture | None = None) -> None:
        """`start`: A's tensors before the first step, which those that it does not learn keep."""
        self._moves = _by_tensor(map_)
        self._sums, self._added, self._start = map_.sums, map_.added, start or {}
        self.layers = _layers(map_)

    def beside(self, a: Capture, b: Capture) -> list[tuple[int, Counterpart]]:
        """The quantities that both have, in the order in which a step computes them, each with its place among all
        quantities of A, which is the same whatever B has.

        Answers of layers whose shapes cannot face each other are left out: the layers are then no counterparts.
        """
        pairs = []
        b = self._with_single_biases(a, b)
        for place, (kind, name) in enumerate(_order(a)):
            given = self._of_b(kind, name, a, b)
            if given is None:
                continue
            pair = Counterpart((kind, name), a[key_of(kind, name)], given)
            if kind != "activation" or pair.apart().why != "shape":
                pairs.append((place, pair))
        return pairs

    @property
    def tensors(self) -> frozenset[str]:
        """Tensors of A that have all of their numbers in B, second biases among them."""
        return frozenset(self._moves) | {each.bias.tensor for each in self._sums}

    def _with_single_biases(self, a: Capture, b: Capture) -> Capture:
        """B's capture, in which a bias faces A's first one: without A's second bias where B's is the sum of both, and
        with B's own second one where A's is."""
        changed = dict(b)
        for each in self._sums:
            second = a.get(f"tensor/{each.bias.tensor}", self._start.get(each.bias.tensor))
            _add(changed, each, second, -1.0)
        for each in self._added:
            _add(changed, each, b.get(f"tensor/{each.bias.tensor}"), 1.0)
        return changed

    def missing(self, a: Capture, b: Capture) -> tuple[str, ...]:
        """Tensors of A that are learned there and have a place in B that is not learned, or the other way round."""
        learned_a = {name.partition("/")[2] for name in a if name.startswith("gradient/")}
        learned_b = {name.partition("/")[2] for name in b if name.startswith("gradient/")}
        return tuple(
            name
            for name, moves in self._moves.items()
            if (name in learned_a) != any(move.b.tensor in learned_b for move in moves)
        )

    def names(self, b: Capture) -> dict[str, list[str]]:
        """For the quantities of A that B's capture has counterparts of, by their keys in A's, the keys in B's."""
        by_name = {name: [name] for name in b if name == "loss" or name.startswith("output/")}
        of_b = {theirs: ours for ours, theirs in self.layers.items()}
        for name in b:
            layer, number, call = name.removeprefix("activation/").partition("#")
            if name.startswith("activation/") and layer in of_b:
                by_name[f"activation/{of_b[layer]}{number}{call}"] = [name]
        for kind in OF_TENSORS:
            for ours, moves in self._moves.items():
                theirs = [f"{kind}/{move.b.tensor}" for move in moves]
                if all(name in b for name in theirs):
                    by_name[f"{kind}/{ours}"] = theirs
        return by_name

    def _of_b(self, kind: str, name: str, a: Capture, b: Capture) -> Array | None:
        """The quantity of B in A's axes, or in its own where it is a layer's answer."""
        if kind in ("loss", "output"):
            return b.get(key_of(kind, name))
        if kind == "activation":
            layer, number, call = name.partition("#")
            return b.get(f"activation/{self.layers[layer]}{number}{call}") if layer in self.layers else None
        moves = self._moves.get(name, ())
        if not moves or not all(f"{kind}/{move.b.tensor}" in b for move in moves):
            return None
        into = np.zeros(a[key_of(kind, name)].shape, np.float64)
        for move in moves:
            move.a.put(into, move.b.taken(b[f"{kind}/{move.b.tensor}"]).astype(np.float64))
        return into


def _order(a: Capture) -> Iterator[Key]:
    """A's capture has its layers in the order of their calls, and its tensors in theirs."""
    named: dict[str, list[str]] = {}
    for kind, name in map(captured_key, a):
        named.setdefault(kind, []).append(name)
    return computation_order(named.get("activation", ()), named)


def _add(capture: dict[str, Array], sum_: BiasSum, second: Array | None, sign: float) -> None:
    key = f"tensor/{sum_.into.tensor}"
    if second is not None and key in capture:
        values = capture[key].astype(np.float64)
        sum_.into.put(values, sum_.into.taken(values) + sign * sum_.bias.taken(second))
        capture[key] = values


def _by_tensor(map_: ParameterMap) -> dict[str, tuple[Move, ...]]:
    """The moves of each tensor of A that B has as a whole: with fewer, its numbers could not be compared."""
    alone = {tensor.tensor for tensor in map_.only_a}
    by_tensor: dict[str, list[Move]] = {}
    for move in map_.moves:
        if move.a.tensor not in alone:
            by_tensor.setdefault(move.a.tensor, []).append(move)
    return {name: tuple(moves) for name, moves in by_tensor.items() if _covers(moves)}


def _covers(moves: Sequence[Move]) -> bool:
    """Whether the moves hold every number of A's tensor once. One that goes to several tensors of B does not."""
    return sum(prod(move.a.shape) if move.a.axes is not None else len(move.a.places()) for move in moves) == prod(
        moves[0].a.shape
    )


def _layers(map_: ParameterMap) -> dict[str, str]:
    """Layers of A that have all of their tensors in one layer of B, which has none of another."""
    of_a: dict[str, set[str]] = {}
    of_b: dict[str, set[str]] = {}
    for move in map_.moves:
        a, b = owner(move.a.tensor), owner(move.b.tensor)
        of_a.setdefault(a, set()).add(b)
        of_b.setdefault(b, set()).add(a)
    return {a: min(several) for a, several in of_a.items() if len(several) == 1 and of_b[min(several)] == {a}}
