"""Which setting of the live objects makes B leave A: named where it differs, proved by switching it on B.

A setting is proved where B, with A's value of it, leaves A later than before, or not at all. Where no single one does
that, all that differ are switched together, and those that are not needed are taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any, Final

from zoolens.port.training.base import NotSwitchable, Setting
from zoolens.port.training.departures import SEED, Captures, Compared, Departure, PairedSteps
from zoolens.port.training.sides import TrainableSide

_OF_UPDATE: Final = ("first", "second", "average", "tensor")
# By the beginning of a setting's name, the kinds of quantities in which it shows before it shows in any other.
_SHOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "norm.kept": ("statistic",),
    "norm.divisor": ("statistic",),
    "norm.epsilon": ("activation", "output"),
    "norm.frozen": ("activation", "output", "statistic"),
    "padding": ("activation", "output"),
    "precision": ("activation", "output"),
    "dropout": ("activation", "output"),
    "loss": ("loss", "gradient"),
    "regularisation": ("loss", "gradient"),
    "clip": _OF_UPDATE,
    "schedule": ("tensor", "first"),
    "optimizer.learning_rate": ("tensor",),
    "optimizer": _OF_UPDATE,
}
_ONE_THING: Final[Mapping[str, tuple[frozenset[Setting], ...]]] = {
    "optimizer.rule": (frozenset({"adam", "adamw"}),),
    "loss.name": (
        frozenset({"CrossEntropyLoss", "SparseCategoricalCrossentropy", "CategoricalCrossentropy", "cross-entropy"}),
        frozenset({"BCEWithLogitsLoss", "BCELoss", "BinaryCrossentropy", "binary cross-entropy"}),
        frozenset({"MSELoss", "MeanSquaredError", "squared error"}),
        frozenset({"L1Loss", "MeanAbsoluteError", "absolute error"}),
        frozenset({"HuberLoss", "Huber"}),
    ),
}
_LATER: Final = (1 << 62, 0)  # the position of a run that never departs


@dataclass(frozen=True)
class Difference:
    """A setting of both sides' live objects that is not the same. None: it cannot be known."""

    name: str
    a: Setting
    b: Setting


@dataclass(frozen=True)
class Cause:
    """`differences`: those that make it, where `proved`; else those that could. `fixed`: what could not be switched,
    by name, with the reason. `then`: where B departs once they are switched."""

    departure: Departure
    differences: tuple[Difference, ...]
    proved: bool
    fixed: Mapping[str, str]
    then: Departure | None = None


def differences(a: Mapping[str, Setting], b: Mapping[str, Setting]) -> tuple[Difference, ...]:
    """What the two have differently, and what one of them cannot tell."""
    names = dict.fromkeys(name for name in (*a, *b) if not name.startswith("jax."))
    both = [Difference(name, a.get(name, _absent(name, a)), b.get(name, _absent(name, b))) for name in names]
    return tuple(found for found in both if not same_setting(found.a, found.b) and not _renamed(found))


def _renamed(found: Difference) -> bool:
    """Whether two names mean one thing, whose settings have names of their own: Adam and AdamW, or torch's and Keras'
    classes of one loss."""
    return any({found.a, found.b} <= names for names in _ONE_THING.get(found.name, ()))


def _absent(name: str, settings: Mapping[str, Setting]) -> Setting:
    """What a setting is where the side has no such thing; None where its objects are functions that show nothing."""
    if settings.get("optimizer.decay_kind", "none") is None and name.startswith(("optimizer.", "norm.", "dropout.")):
        return None
    flags = ("optimizer.nesterov", "optimizer.amsgrad", "optimizer.centered", "optimizer.maximize")
    numbers = (
        "optimizer.momentum", "optimizer.dampening", "optimizer.weight_decay", "optimizer.rate_decay", "loss.smoothing",
        "norm.frozen",
    )  # fmt: skip
    if name == "optimizer.accumulation":
        return 1
    return False if name in flags else 0.0 if name in numbers else "none"


def same_setting(one: Setting, other: Setting) -> bool:
    """Equal, up to the rounding of float32, in which some frameworks keep their constants."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(same_setting(x, y) for x, y in zip(one, other, strict=True))
    if _is_number(one) and _is_number(other):
        return isclose(float(one), float(other), rel_tol=1e-6, abs_tol=1e-12)  # type: ignore[arg-type]
    return one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Switched:
    """B with some settings as A has them. `always`: settings that every run of B has, whatever is tried."""

    def __init__(self, side: TrainableSide, known: Sequence[Difference], always: Mapping[str, Setting]) -> None:
        self._side, self._known, self._always = side, {found.name: found for found in known}, always
        self.in_force: tuple[str, ...] = ()
        self.refused: dict[str, str] = {}

    def set(self, names: Sequence[str]) -> bool:
        """Have exactly these switched; whether all of them could be. A function of the user's makes its objects anew;
        objects that the user holds are switched back."""
        self._back()
        self._side.begin(SEED, fresh=True)
        for name, value in self._always.items():
            self._side.switch(name, value)
        self.in_force = tuple(name for name in names if self._switch(name, self._known[name].a))
        return len(self.in_force) == len(names)

    def _back(self) -> None:
        if self._side.keeps_switches:
            for name in self.in_force:
                self._side.switch(name, self._known[name].b)

    def _switch(self, name: str, value: Setting) -> bool:
        if value is None:
            self.refused[name] = "its value cannot be read from the live object"
            return False
        try:
            self._side.switch(name, value)
        except NotSwitchable as error:
            self.refused[name] = error.message
            return False
        return True


def find_cause(
    course: PairedSteps, reference: Captures, departure: Departure, switched: Switched, known: Sequence[Difference]
) -> Cause:
    """Leaves what it proved switched."""
    before = switched.in_force
    left = [found for found in _ordered(known, departure.kind) if found.name not in before]
    names = _tried(course, reference, departure, switched, [found.name for found in left])
    if names is None:
        switched.set(before)
        return Cause(departure, tuple(found for found in left if touches(found.name, departure.kind)), False,
                     _refused(switched, left))  # fmt: skip
    then = _run(course, reference, switched, (*before, *names)).departure
    found = tuple(one for one in left if one.name in names)
    return Cause(departure, found, True, _refused(switched, left), then)


def _tried(
    course: PairedSteps, reference: Captures, departure: Departure, switched: Switched, names: Sequence[str]
) -> tuple[str, ...] | None:
    """The fewest of these settings with which B departs later; None where even all of them do not do it."""
    before = switched.in_force

    def later(chosen: Sequence[str]) -> bool:
        if not switched.set((*before, *chosen)):
            return False
        return _position(_compared(course, reference)) > departure.position

    single = next((name for name in names if later([name])), None)
    if single is not None:
        return (single,)
    able = [name for name in names if name not in switched.refused]
    if len(able) < 2 or not later(able):
        return None
    for name in list(able):
        fewer = [other for other in able if other != name]
        if fewer and later(fewer):
            able = fewer
    return tuple(able)


def _run(course: PairedSteps, reference: Captures, switched: Switched, names: Sequence[str]) -> Compared:
    switched.set(names)
    return _compared(course, reference)


def _compared(course: PairedSteps, reference: Captures) -> Compared:
    return course.compared(reference, course.run_b())


def _position(compared: Compared) -> tuple[int, int]:
    return compared.departure.position if compared.departure is not None else _LATER


def _refused(switched: Switched, left: Sequence[Difference]) -> dict[str, str]:
    return {found.name: switched.refused[found.name] for found in left if found.name in switched.refused}


def touches(name: str, kind: str) -> bool:
    """Whether a setting may show in quantities of this kind first."""
    return any(name.startswith(prefix) and kind in kinds for prefix, kinds in _SHOWS.items())


def _ordered(known: Sequence[Difference], kind: str) -> list[Difference]:
    """Those that may show in this kind first; the others may have grown unseen, or be more than their name says."""
    return sorted(known, key=lambda found: not touches(found.name, kind))
