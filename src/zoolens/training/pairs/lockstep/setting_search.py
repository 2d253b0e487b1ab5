"""The search for causes between two live sides: B is given what A has, until it trains like A."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.live.live_training import NotSwitchable, Setting
from zoolens.training.pairs.lockstep.cause_search import DepartureCause, causes_in_order, find_cause
from zoolens.training.pairs.lockstep.departures import PairedSteps
from zoolens.training.pairs.lockstep.floors import MORE_RUNS, RUNS
from zoolens.training.pairs.lockstep.quantities import Captures, ComparedQuantity
from zoolens.training.pairs.lockstep.setting_switches import Switched, touches

MARGIN: Final = 4.0  # floors by which B may be beyond and is not accused, where nothing explains it
_MOST_CAUSES: Final = 12  # each takes several runs of B; two sides with more are not meant to train alike
_DIVISOR: Final = "norm.divisor"
BIASES: Final = "recurrent.biases"
_OTHER_DIVISOR: Final = {"n": "n - 1", "n - 1": "n"}


class SettingSearch:
    """Searches causes by giving B the settings of A, one after another."""

    def __init__(
        self,
        course: PairedSteps,
        reference: Captures,
        always: Mapping[str, Setting],  # settings that every run of B has
        known: Sequence[SettingDifference],
    ) -> None:
        self.causes: list[DepartureCause] = []  # in order; the last one may be unproved
        # The first departure that was taken for rounding though it is beyond its floor.
        self.doubtful: ComparedQuantity | None = None
        self._course, self._reference = course, reference
        self._read = {setting.name: setting for setting in known}
        self._known = [_supposed(setting) for setting in known]
        self._switched = Switched(course.b, self._known, always)
        self._widened = False
        self._own_divisor: str | None = None  # of A, where it was given the other

    def run(self) -> None:
        try:
            for cause in causes_in_order(self, _MOST_CAUSES):
                self.causes.append(cause)
        finally:
            self._switched.set(())
            if self._own_divisor is not None:
                self._course.a.switch(_DIVISOR, self._own_divisor)

    def departure(self) -> ComparedQuantity | None:
        departure = self._now(self._reference)
        if departure is None and self.causes:  # what departed behind the last cause was rounding, as floors are by now
            self.causes[-1] = replace(self.causes[-1], then=None)
        return departure

    def cause_of(self, departure: ComparedQuantity) -> DepartureCause:
        cause = self._switched_cause(departure)
        if not cause.proved and departure.kind == "statistic":
            cause = self._divided_otherwise(cause)
        return cause if cause.proved else self._learned_twice(cause)

    def widen(self, departure: ComparedQuantity) -> bool:
        if not self._widened:
            self._course.measure_floors(self._reference, "a", range(RUNS, MORE_RUNS))
            self._widened = True
            return True
        if self.doubtful is None and departure.apart.error <= MARGIN * departure.floor:
            self._course.margin, self.doubtful = MARGIN, departure
            return True
        return False

    def take_over(self, cause: DepartureCause) -> bool:  # what is proved is left switched
        return True

    def _now(self, reference: Captures) -> ComparedQuantity | None:
        return self._course.compared(reference, self._course.run_b()).departure

    def _switched_cause(self, departure: ComparedQuantity) -> DepartureCause:
        """A setting is proved where B, with A's value of it, leaves A later than before, or not at all. Those that may
        show in this kind are tried first; the others may have grown unseen, or be more than their name says."""
        before = self._switched.in_force
        left = [setting for setting in self._known if setting.name not in before]
        left.sort(key=lambda setting: not touches(setting.name, departure.kind))

        def explains(names: Sequence[str]) -> bool:
            if not self._switched.set((*before, *names)):
                return False
            return _is_later(self._now(self._reference), departure)

        cause = find_cause(departure, left, explains, self._switched.refused)
        if cause.proved:
            self._switched.set((*before, *cause.names))
            return replace(cause, then=self._now(self._reference))
        self._switched.set(before)
        suspects = [self._read[name] for name in cause.names if touches(name, departure.kind)]
        return replace(cause, differences=tuple(suspects))

    def _learned_twice(self, cause: DepartureCause) -> DepartureCause:
        """Try what happens if second biases of recurrent gates are not learned. Two that add up get the same gradient
        each, so that their sum moves twice as far as the one bias of the other side."""
        side = self._course.second_biases
        if not side or self._course.single_biases:
            return cause
        self._course.single_biases = True
        found = SettingDifference(BIASES, 2 if side == "A" else 1, 2 if side == "B" else 1)
        proved = self._with_new_reference(cause, found, side)
        self._course.single_biases = proved.proved
        return proved

    def _divided_otherwise(self, cause: DepartureCause) -> DepartureCause:
        """Try the other divisor of the running variance on A, where B's norms cannot be switched or read."""
        own = self._course.a.settings().get(_DIVISOR)
        other = _OTHER_DIVISOR.get(str(own))
        if other is None or self._own_divisor is not None:
            return cause
        try:
            self._course.a.switch(_DIVISOR, other)
        except NotSwitchable:
            return cause
        proved = self._with_new_reference(cause, SettingDifference(_DIVISOR, own, other), "A")
        if proved.proved:
            self._own_divisor = str(own)
        else:
            self._course.a.switch(_DIVISOR, own)
        return proved

    def _with_new_reference(self, cause: DepartureCause, found: SettingDifference, side: str) -> DepartureCause:
        """The cause with what was switched on a side, if A, run again, is left later; unchanged if it is not."""
        reference = self._course.run_a()
        then = self._now(reference)
        if not _is_later(then, cause.departure):
            return cause
        self._reference = reference
        return DepartureCause(cause.departure, (found,), True, cause.fixed, then, switched_on=side)


def _is_later(now: ComparedQuantity | None, before: ComparedQuantity) -> bool:
    return now is None or now.position > before.position


def _supposed(setting: SettingDifference) -> SettingDifference:
    """Suppose that a side whose norms cannot be read divides by the other number: only a proof makes it a cause."""
    if setting.name != _DIVISOR:
        return setting
    return replace(setting, a=_OTHER_DIVISOR.get(str(setting.b))) if setting.a is None else setting
