"""The policy `latency`: the most equivalent model that answers everybody who waits within the promised time.

Before each batch it predicts, for every tier, when those of the batch would have their answers, and when those behind
them would if the quickest tier took over then: from the queue, the measured seconds of the tiers, and how far the last
batches deviated from those. The most equivalent tier that keeps the promise to all of them answers.

It goes down at once, since a clump of requests comes at any load. It comes back soon, where the rate of arrivals over
the last `hold` seconds leaves the better tier some time to spare; if it then has to go down again at once, it waits
twice as long before the next attempt.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from zoolens.base.present.figures import percent
from zoolens.faces.serving.amounts import Seconds, Share
from zoolens.faces.serving.contracts.ladder import Ladder
from zoolens.faces.serving.policies.batch_times import BatchTimes
from zoolens.faces.serving.policies.policy import PINNED, Choice, Policy, Situation
from zoolens.faces.serving.policies.policy_settings import Settings, read_settings

_SHORTEST_WAIT: Final = 0.25  # times `hold`: how long it stays down at least
_LONGEST_WAIT: Final = 8.0  # times `hold`: how far repeated failures to come back can stretch that
_RATES: Final = 50  # samples of the rate of arrivals within `hold`
_ROUNDING: Final = 0.001  # seconds by which a client's deadline must be shorter than the service's promise to count
_KNOWINGLY: Final = 0.25  # share of the late answers that the percentile allows which may be foreseen
_MEMORY: Final = 500.0  # requests over which the share of late answers is averaged


class LatencySettings(Settings):
    """The settings of the policy `latency`: answers within `target` for `percentile` per cent of the requests."""

    target: Seconds
    percentile: float = Field(default=99.0, gt=0, lt=100)
    margin: Share = 0.8  # share of the time left that a prediction may use
    headroom: Share = 0.75  # how busy a better tier may become if it is to answer again
    hold: Seconds = Field(default=2.0)  # over which the rate of arrivals is averaged for that
    inputs: float = Field(default=1.0, ge=1)  # of a request, until requests have shown it


@dataclass(frozen=True)
class _Batch:
    """The batch that a tier would answer now."""

    rung: int
    size: int
    used: float  # share of its time that the first of the batch, or the last who waits, would need: the worse of both
    used_behind: float  # share of its time that the last who waits would need


class Latency(Policy):
    name = "latency"
    summary = "the most equivalent model that answers within the promised time, predicted from queue and profiles"

    def __init__(self, ladder: Ladder, settings: Mapping[str, Any]) -> None:
        super().__init__(ladder, settings)
        self._set = read_settings(LatencySettings, settings, self.name)
        self._times = BatchTimes(ladder)
        self._rates: deque[tuple[float, float]] = deque()  # (time, rate of arrivals until then)
        self._rate: float | None = None  # the average of these, once somebody has asked for it
        self._level: int | None = None  # the tier that answers those who accept any
        self._inputs_each = self._set.inputs  # of a request, on average of late
        self._late = 0.0  # share of late answers that were foreseen, on average of late
        self._rose_at = self._fell_at = -math.inf
        self._patience = _SHORTEST_WAIT
        self._now = 0.0

    def served(self, rung: int, batch: int, seconds: float) -> None:
        self._times.observe(rung, batch, seconds)

    # --- predictions

    def _quickest(self, usable: list[int], situation: Situation) -> int:
        """The tier that would answer all who wait first."""
        inputs = max(situation.inputs_waiting, situation.waiting)
        return min(usable, key=lambda rung: (self._drained(rung, inputs, situation), rung))

    def _drained(self, rung: int, inputs: int, situation: Situation) -> float:
        return self._times.drained(
            rung, inputs, _unit(situation), max(1, situation.max_batch), max(1, situation.instances)
        )

    def _planned(self, rung: int, usable: list[int], situation: Situation, left: float | None = None) -> _Batch:
        """The best batch for this tier, when the quickest tier answers those behind it. `left`: seconds that the first
        request has."""
        target = self._set.target
        if left is None:
            left = target - situation.oldest_wait
        least = _least(situation)
        size = self._times.best_size(rung, least, max(1, situation.batch), self._set.margin * left)
        seconds = self._times.seconds(rung, size)
        waiting = max(situation.inputs_waiting, situation.waiting)
        # Whole requests: a part of one is nobody who waits.
        coming = round(math.floor(situation.arrival_rate * seconds) * self._inputs_each)
        behind = waiting - size + coming
        used_behind = 0.0
        if behind > 0:
            quickest = self._quickest(usable, situation)
            used_behind = (seconds + self._drained(quickest, behind, situation)) / target
            # Those who wait are taken to have come evenly. Of them the next one has waited longest.
            left_of_next = target - situation.oldest_wait * max(0, waiting - size) / waiting
            next_seconds = seconds + self._times.seconds(quickest, least)
            used_behind = max(used_behind, next_seconds / left_of_next if left_of_next > 0 else math.inf)
        used = seconds / left if left > 0 else math.inf
        return _Batch(rung, size, max(used, used_behind), used_behind)

    def _load(self, rung: int, situation: Situation) -> float:
        """How busy the tier would have been of late, in batches that keep the promise."""
        unit = max(1, round(self._inputs_each))
        limit = self._set.margin * self._set.target
        size = self._times.best_size(rung, unit, max(unit, situation.max_batch), limit)
        inputs = self._recent_rate() * self._inputs_each
        return inputs * self._times.seconds(rung, size) / (size * max(1, situation.instances))

    def _note_rate(self, situation: Situation) -> None:
        self._rate = None
        rates, now = self._rates, situation.now
        if len(rates) > 1 and now - rates[-2][0] < self._set.hold / _RATES:
            # The newest sample stands for the time since the one before.
            rates.pop()
        rates.append((now, situation.arrival_rate))
        while len(rates) > 1 and rates[1][0] <= now - self._set.hold:
            rates.popleft()

    def _recent_rate(self) -> float:
        """Requests per second over the last `hold` seconds; in a service that is younger, since its first request."""
        if self._rate is None:
            self._rate = self._averaged_rate()
        return self._rate

    def _averaged_rate(self) -> float:
        begin = max(self._now - self._set.hold, self._rates[0][0])
        requests = 0.0
        last = begin
        for at, rate in self._rates:
            if at > last:
                requests += rate * (at - last)
                last = at
        return requests / (last - begin) if last > begin else self._rates[-1][1]

    def _keeps(self, batch: _Batch) -> bool:
        return batch.used <= self._set.margin

    def _may_be_late(self, batch: _Batch) -> bool:
        """Whether the percentile leaves room for this batch to be late, while all behind it are still in time. Most of
        the room is kept for what cannot be foreseen."""
        room = _KNOWINGLY * (1 - self._set.percentile / 100)
        return batch.used_behind <= self._set.margin and self._late + self._requests(batch) / _MEMORY <= room

    # --- the choice

    def choose(self, situation: Situation) -> Choice:
        self._now = self._times.now = situation.now
        self._inputs_each += 0.1 * (_unit(situation) - self._inputs_each)
        self._note_rate(situation)
        usable = sorted(situation.loaded & situation.allowed) or sorted(situation.allowed)
        # Also the first choice on a ladder that was refreshed.
        if self._level is None:
            self._level = situation.current if situation.current in usable else usable[0]
        restricted = len(situation.allowed) < len(self.ladder.rungs)
        if restricted and self._level not in situation.allowed:
            return self._among_allowed(usable, situation)
        batch, reason = self._step(self._level, usable, situation)
        if not restricted:
            self._remember(self._level, batch)
        promised = self._set.target - situation.oldest_wait
        if situation.time_left is not None and 0 < situation.time_left < promised - _ROUNDING:
            batch, reason = self._for_hurried(batch, reason, usable, situation, situation.time_left)
        return Choice(batch.rung, reason, self._likely_next(batch.rung, situation), batch.size)

    def _step(self, level: int, usable: list[int], situation: Situation) -> tuple[_Batch, str]:
        better = self._back(level, usable, situation)
        if better is not None:
            return better, (
                f"{self._name(better.rung)} would be {percent(self._load(better.rung, situation), 0)} busy at "
                f"{self._recent_rate():.4g} requests/s and keeps {self._promise}."
            )
        for rung in usable:
            if rung < level:
                continue
            batch = self._planned(rung, usable, situation)
            if rung == level and self._keeps(batch):
                return batch, f"{self._name(level)} keeps {self._promise}."
            if rung == level and self._may_be_late(batch):
                return batch, f"{self._name(level)} keeps {self._promise} for all others."
            if self._keeps(batch):
                return batch, self._why_down(level, rung, usable, situation)
        nearest = self._nearest(usable, situation)
        reason = f"No loaded model would answer all who wait within {self._promise}; "
        reason += "none is quicker." if nearest.rung == level else f"{self._name(nearest.rung)} comes nearest."
        return nearest, reason

    def _back(self, level: int, usable: list[int], situation: Situation) -> _Batch | None:
        """The batch of a better tier that may answer again."""
        if self._now - self._fell_at < self._patience * self._set.hold:
            return None
        for rung in usable:
            if rung >= level:
                break
            batch = self._planned(rung, usable, situation)
            spare = self._set.headroom * self._set.margin
            if batch.used <= spare and self._load(rung, situation) <= self._set.headroom:
                return batch
            # The profile of a tier that has not answered yet may be wrong: a single request tries it.
            if not self._times.is_observed(rung) and situation.waiting == 1 and self._may_be_late(batch):
                return batch
        return None

    def _nearest(self, usable: list[int], situation: Situation) -> _Batch:
        """Where no tier keeps the promise: a batch of the one that answers all who wait first."""
        quickest = self._quickest(usable, situation)
        least = _least(situation)
        size = self._times.best_size(quickest, least, max(1, situation.batch))
        return _Batch(quickest, size, math.inf, math.inf)

    def _for_hurried(
        self, chosen: _Batch, reason: str, usable: list[int], situation: Situation, left: float
    ) -> tuple[_Batch, str]:
        """For a client with a shorter deadline than the service promises: this batch alone, so that one hurried client
        does not lower the answers of all others."""
        if self._times.seconds(chosen.rung, chosen.size) <= self._set.margin * left:
            return chosen, reason
        reason = f"The client's own deadline leaves {_ms(left)}."
        for rung in usable:
            if rung > chosen.rung:
                batch = self._planned(rung, usable, situation, left)
                if self._keeps(batch):
                    return batch, reason
        return self._nearest(usable, situation), reason

    def _among_allowed(self, usable: list[int], situation: Situation) -> Choice:
        """For requests that do not accept the present tier: it stays what it is for all others."""
        planned = (self._planned(rung, usable, situation) for rung in usable)
        keeping = next((batch for batch in planned if self._keeps(batch)), None)
        batch = keeping or self._nearest(usable, situation)
        return Choice(batch.rung, PINNED, batch=batch.size)

    def _remember(self, before: int, batch: _Batch) -> None:
        weight = min(1.0, self._requests(batch) / _MEMORY)
        self._late += weight * (float(batch.used > self._set.margin) - self._late)
        self._level = batch.rung
        if batch.rung < before:
            self._rose_at = self._now
        elif batch.rung > before:
            soon = self._now - self._rose_at < self._patience * self._set.hold
            self._patience = min(2 * self._patience, _LONGEST_WAIT) if soon else _SHORTEST_WAIT
            self._fell_at = self._now

    def _likely_next(self, rung: int, situation: Situation) -> tuple[int, ...]:
        """The neighbours, and the quickest of all for a burst; the next one down first."""
        last = len(self.ladder.rungs) - 1
        if len(situation.loaded) > last:
            return ()
        largest = max(1, situation.max_batch)
        quickest = min(range(last + 1), key=lambda place: (self._times.profiled(place, largest), place))
        likely = dict.fromkeys((rung + 1, quickest, rung - 1))
        existing = [place for place in likely if 0 <= place <= last]
        return tuple(place for place in existing if place not in situation.loaded)

    def _why_down(self, level: int, chosen: int, usable: list[int], situation: Situation) -> str:
        # Finite: where no time is left, no tier keeps the promise.
        used = self._planned(level, usable, situation).used
        return (
            f"With {situation.waiting} waiting, {self._name(level)} would use {percent(used, 0)} of the time left; "
            f"{self._name(chosen)} keeps {self._promise}."
        )

    def _requests(self, batch: _Batch) -> float:
        return batch.size / self._inputs_each

    @property
    def _promise(self) -> str:
        return _ms(self._set.target)

    def _name(self, rung: int) -> str:
        return self.ladder.rungs[rung].model


def _unit(situation: Situation) -> int:
    """Inputs of a request: no batch can be smaller."""
    return max(1, round(situation.inputs_waiting / max(1, situation.waiting)))


def _least(situation: Situation) -> int:
    """Inputs of the smallest batch that can be answered now."""
    return max(min(_unit(situation), max(1, situation.batch)), situation.first)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
