"""The same steps by two networks from the same weights, as often as asked, and where the second first leaves the first.

How far rounding alone may move a quantity is measured: each network also takes the steps with weights and inputs that
are disturbed by some roundings. A quantity that moves by its own size there tells nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from zoolens.crosstrain.training.lockstep.floors import MORE_RUNS, RUNS
from zoolens.crosstrain.training.lockstep.quantities import Key
from zoolens.numerics.deviation import Deviation, root_mean_square
from zoolens.numerics.rounding import FACTOR, ONE_ROUNDING, ROUNDINGS, disturbed
from zoolens.port.frameworks.base import Array
from zoolens.port.parameter_map import ParameterMap
from zoolens.port.training.batch import Batch
from zoolens.port.training.quantities import Capture, Counterpart, Counterparts
from zoolens.port.training.sides import TrainableSide

SEED: Final = 0
IN_WORDS: Final = (
    f"The floor of a quantity is {FACTOR:g} times the farthest that rounding moved it in {RUNS} runs of each network, "
    f"or {MORE_RUNS} of A before B is accused without a proved cause, with weights and inputs disturbed by up to "
    f"{ROUNDINGS} roundings each. Where it reaches the quantity's own size, nothing can be told."
)
Captures = Mapping[int, Capture]  # by the number of the step, from 1
Floors = dict[tuple[int, Key], float]


@dataclass(frozen=True)
class Departure:
    """The first quantity of a run of B that is beyond its floor. `place`: among the quantities of its step."""

    step: int
    kind: str
    name: str
    place: int
    apart: Deviation
    floor: float
    ratio: float | None = None

    @property
    def position(self) -> tuple[int, int]:
        return self.step, self.place


@dataclass(frozen=True)
class Compared:
    """All quantities of a run of B beside A's: how many, those that tell nothing, how many layers have their answers
    among them, and the first departure. `weights_agree`: no tensor and no statistic of a norm departs."""

    quantities: int
    blind: int
    layers: int
    departure: Departure | None
    weights_agree: bool


@dataclass
class PairedSteps:
    """One start and the same batches for every run. `steps`: those that are compared."""

    a: TrainableSide
    b: TrainableSide
    map: ParameterMap
    batches: Sequence[Batch]
    steps: Sequence[int]
    start: Mapping[str, Array]
    floors: Floors = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._beside = Counterparts(self.map)
        self._onto = self.b.tensors()

    def run_a(self, noise: int | None = None) -> Captures:
        return self._run(self.a, self.start, noise)

    def run_b(self, noise: int | None = None) -> Captures:
        return self._run(self.b, self.map.moved(self.start, self._onto), noise)

    def _run(self, side: TrainableSide, start: Mapping[str, Array], noise: int | None) -> Captures:
        generator = None if noise is None else np.random.default_rng(noise)
        weights = start if generator is None else {name: disturbed(array, generator) for name, array in start.items()}
        side.begin(SEED, fresh=False)
        side.assign(weights)
        found = {}
        for number, batch in enumerate(self.batches[: max(self.steps)], 1):
            captured = side.captured_step(batch if generator is None else _disturbed_batch(batch, generator))
            if number in self.steps:
                found[number] = captured
        return found

    def measure_floors(self, exact: Captures, which: str, runs: range) -> None:
        """Raise the floors by disturbed runs of A, or of B in A's names; `exact` is the undisturbed one."""
        for number in runs:
            noisy = self.run_a(number) if which == "a" else self.run_b(number)
            for step, captured in exact.items():
                pairs = self._own(captured, noisy[step]) if which == "a" else self._own_of_b(captured, noisy[step])
                for key, moved in pairs.items():
                    least = self.floors.get((step, key), FACTOR * ONE_ROUNDING)
                    self.floors[step, key] = max(least, FACTOR * moved.error)

    def _own(self, exact: Capture, noisy: Capture) -> dict[Key, Deviation]:
        return {_key(name): Counterpart(_key(name), array, noisy[name]).apart() for name, array in exact.items()}

    def _own_of_b(self, exact: Capture, noisy: Capture) -> dict[Key, Deviation]:
        """Under the names of A's quantities; the axes stay B's, in which the distances are the same."""
        named = self._beside.names(exact)
        return {
            _key(ours): max(
                (Counterpart(_key(name), exact[name], noisy[name]).apart() for name in theirs),
                key=lambda moved: moved.error,
            )
            for ours, theirs in named.items()
        }

    def compared(self, a: Captures, b: Captures) -> Compared:
        count = blind = layers = 0
        first: Departure | None = None
        weights_agree = True
        for step in self.steps:
            for place, pair in self._beside.beside(a[step], b[step]):
                floor = self.floors.get((step, pair.key), FACTOR * ONE_ROUNDING)
                apart = pair.apart()
                verdict = apart.verdict(floor)
                count, blind = count + 1, blind + (verdict == "blind")
                layers += pair.key[0] == "activation" and step == self.steps[0]
                weights_agree &= verdict != "beyond" or pair.key[0] not in ("tensor", "statistic")
                if verdict == "beyond" and first is None:
                    first = Departure(step, *pair.key, place, apart, floor, self._ratio(step, pair, floor))
        return Compared(count, blind, layers, first, weights_agree)

    def _ratio(self, step: int, pair: Counterpart, floor: float) -> float | None:
        """By which factor B's values are A's; of tensors, the changes that the first step made."""
        kind, name = pair.key
        size = max(root_mean_square(pair.a), root_mean_square(pair.b))
        if kind == "tensor":
            before = self.start[name]
            return _ratio(pair.a - before, pair.b - before, floor * size) if step == 1 else None
        return _ratio(pair.a, pair.b, floor * size)

    def unlearned(self, a: Captures, b: Captures) -> tuple[str, ...]:
        """Tensors that one side learns and the other does not."""
        return self._beside.missing(a[self.steps[0]], b[self.steps[0]])


def _key(name: str) -> Key:
    kind, _, rest = name.partition("/")
    return kind, rest


def _disturbed_batch(batch: Batch, generator: np.random.Generator) -> Batch:
    inputs = tuple(disturbed(array, generator) if array.dtype.kind == "f" else array for array in batch.inputs)
    return Batch(inputs, batch.targets)


def _ratio(a: Array, b: Array, slack: float) -> float | None:
    """The one number that makes A's values B's, within a root mean square of `slack`; None where there is none."""
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    ours, theirs = a.astype(np.float64).reshape(-1), b.astype(np.float64).reshape(-1)
    size = float(ours @ ours)
    factor = float(ours @ theirs) / size if size else 0.0
    return factor if factor and root_mean_square(theirs - factor * ours) <= slack else None
