"""The best alignment of two sequences by dynamic programming.

Where several alignments are equally good, gaps come late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Aligned = list[tuple[T | None, T | None]]  # two items that stand beside each other, or one without a partner
MAX_CELLS: Final = 4_000_000  # of one table: some 2,000 items beside 2,000
_ROUNDING: Final = 1e-9


def common_beginning(a: NDArray[Any], b: NDArray[Any]) -> int:
    """How many items two sequences have in common before the first other one."""
    shorter = min(len(a), len(b))
    differs = np.flatnonzero(a[:shorter] != b[:shorter])
    return int(differs[0]) if len(differs) else shorter


def best_pairs(left: Sequence[T], right: Sequence[T], score: Callable[[T, T], float]) -> Aligned[T]:
    """The alignment of two sequences with the largest sum of scores; a score of 0 is no match.

    Sequences too long for one table (no real network's) are cut into pieces that are aligned one after the other.
    """
    rows, columns = len(left), len(right)
    if rows * columns > MAX_CELLS and min(rows, columns) > 1:
        return _piecewise(left, right, score, pieces=min(-(-rows * columns // MAX_CELLS), rows, columns))
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        below, here, item = best[i + 1], best[i], left[i]
        for j in range(columns - 1, -1, -1):
            value = max(below[j], here[j + 1])
            gain = score(item, right[j])
            here[j] = max(value, gain + below[j + 1]) if gain else value
    return _trace(left, right, score, best)


def _piecewise(left: Sequence[T], right: Sequence[T], score: Callable[[T, T], float], pieces: int) -> Aligned[T]:
    aligned: Aligned[T] = []
    for number in range(pieces):
        pairs: Aligned[T] = best_pairs(_piece(left, number, pieces), _piece(right, number, pieces), score)
        aligned.extend(pairs)
    return aligned


def _piece(whole: Sequence[T], number: int, pieces: int) -> Sequence[T]:
    return whole[number * len(whole) // pieces : (number + 1) * len(whole) // pieces]


def _trace(
    left: Sequence[T], right: Sequence[T], score: Callable[[T, T], float], best: list[list[float]]
) -> Aligned[T]:
    aligned: Aligned[T] = []
    i = j = 0
    while i < len(left) and j < len(right):
        gain = score(left[i], right[j])
        if gain and gain + best[i + 1][j + 1] >= best[i][j] - _ROUNDING:
            aligned.append((left[i], right[j]))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            aligned.append((left[i], None))
            i += 1
        else:
            aligned.append((None, right[j]))
            j += 1
    return [*aligned, *((item, None) for item in left[i:]), *((None, item) for item in right[j:])]
