"""Two networks take the same steps from the same weights, and the first quantity in which B departs from A is found.

How far rounding alone may move a quantity is measured: each network also takes the steps with weights and inputs that
are disturbed by some roundings, and with the samples of each batch in another order. A quantity that moves by its own
size there tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.numerics.deviation import Deviation, root_mean_square
from zoolens.base.numerics.rounding import disturbed
from zoolens.training.pairs.data.batch import TrainingBatch
from zoolens.training.pairs.live.live_training import NotSwitchable
from zoolens.training.pairs.lockstep.counterparts import Counterpart, Counterparts
from zoolens.training.pairs.lockstep.floors import LEAST, Floors, raise_floors
from zoolens.training.pairs.lockstep.quantities import (
    Capture,
    Captures,
    ComparedQuantity,
    Key,
    ToldQuantities,
    captured_key,
)
from zoolens.training.pairs.loop.trainable_sides import TrainableSide
from zoolens.training.pairs.mapping.parameter_map import ParameterMap
from zoolens.training.pairs.networks.framework import Array

SEED: Final = 0
OF_WEIGHTS: Final = ("tensor", "statistic")
_OF_AN_UPDATE: Final = ("gradient", "first", "second", "average")
_RANDOM: Final = 1e-3  # relative: beyond what computing a step twice may change, and below what chance does
_WIDEST: Final = 0.99  # of a floor that a margin makes wider: one that reaches 1 would tell nothing


@dataclass(frozen=True)
class ComparedRun:
    """All quantities of a run of B beside A's, in the order of computation."""

    rows: tuple[ComparedQuantity, ...]
    departure: ComparedQuantity | None  # the first beyond its floor
    changed: frozenset[str] = frozenset()  # tensors that some step changes by more than rounding

    @property
    def weights_agree(self) -> bool:
        """No tensor and no statistic of a norm departs, and those whose gradients or moments do depart have changed by
        more than rounding."""
        beyond = [row for row in self.rows if row.beyond]
        doubted = {row.name for row in beyond if row.kind in _OF_AN_UPDATE}
        return doubted <= self.changed and not any(row.kind in OF_WEIGHTS for row in beyond)

    @property
    def lost(self) -> tuple[str, ...]:
        """Tensors and statistics that rounding alone moves by their size at every compared step."""
        return ToldQuantities(self.rows).lost(OF_WEIGHTS)


@dataclass
class PairedSteps:
    """One start and the same batches for every run. `steps`: those that are compared."""

    a: TrainableSide
    b: TrainableSide
    map: ParameterMap
    batches: Sequence[TrainingBatch]
    steps: Sequence[int]
    start: Mapping[str, Array]
    batches_b: Sequence[TrainingBatch] | None = None  # where B has batches of its own
    floors: Floors = field(default_factory=dict)
    margin: float = 1.0  # by which floors are wider in a comparison
    single_biases: bool = False  # whether second biases of recurrent gates are set back after every step

    def __post_init__(self) -> None:
        self._beside = Counterparts(self.map, self.start)
        self._onto = self.b.tensors()

    def run_a(self, noise: int | None = None) -> Captures:
        return self._run(self.a, self.start, noise)

    def run_b(self, noise: int | None = None) -> Captures:
        return self._run(self.b, self.map.moved(self.start, self._onto), noise)

    def draws_at_random(self, which: str) -> bool:
        """Whether a side's first step, from the same weights on the same batch, computes something else under another
        seed. Only what goes forward is looked at: a gradient may be nothing but rounding."""
        side = self.a if which == "a" else self.b
        start = self.start if which == "a" else self.map.moved(self.start, self._onto)
        first, second = (self._run(side, start, None, seed=seed, steps=(1,))[1] for seed in (SEED, SEED + 1))
        forward = {name: array for name, array in first.items() if name.startswith(("activation/", "output/", "loss"))}
        return any(moved.error > _RANDOM for moved in _moved(_own_names(forward), forward, second).values())

    def _run(
        self,
        side: TrainableSide,
        start: Mapping[str, Array],
        noise: int | None,
        *,
        seed: int = SEED,
        steps: Sequence[int] | None = None,
    ) -> Captures:
        steps = steps or self.steps
        generator = None if noise is None else np.random.default_rng(noise)
        weights = start if generator is None else {name: disturbed(array, generator) for name, array in start.items()}
        side.begin(seed, fresh=False)
        side.assign(weights)
        captures = {}
        batches = self.batches if side is self.a or self.batches_b is None else self.batches_b
        for number, batch in enumerate(batches[: max(steps)], 1):
            kept = number in steps
            if generator is None:
                captured = side.captured_step(batch, keep=kept)
            else:
                order = generator.permutation(batch.size)
                captured = side.captured_step(_disturbed_batch(batch, generator, order), keep=kept)
                captured = {name: _in_order(name, array, order) for name, array in captured.items()}
            if self.single_biases:
                captured = {**captured, **self._set_back(side, weights)}
            if kept:
                captures[number] = captured
        return captures

    @property
    def second_biases(self) -> str:
        """The side whose recurrent gates have two biases where the other has one, "A" or "B"; empty for none."""
        return "A" if self.map.sums else "B" if self.map.added else ""

    def _set_back(self, side: TrainableSide, start: Mapping[str, Array]) -> dict[str, Array]:
        """Give second biases the numbers with which they began; returns what changes in a capture."""
        sums = self.map.sums if side is self.a else self.map.added
        tensors = side.tensors() if sums else {}
        back = {each.bias.tensor: tensors[each.bias.tensor].copy() for each in sums}
        for each in sums:
            each.bias.put(back[each.bias.tensor], each.bias.taken(start[each.bias.tensor]))
        if back:
            side.assign(back)
        return {f"tensor/{name}": array for name, array in back.items()}

    def run_exactly(self, which: str) -> Captures | None:
        """A run in float64, where the side can compute in it and does not so anyway.

        Some errors of float32 are no matter of chance, so that no disturbance shows them: torch's batch norm sums a
        variance naively, and is hundreds of roundings off on a large batch.
        """
        side = self.a if which == "a" else self.b
        own = side.settings().get("precision")
        if own != "float32":
            return None
        try:
            side.switch("precision", "float64")
        except NotSwitchable:
            return None
        try:
            return self.run_a() if which == "a" else self.run_b()
        except (ZoolensError, RuntimeError, TypeError, ValueError):  # a loss may hold tensors that are float32
            return None
        finally:
            side.switch("precision", own)

    def measure_floors(self, exact: Captures, which: str, runs: range) -> None:
        """Raise the floors by disturbed runs of A, or of B in A's names, and by one in float64; `exact` is the run that
        is compared."""
        run = self.run_a if which == "a" else self.run_b
        others = [self.run_exactly(which)] if runs.start == 0 else []
        for noisy in chain(others, map(run, runs)):
            if noisy is None:
                continue
            for step, captured in exact.items():
                named = _own_names(captured) if which == "a" else self._beside.names(captured)
                raise_floors(self.floors, step, _moved(named, captured, noisy[step]))

    def compared(self, a: Captures, b: Captures) -> ComparedRun:
        rows: list[ComparedQuantity] = []
        first: ComparedQuantity | None = None
        changed: set[str] = set()
        for step in self.steps:
            for place, pair in self._beside.beside(a[step], b[step]):
                floor = self._floor(step, pair.key)
                kind, name = pair.key
                row = ComparedQuantity(step, kind, name, (pair.apart(),), floor, place)
                rows.append(row)
                if kind == "tensor" and root_mean_square(pair.a - self.start[name]) > floor * root_mean_square(pair.a):
                    changed.add(name)
                if row.beyond and first is None:
                    first = replace(row, ratio=self._ratio(step, pair, floor))
        return ComparedRun(tuple(rows), first, frozenset(changed))

    def _floor(self, step: int, key: Key) -> float:
        floor = self.floors.get((step, key), LEAST)
        return floor if floor >= 1 else min(floor * self.margin, _WIDEST)

    def _ratio(self, step: int, pair: Counterpart, floor: float) -> float | None:
        """Returns the factor between B's values and A's; of tensors, the changes that the first step made."""
        kind, name = pair.key
        size = max(root_mean_square(pair.a), root_mean_square(pair.b))
        if kind == "tensor":
            before = self.start[name]
            return _ratio(pair.a - before, pair.b - before, floor * size) if step == 1 else None
        return _ratio(pair.a, pair.b, floor * size)

    def unlearned(self, a: Captures, b: Captures) -> tuple[str, ...]:
        """Tensors that one side learns and the other does not."""
        return self._beside.missing(a[self.steps[0]], b[self.steps[0]])


def _own_names(capture: Capture) -> dict[str, list[str]]:
    return {name: [name] for name in capture}


def _moved(named: Mapping[str, Sequence[str]], exact: Capture, noisy: Capture) -> dict[Key, Deviation]:
    """How far each quantity of a side is from itself, under the names that A has for it. The axes stay the side's own,
    in which the distances are the same."""
    return {
        captured_key(ours): max(
            (Counterpart(captured_key(name), exact[name], noisy[name]).apart() for name in theirs),
            key=lambda moved: moved.error,
        )
        for ours, theirs in named.items()
    }


def _disturbed_batch(batch: TrainingBatch, generator: np.random.Generator, order: Array) -> TrainingBatch:
    """Inputs disturbed by some roundings, and samples in another order: sums over a batch then round otherwise."""
    inputs = (disturbed(array, generator) if array.dtype.kind == "f" else array for array in batch.inputs)
    turned = tuple(np.ascontiguousarray(array[order]) for array in inputs)
    return replace(batch, inputs=turned, targets=batch.targets[order])


def _in_order(name: str, array: Array, order: Array) -> Array:
    """An answer for each sample, back in the samples' own order; the first axis may hold several rows of each."""
    count = len(order)
    if not name.startswith(("activation/", "output/")) or not array.ndim or len(array) % count:
        return array
    rows = array.reshape(count, -1)
    ordered = np.empty_like(rows)
    ordered[order] = rows
    return ordered.reshape(array.shape)


def _ratio(a: Array, b: Array, slack: float) -> float | None:
    """The one number that makes A's values B's, within a root mean square of `slack`; None where there is none."""
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    ours, theirs = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    size = float(ours @ ours)
    factor = float(ours @ theirs) / size if size else 0.0
    return factor if factor and root_mean_square(theirs - factor * ours) <= slack else None
