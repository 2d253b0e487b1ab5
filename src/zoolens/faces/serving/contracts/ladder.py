"""A ladder: the models that may answer for a service, from its reference down to the cheapest stand-in."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LatencyProfile:
    """Measured seconds of one call of a model, by batch size. In between it is interpolated, beyond it grows
    by the last slope. `low` and `high`: the interval of each of these seconds, for the sizes of which it is known."""

    seconds: Mapping[int, float]
    low: Mapping[int, float] = field(default_factory=dict)
    high: Mapping[int, float] = field(default_factory=dict)

    def of(self, batch: int) -> float:
        return _interpolated(self.seconds, batch)

    def interval(self, batch: int) -> tuple[float, float]:
        """Between which seconds the time of this batch lies. A size without an interval counts as exact."""
        return _interpolated({**self.seconds, **self.low}, batch), _interpolated({**self.seconds, **self.high}, batch)

    def changed(self, change: Callable[[int, float], float]) -> LatencyProfile:
        """The profile with `change(size, seconds)` instead of each of its times."""
        seconds, low, high = (
            {size: change(size, value) for size, value in times.items()}
            for times in (self.seconds, self.low, self.high)
        )
        return LatencyProfile(seconds, low, high)


def _interpolated(seconds: Mapping[int, float], batch: int) -> float:
    sizes = sorted(seconds)
    if batch in seconds or len(sizes) == 1:
        return seconds[batch] if batch in seconds else seconds[sizes[0]] * batch / sizes[0]
    place = min(max(bisect_left(sizes, batch), 1), len(sizes) - 1)
    low, high = sizes[place - 1], sizes[place]
    slope = (seconds[high] - seconds[low]) / (high - low)
    return max(seconds[low] + slope * (batch - low), 0.0)


@dataclass(frozen=True)
class Rung:
    """One candidate. `equivalence`: share of inputs on which it answers as the reference does, measured on the probes;
    `equivalence_lower`: what the query promises of it. Both are 1 for the reference itself."""

    model: str  # as the catalog names it
    runtime: str
    equivalence: float
    equivalence_lower: float | None
    profile: LatencyProfile
    memory_bytes: int | None = None
    figures: Mapping[str, float] = field(default_factory=dict)  # accuracy, energy and the like, where they are known


@dataclass(frozen=True)
class Ladder:
    """The reference first, then by falling equivalence. A plain model is a ladder of one rung."""

    rungs: tuple[Rung, ...]

    @property
    def reference(self) -> Rung:
        return self.rungs[0]
