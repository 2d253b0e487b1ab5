"""The worst of several datasets: a bound that holds on every one of them.

That every true value is at least the lowest of the lower bounds needs no correction: were it false, the bound of the
one group that is truly worst would be false, and that happens with probability alpha at most. To quote several groups'
bounds beside each other does need one; those are kept apart (`simultaneous`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from zoolens.statistics.anytime import Method, paired_lower
from zoolens.statistics.binomial import binomial_lower
from zoolens.statistics.multiplicity import corrected

Data = TypeVar("Data")


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
    """For shares: successes and inputs by dataset, such as how often two models agree on each."""

    def bounded(counts: tuple[int, int], level: float) -> float:
        return binomial_lower(*counts, level)

    return _worst(groups, alpha, lambda counts: (counts[1], counts[0] / counts[1]), bounded)


def worst_paired_group(
    groups: Mapping[str, NDArray[Any]], alpha: float, method: Method = "betting", *, seed: int = 0
) -> WorstGroup:
    """For paired differences (B − A) by dataset: how much worse B may be on any of them."""

    def bounded(differences: NDArray[Any], level: float) -> float:
        return paired_lower(differences, level, method, seed=seed)

    return _worst(groups, alpha, lambda differences: (len(differences), float(np.mean(differences))), bounded)


def _worst(
    groups: Mapping[str, Data],
    alpha: float,
    seen: Callable[[Data], tuple[int, float]],
    bound: Callable[[Data, float], float],
) -> WorstGroup:
    if not groups:
        raise ValueError("There are no groups to find the worst of.")
    level = corrected(alpha, len(groups))
    bounded_groups = tuple(
        Group(name, *seen(data), bound(data, alpha), bound(data, level)) for name, data in groups.items()
    )
    worst = min(bounded_groups, key=lambda group: group.lower)
    return WorstGroup(worst.lower, worst, bounded_groups)
