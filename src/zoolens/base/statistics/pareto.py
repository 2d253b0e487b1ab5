"""Pareto fronts: what nothing else beats in every respect, and what is beaten beyond the intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def front(costs: Floats) -> NDArray[np.bool_]:
    """The rows that no other row beats. `costs`: rows × respects, where less is better; a row beats another where it is
    nowhere worse and somewhere better, so that equal rows are both on the front. Rows with a NaN are never on it."""
    on_front = np.zeros(len(costs), np.bool_)
    known = np.flatnonzero(~np.isnan(costs).any(axis=1))
    if not len(known):
        return on_front
    left = known[np.lexsort(costs[known].T[::-1])]  # who beats a row stands before it
    while len(left):
        # Nobody is left that could beat the first.
        best, others = costs[left[0]], costs[left]
        on_front[left[0]] = True
        beaten = (best <= others).all(axis=1) & (best < others).any(axis=1)
        left = left[~beaten][1:]
    return on_front


def clearly_beaten(first: tuple[Floats, Floats], second: tuple[Floats, Floats]) -> NDArray[np.bool_]:
    """The rows that another one beats in both respects beyond the intervals: its upper ends are below their lower ends.

    Each respect is given as the lower and the upper ends of intervals of costs. A row with a NaN neither beats nor is
    beaten, since without an interval nobody can say by how much it may be wrong.
    """
    beaten = np.zeros(len(first[0]), np.bool_)
    known = np.flatnonzero(~np.isnan(np.stack([*first, *second])).any(axis=0))
    if not len(known):
        return beaten
    order = known[np.argsort(first[1][known], kind="stable")]
    # Of the upper ends in the second respect, so far.
    least = np.minimum.accumulate(second[1][order])
    before = np.searchsorted(first[1][order], first[0][known], side="left")  # how many are surely less in the first
    beaten[known] = (before > 0) & (least[np.maximum(before, 1) - 1] < second[0][known])
    return beaten
