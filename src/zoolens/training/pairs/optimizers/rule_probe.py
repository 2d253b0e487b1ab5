"""Steps of an optimizer that shows no settings, taken with chosen gradients, beside those that a rule predicts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.optimizers.update_rules import Clipping, UpdateRule, clipped, empty_slots, updated

Array = NDArray[np.float64]
SMALLEST: Final = 1e-6  # of gradients: so small that no clipping changes them
_LOOKED: Final = 6  # steps that a rule has to predict
_MOST_ACCUMULATED: Final = 64


class Prober(Protocol):
    """An optimizer that shows no settings, over tensors of these shapes, in float64."""

    shapes: Sequence[tuple[int, ...]]

    def run(self, gradients: Sequence[Sequence[Array]], values: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """What it adds to each tensor at each step, from a fresh state; `values`: the tensors before each step."""


class NotFitted(Exception):
    """No rule predicts what the optimizer does; the message says what was seen."""


class RuleProbe:
    """Runs with one number as the gradient of everything, which are asked again and again, and random ones."""

    def __init__(self, prober: Prober) -> None:
        self.prober, self._kept = prober, dict[tuple[tuple[float, ...], float], list[list[Array]]]()
        self.accumulation = 1
        self.accumulation = self._accumulation()
        self._kept.clear()
        self._noise = [
            [np.random.default_rng([step, leaf]).standard_normal(shape) for leaf, shape in enumerate(prober.shapes)]
            for step in range(2 * _LOOKED)
        ]

    def _accumulation(self) -> int:
        """The number of steps from one that moves something to the next."""
        moving = [step for step, move in enumerate(self.moves(0, (SMALLEST,) * 6)) if move]
        if len(moving) > 2 and moving[1] == moving[0] + 1:
            return 1
        moving = [step for step, move in enumerate(self.moves(0, (SMALLEST,) * 2 * _MOST_ACCUMULATED)) if move]
        if len(moving) < 2:
            raise NotFitted("nothing moves in its first steps")
        return moving[1] - moving[0]

    def moves(self, leaf: int, gradients: tuple[float, ...], value: float = 0.0) -> Array:
        """What each step moves the first number of a tensor by."""
        key = gradients, value
        if key not in self._kept:
            shapes = self.prober.shapes
            given = [[np.full(shape, gradient) for shape in shapes] for gradient in gradients]
            self._kept[key] = self.run(given, [[np.full(shape, value) for shape in shapes]] * len(gradients))
        return np.array([step[leaf].reshape(-1)[0] for step in self._kept[key]])

    def run(self, gradients: Sequence[Sequence[Array]], values: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """One step for each update: what is accumulated is the same gradient each time."""
        count = self.accumulation
        repeated = self.prober.run(
            [step for step in gradients for _ in range(count)], [step for step in values for _ in range(count)]
        )
        return repeated[count - 1 :: count]

    def rates(self, leaf: int, rule: UpdateRule, count: int) -> list[float]:
        """The learning rate of the first steps: the moves beside those at a rate of 1."""
        gradients = (SMALLEST,) * count
        full = [np.full(1, gradient) for gradient in gradients]
        at_one = predicted(rule, full, [np.zeros(1)] * count, rates=[1.0] * count)
        moved = self.moves(leaf, gradients)
        return [float(move / unit[0]) for move, unit in zip(moved, at_one, strict=True)]

    def random(self, size: float) -> tuple[list[list[Array]], list[list[Array]]]:
        """Gradients of this size, and values around 1."""
        half = len(self._noise) // 2
        return [[size * leaf for leaf in step] for step in self._noise[:half]], self._noise[half:]

    def error_alone(self, leaf: int, rule: UpdateRule, size: float) -> float:
        """How far the rule is from the moves of one tensor with gradients of this size, if nothing clips them."""
        gradients, values = self.random(size)
        moved = self._random_run(size)
        expected = predicted(
            rule, [step[leaf] for step in gradients], [step[leaf] for step in values],
            rates=self.rates(leaf, rule, len(gradients)),
        )  # fmt: skip
        return max(_apart(move, step[leaf]) for move, step in zip(expected, moved, strict=True))

    def _random_run(self, size: float) -> list[list[Array]]:
        key = ((size,), inf)
        if key not in self._kept:
            self._kept[key] = self.run(*self.random(size))
        return self._kept[key]

    def error(self, rules: Sequence[UpdateRule], clipping: Clipping, size: float) -> float:
        """How far all tensors' moves are from those that the rules and this clipping predict."""
        gradients, values = self.random(size)
        moved = self._random_run(size)
        cut = [clipped(clipping, step, np) for step in gradients]
        worst = 0.0
        for leaf, rule in enumerate(rules):
            rates = self.rates(leaf, rule, len(cut))
            expected = predicted(rule, [step[leaf] for step in cut], [step[leaf] for step in values], rates=rates)
            worst = max(worst, *(_apart(move, step[leaf]) for move, step in zip(expected, moved, strict=True)))
        return worst


def predicted(
    rule: UpdateRule, gradients: Sequence[Array], values: Sequence[Array], *, rates: Sequence[float]
) -> list[Array]:
    """What the rule moves one tensor by at each step."""
    slots, moves = empty_slots(rule, values[0], np), []
    for step, (gradient, value, rate) in enumerate(zip(gradients, values, rates, strict=True), 1):
        moved, slots = updated(rule, gradient, slots, value, step=step, rate=rate, xp=np)
        moves.append(moved)
    return moves


def _apart(expected: Array, moved: Array) -> float:
    size = max(float(np.abs(moved).max(initial=0.0)), float(np.abs(expected).max(initial=0.0)))
    apart = float(np.abs(expected - moved).max(initial=0.0)) / size if size else 0.0
    return apart if np.isfinite(apart) else inf
