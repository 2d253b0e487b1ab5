"""Two models on the same requests: how often they agree, and with labels which of them is right more often.

Both figures have bounds that hold at whichever moment one looks (`statistics.anytime`), for requests that come as these
did. They are paired: both models have answered every request that counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.serving.services.events import Compared
from zoolens.statistics.anytime import Running
from zoolens.statistics.intervals import Interval

CONFIDENCE: Final = 0.95
MOST: Final = 10_000  # answers of a pair that are counted; what is known then will not change much any more
_BETWEEN: Final = 50  # new answers before the bound is worked out again

Classes = NDArray[np.int64]


def answered_classes(output: NDArray[Any]) -> Classes:
    """The class with the largest score in each row; a row with a value that is not a number has none (−1)."""
    rows = output.reshape(len(output), -1)
    classes = np.asarray(rows.argmax(axis=1), np.int64)
    if rows.dtype.kind == "f":
        classes[np.isnan(rows).any(axis=1)] = -1
    return classes


class RunningMean:
    """A running mean of numbers from −1 to 1 with an interval for it, worked out now and then."""

    def __init__(self) -> None:
        self._running = Running(1 - CONFIDENCE)
        self._sum = 0.0
        self.n = 0
        self._known = Interval(-1.0, 1.0)
        self._known_at = 0

    def add(self, values: Sequence[float] | NDArray[Any]) -> None:
        some = np.asarray(values, np.float64)[: MOST - self.n]
        if len(some):
            self._running.update(some)
            self._sum += float(some.sum())
            self.n += len(some)

    @property
    def mean(self) -> float:
        return self._sum / self.n if self.n else 0.0

    def interval(self, *, now: bool = False) -> Interval:
        """Of all values, or of nearly all unless `now` is set."""
        if self.n - self._known_at >= (1 if now else _BETWEEN):
            newest = self._running.interval
            # It holds at every moment, so that what was ruled out once stays ruled out.
            self._known = Interval(max(newest.low, self._known.low), min(newest.high, self._known.high))
            self._known_at = self.n
        return self._known


@dataclass
class Pair:
    """`model` answered the requests, `other` was asked too. `dropped`: requests for which it was not, under load."""

    model: str
    other: str
    dropped: int = 0
    _agreement: RunningMean = field(default_factory=RunningMean)
    _gain: RunningMean = field(default_factory=RunningMean)

    @property
    def n(self) -> int:
        return self._agreement.n

    @property
    def labelled(self) -> int:
        return self._gain.n

    def add(self, answered: Classes, others: Classes) -> None:
        agree = (answered == others) & (answered >= 0)
        self._agreement.add(np.where(agree, 1.0, -1.0))

    def add_labels(self, answered: Classes, others: Classes, labels: Classes) -> None:
        self._gain.add((others == labels).astype(np.float64) - (answered == labels))

    @property
    def agreement(self) -> float:
        return (1 + self._agreement.mean) / 2

    def agreement_interval(self, *, now: bool = False) -> Interval:
        interval = self._agreement.interval(now=now)
        return Interval((1 + interval.low) / 2, (1 + interval.high) / 2)

    def gain_interval(self, *, now: bool = False) -> Interval:
        return self._gain.interval(now=now)

    @property
    def gain(self) -> float | None:
        return self._gain.mean if self._gain.n else None

    def verdict(self) -> str:
        """One sentence on which of the two is right more often, as far as labels tell."""
        if not self.labelled:
            return f"{self.model} and {self.other} cannot be judged: no labels have come back."
        low, high = self.gain_interval(now=True)
        if low > 0:
            return f"{self.other} is right more often than {self.model}, by {low:.1%} to {high:.1%}."
        if high < 0:
            return f"{self.model} is right more often than {self.other}, by {-high:.1%} to {-low:.1%}."
        return f"Neither of {self.model} and {self.other} is known to be right more often ({low:+.1%} to {high:+.1%})."

    def compared(self) -> Compared:
        low, high = self.agreement_interval(now=True)
        gain = self.gain_interval(now=True)
        known = self.labelled > 0
        return Compared(
            self.model, self.other, self.n, self.agreement, low, high, self.labelled, self.gain,
            gain.low if known else None, gain.high if known else None, self.dropped,
        )  # fmt: skip
