"""The policy `latency`: the most equivalent model that answers everybody who waits within the promised time.

Before each batch it predicts, for every rung, when the first and the last of those who wait would have their answers:
from the queue, the measured seconds of the rung, and how far the last batches deviated from those. It goes down at
once. It comes back only after the better rung would have kept the promise for some time, at the present rate of
arrivals and with room to spare; if it then has to go down again soon, it waits twice as long before the next attempt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from pydantic import Field

from zoolens.serving.amounts import Seconds, Share
from zoolens.serving.ladder import Ladder
from zoolens.serving.policies.base import Choice, Policy, Situation
from zoolens.serving.policies.settings import Settings, read_settings

_LONGEST_HOLD: Final = 8  # times the setting: how far repeated failures to come back can stretch it
_STEP: Final = 4.0  # a batch counts as at most so many times as slow as the ones before: one hiccup proves little
_ROUNDING: Final = 0.001  # seconds by which a client's deadline must be shorter than the service's promise to count
_FORGET: Final = 4.0  # seconds in which a rung's deviation from its profile is halved while nobody asks it


class LatencySettings(Settings):
    """`target`: answers within so many seconds. `margin`: share of the time left that a prediction may use.
    `headroom`: how busy a better rung may become at the present rate of arrivals. `hold`: for how long it must have
    kept the promise on paper before it answers again."""

    target: Seconds
    margin: Share = 0.8
    headroom: Share = 0.75
    hold: Seconds = Field(default=2.0)


class Latency(Policy):
    name = "latency"
    summary = "the most equivalent model that answers within the promised time, predicted from queue and profiles"

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        super().__init__(ladder, settings)
        self._set = read_settings(LatencySettings, settings, self.name)
        self._profile: dict[tuple[int, int], float] = {}  # seconds by rung and batch size
        self._slowness = [1.0] * len(ladder.rungs)  # observed seconds / profiled seconds, of late
        self._judged_at = [0.0] * len(ladder.rungs)
        self._good_since: list[float | None] = [None] * len(ladder.rungs)
        self._level: int | None = None  # the rung that answers those who accept any
        self._inputs_each = 1.0  # of a request, on average of late
        self._rose_at = -math.inf
        self._patience = 1.0
        self._now = 0.0

    # --- what a batch takes

    def served(self, rung: int, batch: int, seconds: float) -> None:
        """Believe a slower batch at once and a faster one slowly: the promise is about the slow ones."""
        known = self._slowness_now(rung)
        ratio = min(seconds / max(self._profiled(rung, batch), 1e-9), _STEP * max(known, 1.0))
        self._slowness[rung] = known + (0.5 if ratio > known else 0.1) * (ratio - known)
        self._judged_at[rung] = self._now

    def _seconds(self, rung: int, batch: int) -> float:
        """What a batch would take now."""
        return self._profiled(rung, batch) * self._slowness_now(rung)

    def _slowness_now(self, rung: int) -> float:
        """Observed / profiled seconds. Of a rung that has not answered for long, the profile is believed again:
        otherwise one that was slow once would never be tried any more."""
        left = math.exp2(-max(0.0, self._now - self._judged_at[rung]) / _FORGET)
        return 1.0 + (self._slowness[rung] - 1.0) * left

    def _profiled(self, rung: int, batch: int) -> float:
        known = self._profile.get((rung, batch))
        if known is None:
            known = self._profile[rung, batch] = self.ladder.rungs[rung].profile.of(batch)
        return known

    # --- predictions

    def _used(self, rung: int, situation: Situation) -> float:
        """Which share of their time the first and the last of those who wait would have used up, the worse of both."""
        left = self._set.target - situation.oldest_wait
        first = self._ready(rung, situation) / left if left > 0 else math.inf
        return max(first, self._drained(rung, situation) / self._set.target)

    def _ready(self, rung: int, situation: Situation) -> float:
        """Seconds until the next batch is answered."""
        return self._seconds(rung, max(1, situation.batch))

    def _drained(self, rung: int, situation: Situation) -> float:
        """Seconds until all who wait now are answered."""
        behind = max(0, max(situation.inputs_waiting, situation.waiting) - situation.batch)
        largest = max(1, situation.max_batch, situation.batch)
        rounds = math.ceil(behind / (largest * max(1, situation.instances)))
        return self._ready(rung, situation) + (rounds * self._seconds(rung, largest) if rounds else 0.0)

    def _load(self, rung: int, situation: Situation) -> float:
        """How busy the rung would be at the present rate of arrivals, with batches as large as they may be."""
        largest = max(1, situation.max_batch)
        inputs = situation.arrival_rate * self._inputs_each
        return inputs * self._seconds(rung, largest) / (largest * max(1, situation.instances))

    # --- the choice

    def choose(self, situation: Situation) -> Choice:
        idle = situation.now - self._now if self._level is not None else 0.0
        self._now = situation.now
        if situation.waiting and situation.inputs_waiting > situation.waiting:
            self._inputs_each += 0.1 * (situation.inputs_waiting / situation.waiting - self._inputs_each)
        else:
            self._inputs_each += 0.1 * (1.0 - self._inputs_each)
        usable = sorted(situation.loaded & situation.allowed) or sorted(situation.allowed)
        if self._level is None:  # also the first choice on a ladder that was refreshed
            self._level = situation.current if situation.current in usable else usable[0]
        self._watch_better_rungs(situation, idle)
        level = self._level
        restricted = len(situation.allowed) < len(self.ladder.rungs)
        if restricted and level not in situation.allowed:
            return self._among_allowed(usable, situation)
        chosen, reason = self._step(level, usable, situation)
        if not restricted:
            self._remember(level, chosen)
        promised = self._set.target - situation.oldest_wait
        if situation.time_left is not None and 0 < situation.time_left < promised - _ROUNDING:
            chosen, reason = self._for_hurried(chosen, reason, usable, situation, situation.time_left)
        return Choice(chosen, reason, self._likely_next(chosen, situation))

    def _step(self, level: int, usable: list[int], situation: Situation) -> tuple[int, str]:
        better = [rung for rung in usable if rung < level and self._ready_to_rise(rung)]
        if better:
            rung = better[0]
            return rung, (
                f"{self._name(rung)} would have kept {_ms(self._set.target)} for {self._hold:.3g} s "
                f"at {situation.arrival_rate:.4g} requests/s."
            )
        if level in usable and self._used(level, situation) <= self._set.margin:
            return level, f"{self._name(level)} keeps {_ms(self._set.target)}."
        below = [rung for rung in usable if rung > level] if level in usable else usable
        keeping = [rung for rung in below if self._used(rung, situation) <= self._set.margin]
        if keeping:
            return keeping[0], self._why_down(level, keeping[0], situation)
        quickest = self._quickest(usable, situation)
        if quickest == level:
            return level, f"No loaded model would answer all who wait within {_ms(self._set.target)}; none is quicker."
        return quickest, (
            f"No loaded model would answer all who wait within {_ms(self._set.target)}; "
            f"{self._name(quickest)} comes nearest."
        )

    def _quickest(self, usable: list[int], situation: Situation) -> int:
        return min(usable, key=lambda rung: (self._drained(rung, situation), rung))

    def _for_hurried(
        self, chosen: int, reason: str, usable: list[int], situation: Situation, left: float
    ) -> tuple[int, str]:
        """For a client with a shorter deadline than the service promises: this batch alone, so that one hurried client
        does not lower the answers of all others."""
        keeping = [rung for rung in usable if self._ready(rung, situation) <= self._set.margin * left]
        if chosen in keeping:
            return chosen, reason
        below = [rung for rung in keeping if rung > chosen]
        rung = below[0] if below else self._quickest(usable, situation)
        return rung, f"The client's own deadline leaves {_ms(left)}."

    def _among_allowed(self, usable: list[int], situation: Situation) -> Choice:
        """For requests that do not accept the present rung: it stays what it is for all others."""
        keeping = [rung for rung in usable if self._used(rung, situation) <= self._set.margin]
        rung = keeping[0] if keeping else self._quickest(usable, situation)
        return Choice(rung, "The client pinned a model or set a minimum equivalence.")

    def _watch_better_rungs(self, situation: Situation, idle: float) -> None:
        """Note since when each rung above the present one would have kept the promise with room to spare."""
        level = self._level or 0
        quiet_since = situation.now - idle if idle >= self._hold else None  # nobody asked, so anyone would have done
        for rung in range(level):
            good = (
                self._used(rung, situation) <= self._set.margin * self._set.headroom
                and self._load(rung, situation) <= self._set.headroom
            )
            since = self._good_since[rung] if quiet_since is None else quiet_since
            self._good_since[rung] = (situation.now if since is None else since) if good else None

    def _ready_to_rise(self, rung: int) -> bool:
        since = self._good_since[rung]
        return since is not None and self._now - since >= self._hold

    @property
    def _hold(self) -> float:
        return self._set.hold * self._patience

    def _remember(self, before: int, chosen: int) -> None:
        self._level = chosen
        if chosen < before:
            self._rose_at = self._now
        elif chosen > before:
            soon = self._now - self._rose_at < 2 * self._hold
            self._patience = min(2 * self._patience, _LONGEST_HOLD) if soon else 1.0
            self._good_since = [None] * len(self.ladder.rungs)

    def _likely_next(self, rung: int, situation: Situation) -> tuple[int, ...]:
        """The neighbours, and the quickest of all for a burst; the next one down first."""
        last = len(self.ladder.rungs) - 1
        largest = max(1, situation.max_batch)
        quickest = min(range(last + 1), key=lambda place: (self._profiled(place, largest), place))
        wanted = dict.fromkeys(place for place in (rung + 1, quickest, rung - 1) if 0 <= place <= last)
        return tuple(place for place in wanted if place not in situation.loaded)

    def _why_down(self, level: int, chosen: int, situation: Situation) -> str:
        used = self._used(level, situation)
        needs = f"would use {used:.0%} of the time left" if math.isfinite(used) else "would be late"
        return (
            f"With {situation.waiting} waiting, {self._name(level)} {needs}; "
            f"{self._name(chosen)} keeps {_ms(self._set.target)}."
        )

    def _name(self, rung: int) -> str:
        return self.ladder.rungs[rung].model


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
