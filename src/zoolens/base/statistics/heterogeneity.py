"""Times of the same work from several sittings, and from several machines of one kind: do they agree, and on what?

The interval of one sitting tells how well its median is known, not how far a second sitting lies from it. So sittings
are allowed a spread of their own: they agree unless Cochran's Q says that they lie further apart than their intervals
and that spread explain. What agrees is pooled by the geometric mean. Its interval is Student's, from the observed
spread between machines: it stands for the kind of machine, not for those that happened to be measured. Two times are
compared with the same spread (`time_factor`): two sittings of one thing must not be told to differ because each knows
its own median well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from zoolens.base.statistics.intervals import CONFIDENCE, Interval
from zoolens.base.statistics.student import Estimate, t_quantile

SPREAD: Final = 0.05  # of sittings on one machine: nineteen of twenty lie within this part of their mean
LEVEL: Final = 0.01  # of times that agree, so many are told to differ
_Z: Final = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
_VARIANCE: Final = (math.log1p(SPREAD) / _Z) ** 2  # of the logarithm, between sittings


@dataclass(frozen=True)
class Sitting:
    """The median of one sitting, which is positive, and its interval where it has one. `machine`: which sittings come
    from one machine; "" where that was not recorded, and then nobody knows whether it is another one."""

    value: float
    low: float | None = None
    high: float | None = None
    machine: str = ""

    @property
    def variance(self) -> float:
        """Returns the variance of the logarithm of the median, by its interval."""
        if self.low is None or self.high is None or not 0 < self.low <= self.high:
            return 0.0
        return (math.log(self.high / self.low) / (2 * _Z)) ** 2


@dataclass(frozen=True)
class KnownTime:
    """A time, which is positive, and the 95 % interval in which it would lie in other sittings."""

    value: float
    low: float
    high: float


def beyond_its_sitting(one: Sitting) -> KnownTime | None:
    """What one sitting tells of the others, by its own interval and the spread that sittings have. None: it has no
    interval, so that nobody knows how well it knows even its own median."""
    if one.low is None or one.high is None or not 0 < one.low <= one.value <= one.high:
        return None
    spread = math.log1p(SPREAD)
    below, above = math.log(one.value / one.low), math.log(one.high / one.value)
    return KnownTime(
        one.value, one.value / math.exp(math.hypot(below, spread)), one.value * math.exp(math.hypot(above, spread))
    )


def time_factor(before: KnownTime, after: KnownTime, confidence: float = CONFIDENCE) -> Estimate:
    """How many times as long `after` takes, with its interval: the errors of both logarithms are added as squares
    (MOVER, Zou and Donner 2008), each end with those that push it outwards. Another confidence scales them as if they
    were normal."""
    scale = NormalDist().inv_cdf(0.5 + confidence / 2) / _Z
    value = math.log(after.value / before.value)
    below = math.hypot(math.log(after.value / after.low), math.log(before.high / before.value))
    above = math.hypot(math.log(after.high / after.value), math.log(before.value / before.low))
    ends = Interval(math.exp(value - scale * below), math.exp(value + scale * above))
    return Estimate(math.exp(value), ends)


def agreement_p_value(sittings: Sequence[Sitting]) -> float:
    """The probability that sittings of equal times lie as far apart as these do, by Cochran's Q."""
    if len(sittings) < 2:
        return 1.0
    logs = np.log([one.value for one in sittings])
    weights = 1 / np.array([one.variance + _VARIANCE for one in sittings])
    mean = float(weights @ logs) / float(weights.sum())
    return chi_square_tail(float(weights @ (logs - mean) ** 2), len(sittings) - 1)


def agree(sittings: Sequence[Sitting]) -> bool:
    return agreement_p_value(sittings) >= LEVEL


def pooled_estimate(sittings: Sequence[Sitting]) -> Estimate:
    """The geometric mean over machines, each with the mean of its sittings, and its interval. Where they are all of one
    machine, or nobody knows of which, the mean over the sittings.

    Two values have a wide interval (Student's t of one degree of freedom): two say little of how far a third would lie.
    A single one has none.
    """
    groups = _by_machine(sittings)
    means = np.array([np.mean(np.log([one.value for one in group])) for group in groups])
    value = math.exp(float(means.mean()))
    if len(groups) < 2:
        return Estimate(value)
    # Values that are equal by chance are not known better than each of them is.
    known = float(np.mean([sum(one.variance for one in group) / len(group) ** 2 for group in groups]))
    deviation = math.sqrt(max(float(np.var(means, ddof=1)), known))
    factor = math.exp(t_quantile(len(groups) - 1) * deviation / math.sqrt(len(groups)))
    return Estimate(value, Interval(value / factor, value * factor))


def _by_machine(sittings: Sequence[Sitting]) -> list[list[Sitting]]:
    groups: dict[str, list[Sitting]] = {}
    for one in sittings:
        groups.setdefault(one.machine, []).append(one)
    return list(groups.values()) if len(groups) > 1 and "" not in groups else [[one] for one in sittings]


def outlying(sittings: Sequence[Sitting]) -> tuple[int, ...]:
    """The places of the sittings without which the others agree: those of one machine among at least three, or else a
    single sitting among at least three. Empty where there is no such group, or several would do equally."""
    machines = {one.machine for one in sittings}
    if len(machines) > 2 and "" not in machines:
        groups = [tuple(n for n, one in enumerate(sittings) if one.machine == name) for name in sorted(machines)]
        if found := _only_one_that_matters(sittings, groups):
            return found
    return _only_one_that_matters(sittings, [(n,) for n in range(len(sittings))]) if len(sittings) > 2 else ()


def _only_one_that_matters(sittings: Sequence[Sitting], groups: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The group without which the rest agrees; where several are so, none can be told from the others."""
    able = [group for group in groups if agree([one for n, one in enumerate(sittings) if n not in group])]
    return able[0] if len(able) == 1 else ()


def chi_square_tail(x: float, freedom: int) -> float:
    """P(χ² > x) with whole degrees of freedom; Abramowitz and Stegun 26.4.4 and 26.4.5."""
    if x <= 0:
        return 1.0
    odd = freedom % 2 == 1
    tail = math.erfc(math.sqrt(x / 2)) if odd else math.exp(-x / 2)
    for done in range(1 if odd else 2, freedom, 2):
        tail += math.exp(done / 2 * math.log(x / 2) - x / 2 - math.lgamma(done / 2 + 1))
    return min(1.0, tail)
