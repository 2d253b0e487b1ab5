"""Average precision and recall of the detections of one class, for many weights of the images at once.

The mean of precision over 101 recalls is a sum over points: each counts as often as there are recalls that it reaches
first. So no recall is searched for, and a resample costs a few sums over the matched detections.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zoolens.inventory.tasks.scoring.box_lists import Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import THRESHOLDS
from zoolens.inventory.tasks.scoring.box_pools import LIMITS, Points, Pool

RECALLS: Final = np.linspace(0, 1, 101)  # at which precision is read
# Numbers of one array, events × thresholds × rows: more does not fit into the caches.
_AT_ONCE: Final = 1 << 18
_LIMITED: Final = 1 << 13  # detections at once: a row of 20 numbers for each has 1.3 MB
_SPACING: Final = np.spacing(1)  # pycocotools adds it to a denominator that may be 0
_TABLED: Final = 1024  # numbers of true boxes below which the recalls that matches reach are tabled once, in 0.5 MB


def curve_means(pool: Pool, area: int, local: Integers, count: Floats) -> tuple[Floats, Floats]:
    """The mean precision over RECALLS, and the number of matched detections: both rows × thresholds.

    `local`: how often each image of the pool counts (rows × images); `count`: true boxes of each row, at least 1.
    """
    points = pool.points(area, int(local.max(initial=1)))
    shape = len(local), len(THRESHOLDS)
    means, found = np.zeros(shape), np.zeros(shape)
    events = len(points.matched)
    if not events:
        return means, found
    rows = max(1, _AT_ONCE // max(events * len(THRESHOLDS), len(points.ordinary.place)))
    thresholds = max(1, min(len(THRESHOLDS), 2 * _AT_ONCE // events))
    for start in range(0, len(local), rows):
        some = slice(start, start + rows)
        weights, ahead = _counted(points, local[some])
        steps = _steps(count[some])
        for begin in range(0, len(THRESHOLDS), thresholds):
            which = slice(begin, begin + thresholds)
            means[some, which], found[some, which] = _of_thresholds(points, which, weights, ahead, steps)
    return means, found


def limited_matches(pool: Pool, local: Integers) -> Floats:
    """Matched detections within all of LIMITS but the last, of boxes of all sizes: rows × thresholds × limits."""
    found = np.zeros((len(local), pool.within.shape[1]))
    for start in range(0, len(pool.limited), _LIMITED):
        some = slice(start, start + _LIMITED)
        # Products of whole numbers are exact in float64, and much quicker there.
        found += local[:, pool.limited[some]].astype(np.float64) @ pool.within[some].astype(np.float64)
    result: Floats = found.reshape(len(local), len(THRESHOLDS), len(LIMITS) - 1)
    return result


def _counted(points: Points, local: Integers) -> tuple[Integers, Integers]:
    """How often each event is there, and how many ordinary detections come before it: events × rows."""
    sums = np.zeros((len(local), len(points.ordinary.place) + 1), local.dtype)
    np.cumsum(points.ordinary.weights(local), axis=1, out=sums[:, 1:])
    return points.events.weights(local).T, sums[:, points.before].T


def _of_thresholds(
    points: Points, which: slice, weights: Integers, ahead: Integers, steps: tuple[NDArray[np.uint8], Integers]
) -> tuple[Floats, Floats]:
    """Both rows × thresholds. Arrays are events × thresholds × rows."""
    flags = points.matched[:, which]
    shape = (*flags.shape, weights.shape[1])
    matched = _Sums(shape, weights.dtype)
    np.multiply(weights[:, np.newaxis], flags[:, :, np.newaxis], out=matched.values)
    matched.accumulate(np.add)
    kept = points.taken if points.taken.shape[1] == 1 else points.taken[:, which]
    taken = _Sums((len(kept), kept.shape[1], shape[2]), weights.dtype)
    np.multiply(weights[:, np.newaxis], kept[:, :, np.newaxis], out=taken.values)
    taken.accumulate(np.add)
    taken.values += ahead[:, np.newaxis]
    precision = _Sums(shape, np.float64)
    precision.values[:] = matched.values
    precision.values /= taken.values + _SPACING
    # The largest precision at a point or after it.
    precision.accumulate(np.maximum, backwards=True)
    table, first = steps
    reached = table.take(matched.values + first)
    # Recalls that no point before has reached.
    reached[1:] -= reached[:-1].copy()
    precision.values *= reached
    return precision.total() / len(RECALLS), matched.values[-1].T.astype(np.float64)


class _Sums:
    """Numbers, events × thresholds × rows, that are accumulated over events.

    The longer of events and of thresholds × rows lies together in memory: numpy takes a few nanoseconds for each number
    of a short axis, and a fraction of one for each of a long axis.
    """

    def __init__(self, shape: tuple[int, int, int], kind: DTypeLike) -> None:
        events, thresholds, rows = shape
        self._wide = thresholds * rows >= events
        self.values: NDArray[Any] = (
            np.empty(shape, kind) if self._wide else np.empty((thresholds, rows, events), kind).transpose(2, 0, 1)
        )

    def accumulate(self, operation: np.ufunc, *, backwards: bool = False) -> None:
        values = self.values[::-1] if backwards else self.values
        if not self._wide:
            operation.accumulate(values, axis=0, out=values)
            return
        for before, here in pairwise(values):
            operation(here, before, out=here)

    def total(self) -> Floats:
        """The sum over events, rows × thresholds: added one after the other, so that events of weight 0 do not change
        how sums are rounded."""
        if not self._wide:
            self.accumulate(np.add)
            return np.asarray(self.values[-1].T)
        result: Floats = np.add.reduce(self.values, axis=0).T
        return result


def _steps(count: Floats) -> tuple[NDArray[np.uint8], Integers]:
    """A table of how many recalls a number of matches reaches, and where the part of each row begins in it."""
    if count.max(initial=0) < _TABLED:
        table, begins = _tabled()
        return table, begins[count.astype(np.int64)]
    return _reached_recalls(count)


@cache
def _tabled() -> tuple[NDArray[np.uint8], Integers]:
    table, begins = _reached_recalls(np.arange(1, _TABLED, dtype=np.float64))
    return table, np.concatenate([np.zeros(1, np.int64), begins])


def _reached_recalls(count: Floats) -> tuple[NDArray[np.uint8], Integers]:
    lengths = count.astype(np.int64) + 1
    begins = np.cumsum(lengths) - lengths
    # How many recalls need each number of matches, then how many need at most that.
    new = np.bincount((_needed(count) + begins[:, np.newaxis]).reshape(-1), minlength=int(lengths.sum()))
    reached = np.cumsum(new) - np.repeat(len(RECALLS) * np.arange(len(count)), lengths)
    return reached.astype(np.uint8), begins


def _needed(count: Floats) -> Integers:
    """The least number of matches that reaches each recall, compared as pycocotools does: rows × recalls."""
    whole = count[:, np.newaxis]
    needed = np.ceil(RECALLS * whole)
    # The product may be rounded the other way than the quotient.
    needed -= (needed > 0) & ((needed - 1) / whole >= RECALLS)
    needed += needed / whole < RECALLS
    result: Integers = needed.astype(np.int64)
    return result
