"""The worst of several datasets: a bound that holds on every one of them.

That every true value is at least the lowest of the lower bounds needs no correction: were it false, the bound of the
one group that is truly worst would be false, and that happens with probability alpha at most. To quote several groups'
bounds beside each other does need one; those are kept apart (`simultaneous`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zoolens.base.statistics.multiplicity import corrected


@dataclass(frozen=True)
class GroupSample:
    """What was measured on one group, such as how often two models agree on a dataset."""

    n: int
    value: float
    lower: Callable[[float], float]  # from alpha to a bound: the true value is at least that, with confidence 1 − alpha


@dataclass(frozen=True)
class Group:
    """`simultaneous` bounds of all groups hold together with the confidence asked for; one `lower` holds alone."""

    name: str
    n: int
    value: float
    lower: float
    simultaneous: float


@dataclass(frozen=True)
class WorstGroup:
    """`lower`: with the confidence asked for, the true value is at least this in every group."""

    lower: float
    worst: Group  # the one whose lower bound is lowest; which group is truly worst is not claimed
    groups: tuple[Group, ...]


def worst_group(samples: Mapping[str, GroupSample], alpha: float) -> WorstGroup:
    """The group with the lowest bound, and the bounds of all, by name."""
    if not samples:
        raise ValueError("There are no groups to find the worst of.")
    level = corrected(alpha, len(samples))
    bounded = tuple(
        Group(name, sample.n, sample.value, sample.lower(alpha), sample.lower(level))
        for name, sample in samples.items()
    )
    worst = min(bounded, key=lambda group: group.lower)
    return WorstGroup(worst.lower, worst, bounded)
