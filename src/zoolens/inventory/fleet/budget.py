"""What jobs on other machines may take: time, and money by the prices of machines.

A job that waits is not begun where it is not expected to end in time, or within the money that is left; one that runs
is stopped when the money is spent. How long a job will take is told by how long the same one took before, else by what
others of this command took. The first jobs of an unknown kind are begun.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from zoolens.base.errors import Cancelled, ZoolensError
from zoolens.base.present.figures import figure
from zoolens.base.store.database import Database
from zoolens.base.store.jobs import JobState, load_jobs
from zoolens.inventory.fleet.job_entry import JobEntry

DEFAULT: Final = "default"  # the price of machines that have none of their own
_HISTORY: Final = 2_000  # jobs
_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d)\s*")
_PRICE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*h\s*")
_HOUR: Final = 3600.0
_AGAIN: Final = "The same command again does the rest."


class OverBudget(Cancelled):
    """A job for which a budget has no room."""


@dataclass(frozen=True)
class Budget:
    """`seconds` count from the first job. `money` is in whatever unit `prices` are, which are for an hour, by the name
    or the kind of an agent as `zoolens agents` shows them."""

    seconds: float | None = None
    money: float | None = None
    prices: Mapping[str, float] = field(default_factory=dict)

    def price(self, agent: str, kind: str) -> float | None:
        for name in (agent, kind, DEFAULT):
            if name in self.prices:
                return self.prices[name]
        return None


def parse_duration(text: str) -> float:
    """Seconds of 90s, 45min, 2h or 1d."""
    matched = _DURATION.fullmatch(text)
    if matched is None or not 0 < float(matched[1]) < math.inf:
        raise ZoolensError(f"{text[:40]!r} is no length of time.", hint="Write 90s, 45min, 2h or 1d.")
    return float(matched[1]) * _UNITS[matched[2]]


def parse_price(text: str) -> float:
    """What an hour costs, of 1.20/h."""
    matched = _PRICE.fullmatch(text)
    if matched is None:
        raise ZoolensError(f"{text[:40]!r} is no price.", hint="Write what an hour costs: 1.20/h.")
    return float(matched[1])


class BudgetWatch:
    """One budget while jobs run. Asked by the ledger of the jobs, in any thread, under its lock."""

    def __init__(self, budget: Budget, database: Database) -> None:
        self._budget, self._began = budget, time.monotonic()
        self._history: dict[tuple[Any, ...], list[float]] = {}
        for job in load_jobs(database, states=[JobState.DONE], limit=_HISTORY):
            if job.seconds is not None:
                for key in _keys(job.model, job.dataset, job.runtimes, job.kind):
                    self._history.setdefault(key, []).append(job.seconds)
        self._ended: dict[str, float] = {}  # seconds of the jobs of this command, by their ids
        self._paid: dict[str, float] = {}

    @property
    def spent(self) -> float:
        return sum(self._paid.values())

    def count(self, entry: JobEntry) -> None:
        """What a job took so far. The ledger says so as it ends, too: it forgets jobs that are written."""
        ran = entry.ran
        if ran and not entry.open:
            self._ended[entry.id] = ran
        self._paid[entry.id] = ran * self._price(entry) / _HOUR

    def refused(self, entries: Sequence[JobEntry]) -> dict[str, OverBudget]:
        """Which of the open jobs of this command are to end, and why. `entries`: all its jobs, in their order."""
        for entry in entries:
            self.count(entry)
        over: dict[str, OverBudget] = {}
        reserved = self.spent
        for entry in entries:
            if not entry.open:
                continue
            expected = self._expected(entry)
            reserved += max(0.0, expected - entry.ran) * self._price(entry) / _HOUR
            if reason := self._over(entry, expected, reserved):
                over[entry.id] = OverBudget(reason, hint=_AGAIN)
                reserved -= max(0.0, expected - entry.ran) * self._price(entry) / _HOUR
        return over

    def _over(self, entry: JobEntry, expected: float, reserved: float) -> str:
        seconds, money = self._budget.seconds, self._budget.money
        if seconds is not None and entry.waits:
            left = max(0.0, self._began + seconds - time.monotonic())
            if expected >= left:
                about = f"it is expected to take {figure(expected, 's')}, and " if expected else ""
                remains = f"{figure(left, 's')} are" if left else "nothing is"
                return f"Not begun: {about}{remains} left of a budget of {figure(seconds, 's')}."
        if money is not None and entry.waits and reserved > money:
            return f"Not begun: with it the jobs are expected to cost {reserved:.2f}, of a budget of {money:.2f}."
        if money is not None and not entry.waits and self.spent >= money:
            return f"Stopped: the budget of {money:.2f} is spent."
        return ""

    def _price(self, entry: JobEntry) -> float:
        price = self._budget.price(entry.about("agent"), entry.about("agent_kind"))
        return price or 0.0

    def _expected(self, entry: JobEntry) -> float:
        runtimes = tuple(entry.runtimes)
        for key in _keys(entry.about("model"), entry.about("dataset"), runtimes, entry.about("kind")):
            if key in self._history:
                return median(self._history[key])
        return median(self._ended.values()) if self._ended else 0.0


def _keys(model: str, dataset: str, runtimes: Sequence[str], kind: str) -> list[tuple[Any, ...]]:
    """What a job is known by, the most telling first."""
    return [(model, dataset, tuple(runtimes), kind), (model, dataset, tuple(runtimes)), (model, dataset)]
