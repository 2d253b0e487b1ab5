"""The worst of several datasets: a bound that holds on every one of them.

That every true value is at least the lowest of the lower bounds needs no correction: were it false, the bound of the
one group that is truly worst would be false, and that happens with probability alpha at most. To quote several groups'
bounds beside each other does need one; those are kept apart (`simultaneous`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zoolens.statistics.binomial import binomial_lower
from zoolens.statistics.multiplicity import corrected


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


def worst_group(groups: Mapping[str, tuple[int, int]], alpha: float) -> WorstGroup:
    """The worst group by share, given successes and inputs of each, such as how often two models agree on a dataset."""
    level = corrected(alpha, max(1, len(groups)))
    return worst_of(
        Group(name, n, right / n, binomial_lower(right, n, alpha), binomial_lower(right, n, level))
        for name, (right, n) in groups.items()
    )


def worst_of(groups: Iterable[Group]) -> WorstGroup:
    """The worst of groups whose bounds are known, whatever they are bounds of."""
    bounded = tuple(groups)
    if not bounded:
        raise ValueError("There are no groups to find the worst of.")
    worst = min(bounded, key=lambda group: group.lower)
    return WorstGroup(worst.lower, worst, bounded)
