"""When to stop: after so many trials, so much time of this call, or so much training in all calls together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.base.errors import ZoolensError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*", re.ASCII)
_LONGEST: Final = 366 * 86400.0


@dataclass(frozen=True)
class Budget:
    """How much a search may use."""

    trials: int | None = None  # in all calls together; None: as many as the plan says
    seconds: float | None = None  # wall time of this call, a slice
    # Time that trials took in all calls together; trials that run at once count each for itself.
    device_seconds: float | None = None

    def __post_init__(self) -> None:
        for what, value in (("trials", self.trials), ("time", self.seconds), ("device time", self.device_seconds)):
            if value is not None and not value > 0:
                raise ZoolensError(f"A budget of {value} {what} allows nothing.", hint="Give more than 0.")

    def refusal(self, elapsed: float, taken: Sequence[float], running: int) -> str | None:
        """Why no further trial may begin; None: it may. A trial is taken to last as long as those before it did on
        average; the first of all is let in untried. `taken`: seconds of each finished trial, `running`: trials now."""
        mean = sum(taken) / len(taken) if taken else 0.0
        if self.seconds is not None and _over(elapsed, mean, self.seconds):
            return _words("slice", self.seconds, elapsed, mean)
        if self.device_seconds is not None and _over(used := sum(taken) + running * mean, mean, self.device_seconds):
            return _words("device time", self.device_seconds, used, mean)
        return None


def _over(used: float, mean: float, limit: float) -> bool:
    return used >= limit or used + mean > limit


def _words(what: str, limit: float, used: float, mean: float) -> str:
    if mean > limit:
        return f"A trial takes {duration(mean)} on average, longer than the whole {what} of {duration(limit)}."
    used_words = f"{duration(used)} of the {what} of {duration(limit)} are used"
    return f"{used_words} and a trial takes {duration(mean)}." if mean else f"{used_words}."


def parse_duration(text: str) -> float:
    """Seconds in "90s", "9m", "1.5h", "1h30m", "200ms"."""
    stripped = text.strip()
    parts, end = [], 0
    while end < len(stripped) and (match := _PART.match(stripped, end)):
        parts.append(match)
        end = match.end()
    if not parts or end != len(stripped):
        raise ZoolensError(f"{text[:60]!r} is no duration.", hint="Write a number with its unit, such as 90s or 1.5h.")
    seconds = sum(float(part[1]) * _SECONDS[part[2]] for part in parts)
    if not 0 < seconds <= _LONGEST:
        raise ZoolensError(f"A duration of {text[:60]} cannot be meant.", hint="Give more than 0 and at most a year.")
    return seconds


def duration(seconds: float) -> str:
    """Writes seconds for a reader: "0.24 s", "42 s", "9 min", "1 h 30 min"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
