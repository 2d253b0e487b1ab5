"""Average linkage: which things belong together, and an order in which they stand side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

CUT: Final = 0.75  # of the middle distance: one thing that is far from all others moves it little


@dataclass(frozen=True)
class Families:
    """Things in an order that puts similar ones side by side, and their clusters."""

    order: tuple[int, ...]  # places of the things
    groups: tuple[int, ...]  # the cluster of each thing, numbered from 0 in that order


def families(distance: NDArray[Any]) -> Families:
    """Join the two nearest clusters until one is left. NaN: as far as the farthest."""
    # Not to be known is never to be the same.
    far = np.nanmax(distance, initial=0.0) or 1.0
    matrix = np.where(np.isnan(distance), far, distance).astype(np.float64)
    clusters = [[i] for i in range(len(matrix))]
    joinings: list[tuple[float, list[int], list[int]]] = []
    between = matrix.copy()
    np.fill_diagonal(between, np.inf)
    while len(clusters) > 1:
        i, j = sorted(divmod(int(between.argmin()), len(clusters)))
        joinings.append((float(between[i, j]), clusters[i], clusters[j]))
        sizes = len(clusters[i]), len(clusters[j])
        merged = (sizes[0] * between[i] + sizes[1] * between[j]) / sum(sizes)
        clusters[i] = _side_by_side(clusters[i], clusters[j], matrix)
        between[i, :] = between[:, i] = merged
        between[i, i] = np.inf
        between = np.delete(np.delete(between, j, axis=0), j, axis=1)
        del clusters[j]
    order = tuple(clusters[0]) if clusters else ()
    return Families(order, _groups(order, joinings, CUT * _middle(matrix)))


def _side_by_side(left: list[int], right: list[int], matrix: NDArray[np.float64]) -> list[int]:
    """The two in a row, turned so that the ends that meet are the nearest."""
    turned = [(start, end) for start in (left, left[::-1]) for end in (right, right[::-1])]
    start, end = min(turned, key=lambda pair: matrix[pair[0][-1], pair[1][0]])
    return [*start, *end]


def _middle(matrix: NDArray[np.float64]) -> float:
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    return float(np.median(pairs)) if len(pairs) else 0.0


def _groups(order: tuple[int, ...], joinings: list[tuple[float, list[int], list[int]]], cut: float) -> tuple[int, ...]:
    """Clusters that were joined below the cut, numbered from the first in order on."""
    group = {i: frozenset((i,)) for i in order}
    for distance, left, right in joinings:
        if distance < cut or distance == 0:
            together = group[left[0]] | group[right[0]]
            group |= dict.fromkeys(together, together)
    numbers: dict[frozenset[int], int] = {}
    for i in order:
        numbers.setdefault(group[i], len(numbers))
    return tuple(numbers[group[i]] for i in range(len(order)))
