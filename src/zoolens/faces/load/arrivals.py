"""When requests are meant to be sent, decided before the first one goes out.

An open loop sends each request at its intended time whether or not earlier ones were answered, as independent users do.
All patterns are drawn from a seed, so that two servers can be given exactly the same load.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.safety.untrusted import read_text

if TYPE_CHECKING:
    from zoolens.base.store.store import Store

MOST_REQUESTS: Final = 10_000_000
LONGEST: Final = 7 * 24 * 3600.0  # seconds
MOST_TRACE_BYTES: Final = 1 << 28
UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
TIME_COLUMNS: Final = ("time", "timestamp", "arrival", "start", "date")

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Arrivals:
    """When the requests of an open loop are sent."""

    times: Seconds  # after the start, ascending, all below `duration`
    duration: float  # seconds
    pattern: str  # in words, for the report

    def __len__(self) -> int:
        return len(self.times)

    @property
    def rate(self) -> float:
        """Requests per second over the whole run."""
        return len(self.times) / self.duration


def constant(rate: float, duration: float) -> Arrivals:
    """Evenly spaced requests. A machine sends like this, people do not."""
    _check(rate, duration)
    times = np.arange(math.floor(rate * duration), dtype=np.float64) / rate
    return _checked(times, duration, f"constant, {rate:g} requests/s")


def poisson(rate: float, duration: float, seed: int = 0) -> Arrivals:
    """Independent users: exponential gaps with the mean 1 / rate."""
    return varying([(duration, rate)], seed, f"Poisson, {rate:g} requests/s")


def burst(
    rate: float,
    duration: float,
    *,
    factor: float = 3.0,
    start: float | None = None,
    length: float | None = None,
    seed: int = 0,
) -> Arrivals:
    """A Poisson stream whose rate is `factor` times as high from `start` on, for `length` seconds.

    Unless told otherwise, the burst is the second third of the run.
    """
    start = duration / 3 if start is None else start
    length = duration / 3 if length is None else length
    if not (start >= 0 and length > 0 and start + length <= duration):
        raise ZoolensError(
            f"A burst from {start:g} s on for {length:g} s does not lie within a run of {duration:g} s.",
            hint="Choose an earlier start, a shorter burst or a longer run.",
        )
    if not (factor > 0 and math.isfinite(factor)):
        raise ZoolensError(f"A burst cannot be {factor:g} times the usual rate.", hint="Give a positive factor.")
    end, high = start + length, rate * factor
    parts = [(start, rate), (length, high), (duration - start - length, rate)]
    words = f"Poisson, {rate:g} requests/s, {high:g} from {start:g} s to {end:g} s"
    return varying([part for part in parts if part[0] > 0], seed, words)


def varying(parts: Sequence[tuple[float, float]], seed: int, pattern: str) -> Arrivals:
    """A Poisson stream in parts of (seconds, requests per second)."""
    duration = math.fsum(length for length, _ in parts)
    for length, rate in parts:
        _check(rate, length)
    _check_count(math.fsum(length * rate for length, rate in parts))
    random = np.random.default_rng(seed)
    pieces, begun = [], 0.0
    for length, rate in parts:
        # Given their number, the arrivals of a Poisson stream are spread uniformly.
        pieces.append(begun + np.sort(random.random(random.poisson(rate * length))) * length)
        begun += length
    return _checked(np.concatenate(pieces), duration, pattern)


def replay(
    stamps: Sequence[float] | Seconds, *, speed: float = 1.0, duration: float | None = None, pattern: str = "trace"
) -> Arrivals:
    """Requests as they came once: `stamps` are their times in seconds, from any zero and in any order.

    `speed` 2 replays twice as fast; `duration` ends the replay early.
    """
    times = np.sort(np.asarray(stamps, dtype=np.float64))
    if not len(times) or not np.isfinite(times).all():
        raise ZoolensError("The trace has no usable times.", hint="It needs at least one finite number of seconds.")
    if not (speed > 0 and math.isfinite(speed)):
        raise ZoolensError(f"A trace cannot be replayed at {speed:g} times its speed.", hint="Give a positive number.")
    times = (times - times[0]) / speed
    if times[-1] > LONGEST:
        raise ZoolensError(
            f"The trace lasts {times[-1] / 86400:,.1f} days.",
            hint="Say in which unit its times are, or speed it up.",
        )
    if duration is not None:
        times = times[times < duration]
    whole = duration
    if whole is None:
        # The last request of a trace ends it; one mean gap more makes the rate that of the trace.
        mean_gap = times[-1] / max(len(times) - 1, 1) or 1.0
        whole = float(times[-1] + mean_gap)
    words = pattern if speed == 1 else f"{pattern}, {speed:g} times as fast"
    return _checked(times, whole, words)


def read_trace(path: Path, *, unit: str = "s", column: str | None = None) -> Seconds:
    """Times in seconds from a CSV file: of the named column, of one called time, timestamp, arrival, start or date, or
    of the first. Numbers count in `unit`; a date as in ISO 8601 is understood too."""
    if unit not in UNITS:
        raise ZoolensError(f"There is no unit of time {unit!r}.", hint=f"Use {', '.join(UNITS)}.")
    try:
        rows = [row for row in csv.reader(read_text(path, MOST_TRACE_BYTES).splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise ZoolensError(f"The trace {path.name} cannot be read: {reason}.") from error
    if not rows:
        raise ZoolensError(f"The trace {path.name} is empty.", hint="It needs one time for each request.")
    place, first = _time_column(path, rows[0], column)
    numbered = enumerate(rows[first:], first + 1)
    times = [_seconds(path, line, row, place, unit) for line, row in numbered]
    return np.array(times, np.float64)


def read_stored_trace(store: Store, run: str, series: str) -> Seconds:
    """Times in seconds of a series in a store: what happened while something was served or measured."""
    from zoolens.base.store.series import TIME, read_series

    nanoseconds = read_series(store, store.run(run).id, series)[TIME].to_numpy()
    # The difference first: seconds since 1970 in nanoseconds have more digits than a float holds.
    return np.asarray((nanoseconds - nanoseconds[:1]) / 1e9, dtype=np.float64)


def _time_column(path: Path, head: list[str], wanted: str | None) -> tuple[int, int]:
    """The place of the column, and the number of the first row that holds a time."""
    names = [name.strip().lower() for name in head]
    if wanted is not None:
        if wanted.lower() not in names:
            raise ZoolensError(f"The trace {path.name} has no column {wanted!r}.", hint=f"It has {', '.join(head)}.")
        return names.index(wanted.lower()), 1
    for name in TIME_COLUMNS:
        if name in names:
            return names.index(name), 1
    return 0, 0 if _number_or_date(head[0], "s") is not None else 1


def _seconds(path: Path, line: int, row: list[str], place: int, unit: str) -> float:
    value = _number_or_date(row[place], unit) if place < len(row) else None
    if value is None:
        shown = row[place][:40] if place < len(row) else "nothing"
        raise ZoolensError(f"Row {line} of {path.name} has no time: {shown!r}.", hint="Give seconds, or ISO dates.")
    return value


def _number_or_date(text: str, unit: str) -> float | None:
    try:
        value = float(text) * UNITS[unit]
    except ValueError:
        try:
            value = datetime.fromisoformat(text.strip()).timestamp()
        except ValueError:
            return None
    return value if math.isfinite(value) else None


def _check(rate: float, duration: float) -> None:
    if not (rate > 0 and math.isfinite(rate)):
        raise ZoolensError(f"A rate of {rate:g} requests per second sends nothing.", hint="Give a positive rate.")
    if not 0 < duration <= LONGEST:
        raise ZoolensError(f"A run of {duration:g} s is not possible.", hint=f"The most is {LONGEST / 86400:g} days.")
    _check_count(rate * duration)


def _check_count(requests: float) -> None:
    if requests > MOST_REQUESTS:
        raise ZoolensError(
            f"That would be {requests:,.0f} requests; one run sends up to {MOST_REQUESTS:,}.",
            hint="Lower the rate or the duration.",
        )


def _checked(times: NDArray[Any], duration: float, pattern: str) -> Arrivals:
    _check_count(len(times))
    if not len(times):
        raise ZoolensError(
            f"No request falls into a run of {duration:g} s ({pattern}).", hint="Raise the rate or the duration."
        )
    return Arrivals(times, duration, pattern)
