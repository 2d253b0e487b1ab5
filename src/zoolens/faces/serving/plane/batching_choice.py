"""Whether batches pay under the load that there is: tried on the requests themselves, and again when that changes.

A call for several rows takes less time for each. But no answer of it goes out before the last row is done, and clients
that wait for it send nothing meanwhile. Which of the two is more depends on the model, the cores, the clients and their
number, so it is measured: for a moment requests share batches, for the next they run one by one, and so on in turns. Of
two moments in a row that one is better in which requests per second, divided by the mean time from a request's arrival
to its answer, is higher. Of a fixed number of clients both factors say the same; where requests come at a rate that the
model bears, their rate is equal and the time decides; where they come faster, the rate does. What wins three times more
often than the other is kept. Batches win what is undecided: they need fewer calls, and less of the processor.

What was found holds while about as many requests are in the server (their rate times their time, by Little's law) as
when it was found, for a minute at first and longer each time that it is found again. Several loads are remembered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, log2
from typing import Final

_WINDOW_SECONDS: Final = 0.1  # of one moment, at least
_WINDOW_REQUESTS: Final = 32  # answered in it, at least
_LONGEST_WINDOW: Final = 2.0  # after which less has to do
_FEWEST_REQUESTS: Final = 8
_SETTLE_SECONDS: Final = 0.02  # after a change, during which nothing counts; and as long as two requests take
_FEW: Final = 1.5  # requests in the server at a time: below that there is nothing to share
_BETTER: Final = 1.05  # times as good has to be what runs one by one: the rate of a fixed number of clients by 2.5 %
_LEAD: Final = 3  # pairs that one has won more than the other
_MOST_PAIRS: Final = 9
_OCTAVE: Final = 1.0  # loads that differ by less than a factor of two are alike
_HOLD_SECONDS: Final = 60.0
_LONGEST_HOLD: Final = 960.0
_REMEMBERED: Final = 8  # loads

log = logging.getLogger("zoolens.serving")


@dataclass(frozen=True)
class Moment:
    """What was seen while requests ran one way."""

    rate: float  # answered requests per second
    seconds: float  # from a request's arrival to its answer, on average

    @property
    def score(self) -> float:
        return self.rate / self.seconds

    @property
    def load(self) -> float:
        """Requests in the server at a time."""
        return self.rate * self.seconds

    def is_like(self, other: Moment) -> bool:
        return abs(log2(self.load / other.load)) < _OCTAVE


@dataclass
class _Found:
    """What was found for one load, which looks different when requests run together and when they run one by one."""

    together: bool
    seen: dict[bool, Moment]
    until: float
    hold: float

    def fits(self, now: float, together: bool, moment: Moment) -> bool:
        return now < self.until and moment.is_like(self.seen[together])


@dataclass
class _Trial:
    """Pairs of moments, one each way. `lead`: by how many pairs batches are ahead."""

    last: Moment | None = None  # with batches, to which the one without is still to come
    seen: dict[bool, Moment] = field(default_factory=dict)
    lead: int = 0
    pairs: int = 0

    def add(self, together: bool, moment: Moment) -> None:
        self.seen[together] = moment
        if together:
            self.last = moment
        elif self.last is not None:
            self.lead += -1 if moment.score > _BETTER * self.last.score else 1
            self.pairs += 1
            self.last = None

    @property
    def over(self) -> bool:
        return abs(self.lead) >= _LEAD or self.pairs >= _MOST_PAIRS


class BatchingChoice:
    """Says of one model whether its requests share batches now. `told` gets a sentence when that changes."""

    def __init__(self, told: Callable[[str], None]) -> None:
        self.together = True
        self.reason = ""
        self._told = told
        self._found: list[_Found] = []
        self._holding: _Found | None = None
        self._trial: _Trial | None = None
        self._said = True
        self._begin(-inf, 0.0)

    def answered(self, now: float, requests: int, seconds: float) -> None:
        """Requests were answered; `seconds` from their arrivals on, added up."""
        if now < self._since:
            return
        self._requests += requests
        self._seconds += seconds
        passed = now - self._since
        if passed > _LONGEST_WINDOW or (passed >= _WINDOW_SECONDS and self._requests >= _WINDOW_REQUESTS):
            self._end(now, passed)

    def _begin(self, now: float, settle: float) -> None:
        self._since, self._requests, self._seconds = now + settle, 0, 0.0

    def _end(self, now: float, passed: float) -> None:
        requests, seconds = self._requests, self._seconds
        # Nobody asked for a while, or hardly anybody.
        if requests < _FEWEST_REQUESTS or passed > 2 * _LONGEST_WINDOW or seconds <= 0.0:
            self._trial = None
            self._use(now, True, 0.0)
            return
        moment = Moment(requests / passed, seconds / requests)
        if self._trial is not None:
            self._try(now, moment)
        elif self._holding is not None and self._holding.fits(now, self.together, moment):
            self._begin(now, 0.0)
        else:
            self._look(now, moment)

    def _look(self, now: float, moment: Moment) -> None:
        """The load has changed, or what was found has become old: take what fits, or begin to try."""
        fitting = [found for found in self._found if found.fits(now, self.together, moment)]
        if fitting:
            self._hold(now, fitting[-1], moment)
        elif not self.together:
            # Loads are told apart by what they look like with batches.
            self._holding = None
            self._use(now, True, moment.seconds)
        elif moment.load < _FEW:
            self._holding = None
            self._begin(now, 0.0)
        else:
            self._trial = _Trial()
            self._try(now, moment)

    def _try(self, now: float, moment: Moment) -> None:
        trial = self._trial
        assert trial is not None
        trial.add(self.together, moment)
        if not trial.over:
            self._use(now, not self.together, moment.seconds)
            return
        self._trial = None
        together = trial.lead > -_LEAD
        hold = _HOLD_SECONDS
        for old in list(self._found):
            if old.seen[True].is_like(trial.seen[True]):
                self._found.remove(old)
                if old.together == together:
                    hold = min(2 * old.hold, _LONGEST_HOLD)
        found = _Found(together, dict(trial.seen), now + hold, hold)
        self._found = [*self._found[1 - _REMEMBERED :], found]
        self._hold(now, found, moment)

    def _hold(self, now: float, found: _Found, moment: Moment) -> None:
        self._holding = found
        self._use(now, found.together, moment.seconds)
        if found.together != self._said:
            self._said = found.together
            how, other = ("together", "one by one") if found.together else ("one by one", "together")
            self.reason = f"At this load requests run {how}: {_words(found.seen[found.together])}; {other} it was "
            self.reason += f"{_words(found.seen[not found.together])}."
            self._told(self.reason)

    def _use(self, now: float, together: bool, seconds: float) -> None:
        settle = 0.0 if together == self.together else max(_SETTLE_SECONDS, 2 * seconds)
        self.together = together
        self._begin(now, settle)


def _words(moment: Moment) -> str:
    return f"{moment.rate:,.4g} a second, each after {moment.seconds * 1e3:.3g} ms"
