"""A ladder: the models that may answer for a service, from its reference down to the cheapest fallback."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class LatencyProfile:
    """Measured latency of one call of a model, by batch size.

    It is interpolated between the measured sizes, and extrapolated by the last slope.
    """

    seconds: Mapping[int, float]  # by batch size
    low: Mapping[int, float] = field(default_factory=dict)  # lower confidence bounds, for the sizes that have one
    high: Mapping[int, float] = field(default_factory=dict)
    measured: datetime | None = field(default=None, compare=False)  # the oldest of them, where that is known

    def of(self, batch: int) -> float:
        return _interpolated(self.seconds, batch)

    def interval(self, batch: int) -> tuple[float, float]:
        """Between which seconds the time of this batch lies. A size without an interval counts as exact."""
        low = _interpolated({**self.seconds, **self.low}, batch)
        high = _interpolated({**self.seconds, **self.high}, batch)
        return low, high

    def changed(self, change: Callable[[int, float], float]) -> LatencyProfile:
        """The profile with `change(size, seconds)` instead of each of its times."""

        def each(times: Mapping[int, float]) -> dict[int, float]:
            return {size: change(size, value) for size, value in times.items()}

        return LatencyProfile(each(self.seconds), each(self.low), each(self.high), self.measured)


def _interpolated(seconds: Mapping[int, float], batch: int) -> float:
    if batch in seconds:
        return seconds[batch]
    sizes = sorted(seconds)
    if len(sizes) == 1:
        only = sizes[0]
        return seconds[only] * batch / only
    # The neighbours of the size, or the last two sizes on the side where there is no further one.
    place = bisect_left(sizes, batch)
    place = min(max(place, 1), len(sizes) - 1)
    low, high = sizes[place - 1], sizes[place]
    slope = (seconds[high] - seconds[low]) / (high - low)
    return max(seconds[low] + slope * (batch - low), 0.0)


@dataclass(frozen=True)
class Rung:
    """One tier of a ladder: a model in one runtime. The reference is the first, the others are its fallbacks."""

    model: str  # as the catalog names it
    runtime: str
    # Share of the probes on which it answers as the reference does, or mean agreement of answers that agree in part; 1
    # for the reference itself
    equivalence: float
    equivalence_lower: float | None  # what is promised of it, a lower bound; 1 for the reference itself
    profile: LatencyProfile
    memory_bytes: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)  # accuracy, energy and the like, where they are known
    # What `equivalence` is at least, where too little is kept of answers to know it; None: it is known exactly.
    equivalence_least: float | None = None

    @property
    def promised(self) -> float:
        """The equivalence that floors and alarms hold it to."""
        if self.equivalence_lower is not None:
            return self.equivalence_lower
        return self.known_equivalence

    @property
    def known_equivalence(self) -> float:
        """What was measured, or the least that it can be."""
        return self.equivalence if self.equivalence_least is None else self.equivalence_least


@dataclass(frozen=True)
class Ladder:
    """The reference first, then its fallback tiers by falling equivalence. A plain model is a ladder of one tier."""

    rungs: tuple[Rung, ...]

    @property
    def reference(self) -> Rung:
        return self.rungs[0]
