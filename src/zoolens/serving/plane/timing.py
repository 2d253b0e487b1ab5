"""How long a model takes for a batch: first what was measured beforehand, then what is seen while serving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zoolens.serving.ladder import Profile

_WEIGHT: Final = 0.2  # of the newest time


class Timing:
    """Moving averages of the seconds of a call, by its rows."""

    def __init__(self, seconds: Mapping[int, float]) -> None:
        self._seconds = dict(seconds)
        self._profile: Profile | None = None

    def add(self, rows: int, seconds: float) -> None:
        known = self._seconds.get(rows)
        self._seconds[rows] = seconds if known is None else known + _WEIGHT * (seconds - known)
        self._profile = None

    def predict(self, rows: int) -> float | None:
        """None: nothing is known yet."""
        known = self._seconds.get(rows)
        if known is not None or not self._seconds:
            return known
        if self._profile is None:
            self._profile = Profile(self._seconds)
        return self._profile.of(rows)
