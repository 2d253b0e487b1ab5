"""The policy `time-of-day`: how equivalent answers must be by the clock, by the charge of a battery, or by a budget.

Each rule gives a least equivalence (`within`) while it holds; then the cheapest model that keeps it answers. Where
several rules hold, the lowest of their thresholds counts; where none holds, the reference answers. What a model costs
is its energy for one input where that was measured for every tier, otherwise its seconds for one input.

A budget is spent evenly over its period: the most equivalent model is used whose cost, at the present rate of arrivals,
lasts until the period ends.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from datetime import time as clock_time
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, field_validator, model_validator

from zoolens.base.errors import ZoolensError
from zoolens.base.present.figures import percent
from zoolens.faces.serving.amounts import Seconds, Share
from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.policies.policy import LOADING, PINNED, Choice, Policy, Situation
from zoolens.faces.serving.policies.policy_settings import Settings, read_settings

ENERGY: Final = "energy"  # joules for one input, in the figures of a tier
_POWER_SUPPLIES: Final = Path("/sys/class/power_supply")


class DayWindow(Settings):
    """From a time of the day until another, in the server's local time; it may pass midnight."""

    start: str
    end: str
    within: Share

    @field_validator("start", "end")
    @classmethod
    def _is_clock(cls, text: str) -> str:
        try:
            clock_time.fromisoformat(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is not a time of the day such as 22:30") from error
        return text

    def holds(self, now: clock_time) -> bool:
        start = clock_time.fromisoformat(self.start)
        end = clock_time.fromisoformat(self.end)
        if start <= end:
            return start <= now < end
        return now >= start or now < end


class Charge(Settings):
    """While the battery has less than this share of its charge and is not being charged."""

    below: Share
    within: Share


class Budget(Settings):
    """A budget of joules, or of seconds of computing, in each period."""

    amount: float = Field(gt=0, allow_inf_nan=False)
    unit: Literal["J", "s"]
    per: Seconds


class TimeOfDaySettings(Settings):
    """The settings of the policy `time-of-day`."""

    windows: tuple[DayWindow, ...] = ()
    battery: tuple[Charge, ...] = ()
    # Holds the charge in per cent, as Linux writes it; by default the machine's first battery
    battery_file: str | None = None
    battery_every: Seconds = 10.0
    budget: Budget | None = None
    hold: Seconds = 5.0  # before a better model comes back: a figure close to its limit would flap

    @model_validator(mode="after")
    def _some_rule(self) -> TimeOfDaySettings:
        if not (self.windows or self.battery or self.budget):
            raise ValueError("give windows, battery or budget")
        return self


class TimeOfDay(Policy):
    name = "time-of-day"
    summary = "cheaper models at certain hours, on a low battery, or to stay within an energy or time budget"

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        super().__init__(ladder, settings)
        self._set = read_settings(TimeOfDaySettings, settings, self.name)
        known = all(ENERGY in rung.figures for rung in ladder.rungs)
        if self._set.budget is not None and self._set.budget.unit == "J" and not known:
            raise ZoolensError(
                "A budget in joules needs the energy of every tier, which was not measured here.",
                hint="Give the budget in seconds of computing (unit: s), or measure on a machine with energy counters.",
            )
        in_joules = known if self._set.budget is None else self._set.budget.unit == "J"
        self._costs = [
            rung.figures[ENERGY] if in_joules else rung.profile.of(1) for rung in ladder.rungs
        ]  # for one input
        self._battery = Battery(self._set.battery_file, self._set.battery_every) if self._set.battery else None
        self._spent = 0.0
        self._inputs_each = 1.0  # of a request, on average of late
        self._period_ends: float | None = None
        self._level: int | None = None
        self._better_since: float | None = None

    @property
    def saves_work(self) -> bool:
        return self._set.budget is not None or bool(self._set.battery)

    def close(self) -> None:
        if self._battery is not None:
            self._battery.close()

    def served(self, rung: int, batch: int, seconds: float) -> None:
        budget = self._set.budget
        if budget is not None:
            self._spent += seconds if budget.unit == "s" else self._costs[rung] * batch

    def choose(self, situation: Situation) -> Choice:
        usable = sorted(situation.loaded & situation.allowed) or sorted(situation.allowed)
        if self._level is None:
            self._level = situation.current
            self._better_since = situation.now - self._set.hold  # nothing is known of before: it may change at once
        wanted, reason = self._held(*self._wanted(situation), situation.now)
        if wanted in usable:
            return Choice(wanted, reason)
        if wanted in situation.allowed:
            nearest = min(usable, key=lambda rung: (abs(rung - wanted), rung))
            return Choice(nearest, f"{reason} {LOADING}", (wanted,))
        return Choice(usable[0], PINNED)

    def _held(self, wanted: int, reason: str, now: float) -> tuple[int, str]:
        """Go down at once, and up only when that has been right for some time."""
        level = wanted if self._level is None else self._level
        if wanted >= level:
            self._better_since = None
        elif self._better_since is None:
            self._better_since = now
        if wanted < level and self._better_since is not None and now - self._better_since < self._set.hold:
            return (
                level,
                f"{self._name(level)} stays until a better one has been affordable for {self._set.hold:.3g} s.",
            )
        self._level = wanted
        return wanted, reason

    def _wanted(self, situation: Situation) -> tuple[int, str]:
        within, reason = self._threshold(situation)
        rungs = self.ladder.rungs
        enough = [place for place, rung in enumerate(rungs) if place == 0 or rung.known_equivalence >= within]
        by_rule = 0 if within > 1 else min(enough, key=lambda place: (self._costs[place], place))
        if self._set.budget is None:
            return by_rule, reason
        by_budget, why = self._within_budget(self._set.budget, situation)
        if self._costs[by_budget] < self._costs[by_rule]:
            return by_budget, why
        return by_rule, reason if self._set.windows or self._set.battery else why

    def _threshold(self, situation: Situation) -> tuple[float, str]:
        """The lowest threshold of the rules that hold, and the sentence about it; above 1 where none holds."""
        now = datetime.fromtimestamp(situation.wall).time()
        rules = [
            (window.within, f"It is between {window.start} and {window.end}: {window.within:.4g} is equivalent enough.")
            for window in self._set.windows
            if window.holds(now)
        ]
        charge = self._battery.charge if self._battery is not None else None
        rules += [
            (rule.within, f"The battery has {percent(charge, 0)}: {rule.within:.4g} is equivalent enough.")
            for rule in self._set.battery
            if charge is not None and charge < rule.below
        ]
        if rules:
            return min(rules)
        unknown = " The charge of the battery is not known." if self._battery is not None and charge is None else ""
        return 2.0, f"No rule asks for a cheaper model.{unknown}"

    def _within_budget(self, budget: Budget, situation: Situation) -> tuple[int, str]:
        if self._period_ends is None or situation.now >= self._period_ends:
            self._period_ends, self._spent = situation.now + budget.per, 0.0
        left = max(0.0, budget.amount - self._spent)
        # What may be spent in a second until the period ends.
        pace = left / (self._period_ends - situation.now)
        rungs = range(len(self.ladder.rungs))
        each = max(situation.inputs_waiting, situation.waiting, 1) / max(situation.waiting, 1)
        self._inputs_each += 0.1 * (each - self._inputs_each)
        inputs = situation.arrival_rate * self._inputs_each
        of_all = f"{left:.3g} of {budget.amount:.3g} {budget.unit} are left"
        lasting = [rung for rung in rungs if inputs * self._costs[rung] <= pace]
        if lasting:
            best = lasting[0]
            return best, f"{of_all}: at {situation.arrival_rate:.3g} requests/s they last with {self._name(best)}."
        cheapest = min(rungs, key=lambda rung: (self._costs[rung], rung))
        return cheapest, f"{of_all}, which do not last with any model; {self._name(cheapest)} is the cheapest."

    def _name(self, rung: int) -> str:
        return self.ladder.rungs[rung].model


class Battery:
    """The charge of the battery from 0 to 1, read by a thread in the background so that nobody waits for it.

    None: there is no battery, it cannot be read, or it is being charged.
    """

    def __init__(self, file: str | None, every: float) -> None:
        self._file = Path(file) if file is not None else None
        self._ended = threading.Event()
        self.charge = self._read()
        threading.Thread(target=self._watch, args=(every,), daemon=True, name="zoolens-battery").start()

    def close(self) -> None:
        self._ended.set()

    def _watch(self, every: float) -> None:
        while not self._ended.wait(every):
            self.charge = self._read()

    def _read(self) -> float | None:
        file = self._file or next(iter(sorted(_POWER_SUPPLIES.glob("BAT*/capacity"))), None)
        if file is None:
            return None
        try:
            if self._file is None and (file.parent / "status").read_text().strip() in ("Charging", "Full"):
                return None
            return min(1.0, max(0.0, float(file.read_text()) / 100))
        except (OSError, ValueError):
            return None
