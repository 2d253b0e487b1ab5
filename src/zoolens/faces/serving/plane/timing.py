"""How long a model takes for a batch: first what was measured beforehand, then what is seen while serving. And how
often requests come."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Final

from zoolens.faces.serving.contracts.ladder import LatencyProfile

_WEIGHT: Final = 0.2  # of the newest time
_LEAST_SECONDS: Final = 1e-9
RATE_SECONDS: Final = 1.0  # over which the rate of arrivals is averaged
_LEAST_SEEN: Final = 0.25  # of these: two requests that come together do not mean a thousand a second


class ArrivalRate:
    """Requests per second, averaged over about the last `seconds`. Times are on the monotonic clock.

    Before so much time has passed since the first request, the average is over what has passed, or a quarter of
    `seconds`: an average that begins with nothing would take the first requests of a burst for few. The first one
    begins that time. It says nothing of how often others come, so that the rate is 0 until a second one does.
    """

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._rate = 0.0
        self._seconds = seconds
        self._began: float | None = None
        self._since = 0.0

    def add(self, now: float) -> None:
        """Count a request that arrives now."""
        if self._began is None:
            self._began = self._since = now
            return
        self._rate = self._rate * self._left(now - self._since) + 1 / self._seconds
        self._since = now

    def at(self, now: float) -> float:
        if self._began is None:
            return 0.0
        seen = max(1 - self._left(now - self._began), _LEAST_SEEN)
        return self._rate * self._left(now - self._since) / seen

    def _left(self, seconds: float) -> float:
        """The weight of what happened so long ago."""
        return exp(-seconds / self._seconds)


class Timing:
    """Moving averages of the seconds of a call, by its rows."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds = dict(seconds)
        self._profile: LatencyProfile | None = None

    def add(self, rows: int, seconds: float) -> None:
        known = self._seconds.get(rows)
        self._seconds[rows] = seconds if known is None else known + _WEIGHT * (seconds - known)
        self._profile = None

    def predict(self, rows: int) -> float | None:
        """Predicts the seconds of a call; None: nothing is known yet."""
        known = self._seconds.get(rows)
        if known is not None or not self._seconds:
            return known
        if self._profile is None:
            self._profile = LatencyProfile(self._seconds)
        return self._profile.of(rows)


class ScaledTiming(Timing):
    """Where one kind of call has many sizes, as texts have, what is seen of one size holds for all: how much slower
    than its profile a model is, as a moving average."""

    def __init__(self, profile: LatencyProfile) -> None:
        super().__init__({})
        self._measured = profile
        self._slowness: float | None = None

    def add(self, rows: int, seconds: float) -> None:
        ratio = seconds / max(self._measured.of(rows), _LEAST_SECONDS)
        known = self._slowness
        self._slowness = ratio if known is None else known + _WEIGHT * (ratio - known)

    def predict(self, rows: int) -> float | None:
        return self._measured.of(rows) * (1.0 if self._slowness is None else self._slowness)
