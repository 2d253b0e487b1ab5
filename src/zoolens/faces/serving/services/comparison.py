"""Two models on the same requests: how far they agree, and with labels which of them is right more often.

Both figures have bounds that hold at whichever moment one looks (`statistics.anytime`), for requests that come as these
did. They are paired: both models have answered every request that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.anytime import StreamingBound
from zoolens.base.statistics.intervals import Interval
from zoolens.faces.serving.contracts.adapter import Told
from zoolens.faces.serving.services.events import ModelComparison
from zoolens.findings.index.signatures.input_agreement import input_agreement
from zoolens.inventory.tasks.task import Answers, taken_answers

CONFIDENCE: Final = 0.95
EPOCH: Final = 10_000  # requests after which counting restarts
LEVELS: Final = 10  # how often the share of requests that count can be halved
_FEWEST_SHOWN: Final = 1_000  # requests of a new epoch before it is shown instead of the one before

Classes = NDArray[np.int64]
Compared = Classes | Answers


def answered_classes(output: NDArray[Any]) -> Classes:
    """The class with the largest score in each row; a row with a value that is not a number has none (−1)."""
    rows = output.reshape(len(output), -1)
    classes = np.asarray(rows.argmax(axis=1), np.int64)
    if rows.dtype.kind == "f":
        classes[np.isnan(rows).any(axis=1)] = -1
    return classes


def answered_rows(told: Told, start: int = 0, end: int | None = None) -> Compared:
    """What is compared of some rows: what their task keeps, or the classes that are answered."""
    if told.kept is not None:
        return taken_answers(told.kept, np.arange(len(told.kept))[start:end])
    return answered_classes(next(iter(told.tensors.values()))[start:end])


def rows_agreement(ours: Compared, theirs: Compared) -> NDArray[np.float64]:
    """How far two models agree on each row, from 0 to 1."""
    if isinstance(ours, Answers) and isinstance(theirs, Answers):
        return input_agreement(ours, theirs)
    return np.asarray((ours == theirs) & (np.asarray(ours) >= 0), np.float64)


class _Epoch:
    """Numbers that are counted together. `level`: how often their share was halved."""

    def __init__(self, number: int, level: int) -> None:
        self.level = level
        self._number = number
        self._by_level: dict[int, StreamingBound] = {}

    def add(self, value: float, ticket: float) -> None:
        """Count a number at every level that it would survive, so that halving needs no look back."""
        for level in range(self.level, LEVELS + 1):
            if ticket >= 0.5**level:
                break
            self._at(level).update(np.array([value]))

    @property
    def counted(self) -> StreamingBound:
        return self._at(self.level)

    def _at(self, level: int) -> StreamingBound:
        """All epochs and levels together, however many there are, are wrong with probability alpha at most: the
        n = k + l of epoch k and level l, and each of the n that share this sum, has alpha / (n² (n + 1))."""
        place = self._number + level
        known = self._by_level.get(level)
        if known is None:
            known = self._by_level[level] = StreamingBound((1 - CONFIDENCE) / (place**2 * (place + 1)))
        return known


class RunningMean:
    """The mean of the newest 1,000 to 10,000 numbers from −1 to 1, with an interval that holds at every moment.

    Numbers are counted in epochs, so that a change after a long time is seen. Each has a ticket, drawn from 0 to 1 by
    chance. Where more numbers are due than can be had, `thin` makes the share of tickets that count smaller, for what
    is to come and for what this epoch has counted already: whatever is counted was equally likely to be.
    """

    def __init__(self) -> None:
        self._epochs = 1
        self._previous: _Epoch | None = None
        self._newest = _Epoch(1, 0)

    def add(self, value: float, ticket: float, level: int = 0) -> None:
        """Count a number. `level`: where a new epoch begins."""
        if self._newest.counted.n >= EPOCH:
            self._epochs += 1
            self._previous = self._newest
            self._newest = _Epoch(self._epochs, level)
        self._newest.add(value, ticket)

    def thin(self, level: int) -> None:
        """Count from now on, and of this epoch, only tickets below 0.5 ** level."""
        self._newest.level = max(self._newest.level, level)

    @property
    def level(self) -> int:
        return self._newest.level

    @property
    def _shown(self) -> StreamingBound:
        """The newest epoch as soon as it says something, until then the one before."""
        newest = self._newest.counted
        return newest if self._previous is None or newest.n >= _FEWEST_SHOWN else self._previous.counted

    @property
    def n(self) -> int:
        return self._shown.n

    @property
    def mean(self) -> float:
        return self._shown.mean

    @property
    def interval(self) -> Interval:
        return self._shown.interval


@dataclass(eq=False)
class ModelPair:
    """`model` answered the requests, `other` was asked too. `dropped`: requests for which it was not, under load.

    A request counts once, by the mean agreement of its rows: rows of one request, such as the frames of a video, are
    often alike and would be counted as independent inputs otherwise.

    Requests are drawn by tickets from 0 to 1, and those below `share` are asked about. Under load not all of them can
    be. If those were left out, quiet times would count more than busy ones; therefore `halve` lowers the share for all.
    """

    model: str
    other: str
    dropped: int = 0
    compared_requests: int = 0  # since the start, while `n` are those of the newest epoch
    measure: str = ""  # what the agreement is, where it is no share of equal answers
    _agreement: RunningMean = field(default_factory=RunningMean)
    _gain: RunningMean = field(default_factory=RunningMean)

    @property
    def n(self) -> int:
        return self._agreement.n

    @property
    def labelled(self) -> int:
        return self._gain.n

    @property
    def share(self) -> float:
        """Requests whose ticket is below it are asked about, and count."""
        return float(0.5**self._agreement.level)

    def halve(self) -> bool:
        """Halve the share. False: it cannot be made smaller."""
        level = self._agreement.level + 1
        if level > LEVELS:
            return False
        self._agreement.thin(level)
        self._gain.thin(level)
        return True

    def add(self, answered: Compared, others: Compared, ticket: float) -> None:
        # Once for each request: 64 frames of one video are one disagreement, not 64 independent ones.
        self.add_agreement(float(rows_agreement(answered, others).mean()), ticket)

    def add_agreement(self, agreement: float, ticket: float) -> None:
        """Count a request by how far the two agree on it, from 0 to 1."""
        self.compared_requests += 1
        self._agreement.add(2 * agreement - 1, ticket)

    def add_labels(self, answered: Classes, others: Classes, labels: Classes, ticket: float) -> None:
        accuracy = (answered == labels).mean()
        other_accuracy = (others == labels).mean()
        self._gain.add(float(other_accuracy - accuracy), ticket, self._agreement.level)

    @property
    def agreement(self) -> float:
        return (1 + self._agreement.mean) / 2

    @property
    def agreement_interval(self) -> Interval:
        interval = self._agreement.interval
        return Interval((1 + interval.low) / 2, (1 + interval.high) / 2)

    @property
    def gain_interval(self) -> Interval:
        return self._gain.interval

    @property
    def gain(self) -> float | None:
        return self._gain.mean if self._gain.n else None

    def compared(self) -> ModelComparison:
        agreement, gain, labelled = self.agreement_interval, self.gain_interval, self.labelled > 0
        return ModelComparison(
            model=self.model,
            other=self.other,
            n=self.n,
            agreement=self.agreement,
            low=agreement.low,
            high=agreement.high,
            labelled=self.labelled,
            gain=self.gain,
            gain_low=gain.low if labelled else None,
            gain_high=gain.high if labelled else None,
            dropped=self.dropped,
            compared_requests=self.compared_requests,
            share=self.share,
            measure=self.measure,
        )
