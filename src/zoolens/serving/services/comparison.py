"""Two models on the same requests: how often they agree, and with labels which of them is right more often.

Both figures have bounds that hold at whichever moment one looks (`statistics.anytime`), for requests that come as these
did. They are paired: both models have answered every request that counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.serving.services.events import Compared
from zoolens.statistics.anytime import Streaming
from zoolens.statistics.intervals import Interval

CONFIDENCE: Final = 0.95
EPOCH: Final = 10_000  # requests after which counting begins anew
_FEWEST_SHOWN: Final = 1_000  # requests of a new epoch before it is shown instead of the one before

Classes = NDArray[np.int64]


def answered_classes(output: NDArray[Any]) -> Classes:
    """The class with the largest score in each row; a row with a value that is not a number has none (−1)."""
    rows = output.reshape(len(output), -1)
    classes = np.asarray(rows.argmax(axis=1), np.int64)
    if rows.dtype.kind == "f":
        classes[np.isnan(rows).any(axis=1)] = -1
    return classes


class RunningMean:
    """The mean of the newest 1,000 to 10,000 numbers from −1 to 1, with an interval that holds at every moment.

    Numbers are counted in epochs, so that a change after a long time is seen. The k-th epoch may be wrong with
    probability alpha / (k (k + 1)): all of them together, however many there are, with probability alpha.
    """

    def __init__(self) -> None:
        self._epochs = 1
        self._previous: Streaming | None = None
        self._newest = Streaming((1 - CONFIDENCE) / 2)

    def add(self, value: float) -> None:
        if self._newest.n >= EPOCH:
            self._epochs += 1
            self._previous = self._newest
            self._newest = Streaming((1 - CONFIDENCE) / (self._epochs * (self._epochs + 1)))
        self._newest.update(np.array([value]))

    @property
    def _shown(self) -> Streaming:
        """The newest epoch as soon as it says something, until then the one before."""
        return self._newest if self._previous is None or self._newest.n >= _FEWEST_SHOWN else self._previous

    @property
    def n(self) -> int:
        return self._shown.n

    @property
    def mean(self) -> float:
        return self._shown.mean

    @property
    def interval(self) -> Interval:
        return self._shown.interval


@dataclass
class Pair:
    """`model` answered the requests, `other` was asked too. `dropped`: requests for which it was not, under load.

    A request counts once, by the share of its rows on which the two agree: rows of one request, such as the frames of
    a video, are often alike and would be counted as independent inputs otherwise.
    """

    model: str
    other: str
    dropped: int = 0
    compared_requests: int = 0  # since the start, while `n` are those of the newest epoch
    _agreement: RunningMean = field(default_factory=RunningMean)
    _gain: RunningMean = field(default_factory=RunningMean)

    @property
    def n(self) -> int:
        return self._agreement.n

    @property
    def labelled(self) -> int:
        return self._gain.n

    def add(self, answered: Classes, others: Classes) -> None:
        self.compared_requests += 1
        agree = (answered == others) & (answered >= 0)
        self._agreement.add(2 * float(agree.mean()) - 1)

    def add_labels(self, answered: Classes, others: Classes, labels: Classes) -> None:
        self._gain.add(float((others == labels).mean() - (answered == labels).mean()))

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

    def compared(self) -> Compared:
        agreement, gain, labelled = self.agreement_interval, self.gain_interval, self.labelled > 0
        return Compared(
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
        )
