"""The causes of a lockstep's departures in order, until B trains like A or nothing explains what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.live.live_training import NotSwitchable, Setting
from zoolens.training.pairs.lockstep.departures import Captures, Departure, PairedSteps
from zoolens.training.pairs.lockstep.floors import MORE_RUNS, RUNS
from zoolens.training.pairs.lockstep.setting_causes import DepartureCause, Switched, find_cause

MARGIN: Final = 4.0  # floors by which B may be beyond and is not accused, where nothing explains it
_MOST_CAUSES: Final = 12  # each takes several runs of B; two sides with more are not meant to train alike
_DIVISOR: Final = "norm.divisor"
BIASES: Final = "recurrent.biases"
_OTHER_DIVISOR: Final = {"n": "n - 1", "n - 1": "n"}


class CauseSearch:
    """`causes`: in order, the last one may be unproved. `doubtful`: the first departure that was taken for rounding
    though it is beyond its floor. `always`: settings that every run of B has."""

    def __init__(
        self,
        course: PairedSteps,
        reference: Captures,
        always: Mapping[str, Setting],
        known: Sequence[SettingDifference],
    ) -> None:
        self.causes: list[DepartureCause] = []
        self.doubtful: Departure | None = None
        self._course, self._reference = course, reference
        self._read = {setting.name: setting for setting in known}
        self._known = [_supposed(setting) for setting in known]
        self._switched = Switched(course.b, self._known, always)
        self._widened = False
        self._own_divisor: str | None = None  # of A, where it was given the other

    def run(self) -> None:
        try:
            while len(self.causes) < _MOST_CAUSES and self._next():
                pass
        finally:
            self._switched.set(())
            if self._own_divisor is not None:
                self._course.a.switch(_DIVISOR, self._own_divisor)

    def _next(self) -> bool:
        """Find the next cause; whether there may be another behind it."""
        departure = self._departure()
        if departure is None:
            if self.causes:  # what departed behind the last cause was rounding, as the floors have it by now
                self.causes[-1] = replace(self.causes[-1], then=None)
            return False
        cause = find_cause(self._course, self._reference, departure, self._switched, self._known)
        if not cause.proved:
            cause = replace(cause, differences=tuple(self._read[setting.name] for setting in cause.differences))
        if not cause.proved and departure.kind == "statistic":
            cause = self._divided_otherwise(cause)
        if not cause.proved:
            cause = self._learned_twice(cause)
        if not cause.proved and not self._widened:  # before B is accused of what nothing explains
            self._course.measure_floors(self._reference, "a", range(RUNS, MORE_RUNS))
            self._widened = True
        elif not cause.proved and self.doubtful is None and departure.apart.error <= MARGIN * departure.floor:
            self._course.margin, self.doubtful = MARGIN, departure
        else:
            self.causes.append(cause)
            return cause.proved
        return True

    def _departure(self) -> Departure | None:
        return self._course.compared(self._reference, self._course.run_b()).departure

    def _learned_twice(self, cause: DepartureCause) -> DepartureCause:
        """Try what happens if second biases of recurrent gates are not learned. Two that add up get the same gradient
        each, so that their sum moves twice as far as the one bias of the other side."""
        side = self._course.second_biases
        if not side or self._course.single_biases:
            return cause
        self._course.single_biases = True
        reference = self._course.run_a()
        then = self._course.compared(reference, self._course.run_b()).departure
        if then is not None and then.position <= cause.departure.position:
            self._course.single_biases = False
            return cause
        self._reference = reference
        found = (SettingDifference(BIASES, 2 if side == "A" else 1, 2 if side == "B" else 1),)
        return DepartureCause(cause.departure, found, True, cause.fixed, then, switched_on=side)

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
        reference = self._course.run_a()
        then = self._course.compared(reference, self._course.run_b()).departure
        if then is not None and then.position <= cause.departure.position:
            self._course.a.switch(_DIVISOR, own)
            return cause
        self._own_divisor, self._reference = str(own), reference
        found = (SettingDifference(_DIVISOR, own, other),)
        return DepartureCause(cause.departure, found, True, cause.fixed, then, switched_on="A")


def _supposed(setting: SettingDifference) -> SettingDifference:
    """Suppose that a side whose norms cannot be read divides by the other number: only a proof makes it a cause."""
    if setting.name != _DIVISOR:
        return setting
    return replace(setting, a=_OTHER_DIVISOR.get(str(setting.b))) if setting.a is None else setting
