"""Which setting of the live objects makes B leave A: named where it differs, proved by switching it on B.

A setting is proved where B, with A's value of it, leaves A later than before, or not at all. Where no single one does
that, all that differ are switched together, and those that are not needed are taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.training.pairs.live.differences import SettingDifference, in_order
from zoolens.training.pairs.live.live_training import NotSwitchable, Setting
from zoolens.training.pairs.lockstep.departures import SEED, Captures, ComparedRun, Departure, PairedSteps
from zoolens.training.pairs.loop.trainable_sides import TrainableSide

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
    "embedding": ("gradient",),
    "loss": ("loss", "gradient"),
    "regularisation": ("loss", "gradient"),
    "clip": _OF_UPDATE,
    "constraint": ("tensor",),
    "schedule": ("tensor", "first"),
    "optimizer.learning_rate": ("tensor",),
    "optimizer": _OF_UPDATE,
}
# The running variance of a norm divides by n - 1 in torch and by n elsewhere, and no framework has an option for it. It
# changes no weight, and so it is no difference between two trainings.
CONVENTIONS: Final = frozenset({"norm.divisor"})
_LATER: Final = (1 << 62, 0)  # the position of a run that never departs


@dataclass(frozen=True)
class DepartureCause:
    """`differences`: those that make it, where `proved`; else those that could. `fixed`: what could not be switched,
    by name, with the reason. `then`: where B departs once they are switched. `switched_on`: B was given A's value, or A
    was given B's."""

    departure: Departure
    differences: tuple[SettingDifference, ...]
    proved: bool
    fixed: Mapping[str, str]
    then: Departure | None = None
    switched_on: str = "B"

    @property
    def is_convention(self) -> bool:
        """Whether it is proved to be what a framework fixes and what changes no weight."""
        return self.proved and {difference.name for difference in self.differences} <= CONVENTIONS


class Switched:
    """B with some settings as A has them. `always`: settings that every run of B has, whatever is tried."""

    def __init__(self, side: TrainableSide, known: Sequence[SettingDifference], always: Mapping[str, Setting]) -> None:
        self._side, self._known, self._always = side, {difference.name: difference for difference in known}, always
        self.in_force: tuple[str, ...] = ()
        self.refused: dict[str, str] = {}

    def set(self, names: Sequence[str]) -> bool:
        """Have exactly these switched; whether all of them could be. A function of the user's makes its objects anew;
        objects that the user holds are switched back."""
        self._back()
        self._side.begin(SEED, fresh=True)
        for name, value in self._always.items():
            self._side.switch(name, value)
        known = {name: self._known[name] for name in names}
        self.in_force = tuple(name for name in in_order(known) if self._switch(known[name]))
        return len(self.in_force) == len(names)

    def _back(self) -> None:
        if self._side.keeps_switches:
            for name in self.in_force:
                give(self._side, self._known[name], side=1, of=1)

    def _switch(self, difference: SettingDifference) -> bool:
        if not difference.known(0):
            self.refused[difference.name] = "its value cannot be read from the live object"
            return False
        try:
            give(self._side, difference, side=1, of=0)
        except NotSwitchable as error:
            self.refused[difference.name] = error.message
            return False
        return True


def give(live: TrainableSide, difference: SettingDifference, *, side: int, of: int) -> None:
    """Let side 0 or 1, which is `live`, have a setting as side `of` has it. NotSwitchable: it cannot, and all is as
    before."""
    for place, (name, value) in enumerate(difference.switches(side, of)):
        try:
            live.switch(name, value)
        except NotSwitchable:
            if place and of != side:
                give(live, difference, side=side, of=side)
            raise


def find_cause(
    course: PairedSteps,
    reference: Captures,
    departure: Departure,
    switched: Switched,
    known: Sequence[SettingDifference],
) -> DepartureCause:
    """Finds what makes B depart, and leaves what it proved switched."""
    before = switched.in_force
    left = [difference for difference in _ordered(known, departure.kind) if difference.name not in before]
    names = _tried(course, reference, departure, switched, [difference.name for difference in left])
    if names is None:
        switched.set(before)
        suspects = tuple(difference for difference in left if touches(difference.name, departure.kind))
        return DepartureCause(departure, suspects, False, _refused(switched, left))
    then = _run(course, reference, switched, (*before, *names)).departure
    proved = tuple(difference for difference in left if difference.name in names)
    return DepartureCause(departure, proved, True, _refused(switched, left), then)


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


def _run(course: PairedSteps, reference: Captures, switched: Switched, names: Sequence[str]) -> ComparedRun:
    switched.set(names)
    return _compared(course, reference)


def _compared(course: PairedSteps, reference: Captures) -> ComparedRun:
    return course.compared(reference, course.run_b())


def _position(compared: ComparedRun) -> tuple[int, int]:
    return compared.departure.position if compared.departure is not None else _LATER


def _refused(switched: Switched, left: Sequence[SettingDifference]) -> dict[str, str]:
    return {
        difference.name: switched.refused[difference.name] for difference in left if difference.name in switched.refused
    }


def touches(name: str, kind: str) -> bool:
    """Whether a setting may show in quantities of this kind first."""
    return any(name.startswith(prefix) and kind in kinds for prefix, kinds in _SHOWS.items())


def _ordered(known: Sequence[SettingDifference], kind: str) -> list[SettingDifference]:
    """Sorts the differences: those that may show in this kind come first; the others may have grown unseen, or be more
    than their name says."""
    return sorted(known, key=lambda difference: not touches(difference.name, kind))
