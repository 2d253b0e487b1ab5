"""How long batches take on the tiers of a ladder: measured profiles, corrected by what was observed of late.

Policies ask for these times before each batch, so that whatever depends on the profiles alone is computed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from zoolens.faces.serving.contracts.ladder import Ladder

_STEP: Final = 4.0  # a batch counts as at most so many times as slow as the ones before: one hiccup proves little
_SLOWER: Final = 0.3  # the weight of a batch that was slower than the ones before
_FASTER: Final = 0.1  # the weight of one that was faster
_USUAL: Final = 0.02  # the weight of a batch in what is usual of its tier
_FORGET: Final = 4.0  # seconds in which a tier's deviation from what is usual is halved while nobody asks it
_GAIN: Final = 0.9  # a larger batch must save a tenth of the time of each input: its first input waits for all


@dataclass(frozen=True)
class _Sizes:
    """The sizes of batches that come into question, their profiled seconds, and the best of all."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    best: int


class BatchTimes:
    """`now` is the present moment: whoever asks sets it first."""

    def __init__(self, ladder: Ladder) -> None:
        self._ladder = ladder
        self._profile: dict[tuple[int, int], float] = {}  # seconds by tier and batch size
        self._sizes: dict[tuple[int, int, int], _Sizes] = {}  # by tier, smallest and largest size
        self._slowness = [1.0] * len(ladder.rungs)  # observed seconds / profiled seconds, of late
        self._usual = [1.0] * len(ladder.rungs)  # the same, on average over many batches
        self._observed = [False] * len(ladder.rungs)
        self._judged_at = [0.0] * len(ladder.rungs)
        self._current: list[float | None] = [None] * len(ladder.rungs)  # `slowness` of each tier at `now`
        self._now = 0.0

    @property
    def now(self) -> float:
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        self._current = [None] * len(self._current)

    def observe(self, rung: int, batch: int, seconds: float) -> None:
        """A batch took so long. A slower one is believed sooner than a faster one: promises are about the slow ones.
        But a first one that is faster shows that the profile was measured on a busier or slower machine."""
        ratio = seconds / max(self.profiled(rung, batch), 1e-9)
        if not self._observed[rung] and ratio < 1:
            self._slowness[rung] = self._usual[rung] = ratio
            self._current[rung] = None
        self._observed[rung] = True
        known = self.slowness(rung)
        ratio = min(ratio, _STEP * max(known, 1.0))
        self._usual[rung] += _USUAL * (ratio - self._usual[rung])
        self._slowness[rung] = known + (_SLOWER if ratio > known else _FASTER) * (ratio - known)
        self._judged_at[rung] = self._now
        self._current[rung] = None

    def slowness(self, rung: int) -> float:
        """Observed / profiled seconds. Of a tier that has not answered for long, the usual is believed again: otherwise
        one that was slow once would never be tried any more."""
        known = self._current[rung]
        if known is None:
            left = math.exp2(-max(0.0, self._now - self._judged_at[rung]) / _FORGET)
            usual = self._usual[rung]
            known = self._current[rung] = usual + (self._slowness[rung] - usual) * left
        return known

    def is_observed(self, rung: int) -> bool:
        """Whether its profile was ever compared with a batch."""
        return self._observed[rung]

    def profiled(self, rung: int, batch: int) -> float:
        known = self._profile.get((rung, batch))
        if known is None:
            known = self._profile[rung, batch] = self._ladder.rungs[rung].profile.of(batch)
        return known

    def seconds(self, rung: int, batch: int) -> float:
        """What a batch would take now."""
        return self.profiled(rung, batch) * self.slowness(rung)

    def best_size(self, rung: int, least: int, most: int, within: float = math.inf) -> int:
        """How many inputs the tier had better take at once, within so many seconds: the number with the least time for
        each. Where others come close to it, the smallest of them, so that nobody waits for company without a gain."""
        known = self._sizes.get((rung, least, most))
        if known is None:
            sizes = _doubled(least, most)
            seconds = tuple(self.profiled(rung, size) for size in sizes)
            known = self._sizes[rung, least, most] = _Sizes(sizes, seconds, _best(sizes, seconds))
        limit = within / self.slowness(rung)
        if max(known.seconds) <= limit:
            return known.best
        fitting = [place for place, seconds in enumerate(known.seconds) if seconds <= limit]
        if not fitting:
            return least
        return _best([known.sizes[place] for place in fitting], [known.seconds[place] for place in fitting])

    def drained(self, rung: int, inputs: int, least: int, most: int, instances: int) -> float:
        """Seconds until the tier would have answered so many inputs, in batches of at least and at most so many."""
        if inputs <= 0:
            return 0.0
        size = self.best_size(rung, least, max(least, most))
        return math.ceil(inputs / (size * instances)) * self.seconds(rung, min(size, max(least, inputs)))


def _doubled(least: int, most: int) -> tuple[int, ...]:
    """Numbers from the least to the most, each twice as large as the one before."""
    sizes = [least]
    while 2 * sizes[-1] < most:
        sizes.append(2 * sizes[-1])
    return (*sizes, most) if most > least else tuple(sizes)


def _best(sizes: tuple[int, ...] | list[int], seconds: tuple[float, ...] | list[float]) -> int:
    each = {size: taken / size for size, taken in zip(sizes, seconds, strict=True)}
    least = min(each.values())
    return next(size for size, taken in each.items() if _GAIN * taken <= least)
