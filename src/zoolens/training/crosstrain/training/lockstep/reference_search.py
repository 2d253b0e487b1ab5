"""The search for causes beside a reference: it is given what a side has, until the side trains like it.

A semantic is named where it differs and touches the quantity, and proved by a reference with that semantic switched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from zoolens.base.numerics.deviation import Deviation, deviation
from zoolens.training.crosstrain.training.architectures import is_statistic, tensor_shapes
from zoolens.training.crosstrain.training.lockstep.course import Course, LockstepRun
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.lockstep.cause_search import DepartureCause, find_cause
from zoolens.training.pairs.lockstep.floors import LEAST, MORE_RUNS, RUNS, Floors, widest
from zoolens.training.pairs.lockstep.quantities import (
    AFTER_GRADIENTS,
    Capture,
    ComparedQuantity,
    Key,
    computation_order,
    key_of,
)
from zoolens.training.pairs.mapping.tensor_names import owner
from zoolens.training.pairs.semantics import Semantics

# A setting of a layer -> the semantic that decides it.
_DECIDED: Final = {
    "stride": "stride", "padding": "padding", "epsilon": "norm_epsilon", "momentum": "norm_momentum",
    "rate": "dropout",
}  # fmt: skip
# Kind of quantity -> the settings of its own layer that show in it before anything else.
_TOUCHED: Final[Mapping[str, tuple[str, ...]]] = {
    "activation": ("stride", "padding", "epsilon", "rate"),
    "statistic": ("momentum",),
}
_ROOT: Final = ("root_rule", "root_epsilon", "rmsprop_rho", "adagrad_start")
_RATES: Final = ("schedule_unit", "warmup_start", "momentum_rate")
# Kind of quantity that the loss or an update makes -> the semantics that show in it, whatever the layer.
_SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "loss": ("smoothing",),
    "gradient": ("smoothing", "reduction"),
    "first": ("weight_decay", *_ROOT, *_RATES),
    "second": ("weight_decay", "rmsprop_rho", "adagrad_start"),
    "average": ("weight_decay", "rmsprop_rho"),
    "tensor": ("adam_rule", "adam_epsilon", "weight_decay", *_ROOT, *_RATES),
}
_CORRECTION: Final = 1e-4  # relative: four digits of 1 − 0.999 are lost in float32, and a root halves that
_SILENT: Final = ("init", "bias_init", "norm_momentum")  # change nothing that a later step is computed from
Runs = tuple[LockstepRun, LockstepRun]


class ReferenceSearch:
    """Searches causes by letting the reference take them over, one after another.

    Floors are measured anew for every cause that the reference has taken over: other semantics amplify rounding
    otherwise.
    """

    def __init__(
        self,
        course: Course,
        reference: LockstepRun,
        runs: Runs,
        labels: tuple[str, str],
        *,
        watched: Sequence[int] = (0, 1),  # the sides whose departures count
        floors: Floors | None = None,
    ) -> None:
        self._course, self._runs, self._labels, self._watched = course, runs, labels, watched
        self._order = order([run.network for run in (reference, *runs)])
        self._counted = False  # a variance that divides by n is no semantic, and cannot be taken over
        self._stand_beside(reference, course.floors(reference) if floors is None else floors)

    def _stand_beside(self, reference: LockstepRun, floors: Floors) -> None:
        self._reference, self._narrow = reference, floors
        self._compare(floors)

    def _compare(self, floors: Floors) -> None:
        self.floors = floors
        # Of both sides, beside the reference as it is now.
        self.rows = tuple(row for step in self._course.steps for row in self._rows(step))

    def _rows(self, step: int) -> Iterator[ComparedQuantity]:
        exact, a, b = self._reference.at(step), self._runs[0].at(step), self._runs[1].at(step)
        if exact is not None and a is not None and b is not None:
            yield from compare(step, self._order, exact, (a, b), self.floors)

    def departure(self) -> ComparedQuantity | None:
        return next((row for row in self.rows if self._departing(row)), None)

    def _departing(self, row: ComparedQuantity) -> list[int]:
        """The watched sides that are beyond the floor there, the farther one first."""
        if self._counted and row.kind == "statistic" and row.name.endswith(".variance"):
            return []
        beyond = [side for side in row.beyond if side in self._watched]
        return sorted(beyond, key=lambda side: -row.sides[side].error)

    def cause_of(self, departure: ComparedQuantity) -> DepartureCause:
        """Proved where the reference, with the side's values of it, computes what the side did, but for rounding; or
        where the definition shows it."""
        departing = self._departing(departure)
        labels = tuple(self._labels[number] for number in departing)
        return replace(self._cause_of(departure, departing[0]), sides=labels, switched_on="reference")

    def _cause_of(self, departure: ComparedQuantity, number: int) -> DepartureCause:
        precision, side = self._course.recipe.precision, self._runs[number]
        ours, theirs = self._reference.semantics, side.semantics
        if precision in ("tf32", "bfloat16") and all(moved.why in ("value", "not finite") for moved in departure.sides):
            reason = f"the recipe computes in {precision}, and the floor is that of float32"
            return DepartureCause(departure, (), False, reason=reason)
        names = self._suspects(departure, theirs)
        suspects = tuple(SettingDifference(name, ours.value(name), theirs.value(name)) for name in names)
        if not suspects and self._counts_otherwise(departure, side):
            trainer = self._course.reference.name
            label = self._labels[number]
            reason = f"{label} keeps the variance that divides by n, {trainer} the one that divides by n − 1"
            return DepartureCause(departure, (), True, reason=reason)
        if not suspects:
            return DepartureCause(
                departure, (), False, reason=_unexplained(departure.sides[number], departure.kind, theirs)
            )
        if departure.kind == "definition":
            return DepartureCause(departure, suspects, True)
        return find_cause(departure, suspects, lambda names: self._agrees(departure, side, names), {})

    def _suspects(self, departure: ComparedQuantity, semantics: Semantics) -> tuple[str, ...]:
        """The semantics that show in this quantity first; after the first step also what may have grown unseen."""
        differing, kind = self._reference.semantics.differing(semantics), departure.kind
        if kind == "definition":
            touching = {"conv_bias"} if departure.name.endswith(".bias") else {"dropout"}
        elif kind in _SHOWN:
            touching = set(_SHOWN[kind])
        else:
            ours, theirs = (self._layer(told, departure.layer) for told in (self._reference.semantics, semantics))
            settings = _TOUCHED.get(kind, ())
            touching = {_DECIDED[setting] for setting in settings if ours.get(setting) != theirs.get(setting)}
        direct = tuple(name for name in differing if name in touching)
        if direct or departure.step == 1 or kind == "definition":
            return direct
        return tuple(name for name in differing if name not in _SILENT)

    def _layer(self, semantics: Semantics, name: str) -> Mapping[str, Any]:
        layers = self._course.network(semantics).layers
        return next((layer.settings for layer in layers if layer.name == name), {})

    def _agrees(self, departure: ComparedQuantity, side: LockstepRun, names: Sequence[str]) -> bool:
        """Whether the reference computes the quantity as the side did, where it has the side's values of these, within
        a floor of its own: other semantics amplify rounding otherwise.

        A port runs B again for every trial and asks whether it departs later. Here the sides are trained once, and the
        switched reference is run to the step of the departure alone.
        """
        step, key = departure.step, key_of(departure.kind, departure.name)
        alone = replace(self._course, steps=(step,))
        exact = alone.run_reference(self._given(side, names))
        floor = alone.floors(exact).get((step, (departure.kind, departure.name)), LEAST)
        expected, computed = exact.at(step), side.at(step)
        return bool(expected and computed and deviation(computed[key], expected[key]).error <= floor < 1)

    def _given(self, side: LockstepRun, names: Sequence[str]) -> Semantics:
        """The reference's semantics with the side's values of these."""
        return self._reference.semantics.model_copy(update={name: getattr(side.semantics, name) for name in names})

    def _counts_otherwise(self, departure: ComparedQuantity, side: LockstepRun) -> bool:
        """Whether a norm's variance is what the reference's would be, had it divided by n: no semantic, yet a
        difference. All batches are taken to be full."""
        momentum = self._reference.semantics.norm_momentum
        exact, computed = self._reference.at(departure.step), side.at(departure.step)
        if not departure.name.endswith(".variance") or momentum is None or exact is None or computed is None:
            return False
        layers = self._reference.network.layers
        shape = next(layer.shape for layer in layers if layer.name == departure.layer)
        count = min(self._course.recipe.batch_size, self._course.samples) * math.prod(shape[1:])
        key, faded = key_of(departure.kind, departure.name), 1 - momentum**departure.step  # the first variance was 1
        expected = (exact[key] + faded) * (count - 1) / count - faded
        return deviation(computed[key], expected).error <= departure.floor

    def widen(self, departure: ComparedQuantity) -> bool:
        if self.floors is not self._narrow:
            return False
        self._compare(widest(self.floors, self._course.floors(self._reference, range(RUNS, MORE_RUNS))))
        return True

    def take_over(self, cause: DepartureCause) -> bool:
        if "dropout" in cause.names:
            return False
        if not cause.names:
            self._counted = True
            self._stand_beside(self._reference, self._narrow)
            return True
        side = self._runs[self._labels.index(cause.sides[0])]
        reference = self._course.run_reference(self._given(side, cause.names))
        self._stand_beside(reference, self._course.floors(reference))
        return True


def _unexplained(moved: Deviation, kind: str, semantics: Semantics) -> str:
    text = "unexplained: no semantic that touches it differs"
    if kind == "tensor" and semantics.adam_rule == "inside" and moved.error < _CORRECTION:
        return f"{text}; Keras' Adam computes 1 − β₂^t in single precision, which may be it in the first steps"
    return text


def compare(
    step: int, keys: Sequence[Key], reference: Capture, sides: tuple[Capture, Capture], floors: Floors
) -> Iterator[ComparedQuantity]:
    """One row for each quantity that all have, and one for each layer or tensor that not all have, in order."""
    named: set[str] = set()
    for place, (kind, name) in enumerate(keys):
        key = key_of(kind, name)
        there = [key in capture for capture in (reference, *sides)]
        if all(there) and kind == "definition":
            continue
        if all(there):
            deviations = tuple(deviation(side[key], reference[key]) for side in sides)
            yield ComparedQuantity(step, kind, name, deviations, floors.get((step, (kind, name)), LEAST), place)
        elif any(there) and name not in named:
            named.add(name)
            presences = tuple(_presence(there[0], side) for side in there[1:])
            yield ComparedQuantity(step, "definition", name, presences, 0.0, place)


def _presence(reference: bool, side: bool) -> Deviation:
    if reference == side:
        return Deviation(0.0)
    return Deviation(math.inf, "missing" if reference else "extra")


def order(networks: Sequence[Network]) -> list[Key]:
    """The quantities of all networks in the order of computation; a tensor that a side lacks is told where it is first
    used."""
    layers = [layer.name for layer in max((network.layers for network in networks), key=len)]
    tensors = {name: None for network in networks for name in tensor_shapes(network)}
    by_layer = sorted((name for name in tensors if owner(name) in layers), key=lambda name: layers.index(owner(name)))
    learned = [name for name in by_layer if not is_statistic(name)]
    named = dict.fromkeys(("definition", "gradient", *AFTER_GRADIENTS), learned)
    statistics = [name for name in by_layer if is_statistic(name)]
    return list(computation_order(layers, {**named, "statistic": statistics, "loss": [""]}))
