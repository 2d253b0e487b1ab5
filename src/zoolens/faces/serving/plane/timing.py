"""How long a model takes for a batch: first what was measured beforehand, then what is seen while serving. And how
often requests come."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import exp
from typing import Final

from zoolens.faces.serving.contracts.ladder import LatencyProfile

_WEIGHT: Final = 0.2  # of the newest time
RATE_SECONDS: Final = 1.0  # over which the rate of arrivals is averaged


class ArrivalRate:
    """Requests per second, averaged over about the last `seconds`. Times are on the monotonic clock."""

    def __init__(self, seconds: float = RATE_SECONDS) -> None:
        self._rate = 0.0
        self._seconds = seconds
        self._since = time.monotonic()

    def add(self, now: float) -> None:
        """Count a request that arrives now."""
        self._rate = self._rate * exp(-(now - self._since) / self._seconds) + 1 / self._seconds
        self._since = now

    def at(self, now: float) -> float:
        return self._rate * exp(-(now - self._since) / self._seconds)


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
