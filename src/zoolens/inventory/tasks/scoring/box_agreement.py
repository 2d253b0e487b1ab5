"""How far two models agree on the boxes of one image, in [0, 1].

At one threshold of overlap, a box of one model and a box of the other may be paired if they have the same class and
overlap at least so much. As many disjoint pairs as possible are made, M of them. For n boxes of one model and m of the
other, the agreement is 2M / (n + m): the F1 score of either model's boxes judged by the other's. The mean over COCO's
thresholds, 0.50 to 0.95, is the agreement of the two.

- It is symmetric, because the largest number of disjoint pairs is. Greedy pairing by score or overlap is not: where
  overlaps tie, its count depends on who comes first.
- It is 1 for equal lists: each box is paired with itself.
- It is 1 if neither model has a box, and 0 if only one has.

Scores do not enter: `Detections.above` drops those that a user would not see. As in COCO, at most the 100 best boxes of
a class are compared.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from zoolens.inventory.tasks.scoring.box_lists import Detections, Flags, Floats, Integers
from zoolens.inventory.tasks.scoring.box_matching import THRESHOLDS, best_of_each_class, overlaps

_UNPAIRED: Final = -1


def box_agreement(a: Detections, b: Detections) -> float:
    """The mean over thresholds of the F1 score between two models' boxes of one image."""
    chosen_a, chosen_b = best_of_each_class(a), best_of_each_class(b)
    total = len(chosen_a) + len(chosen_b)
    if total == 0:
        return 1.0
    classes_a, classes_b = a.classes[chosen_a], b.classes[chosen_b]
    common = np.intersect1d(classes_a, classes_b)
    bounds_a = np.searchsorted(classes_a, [common, common + 1]).T
    bounds_b = np.searchsorted(classes_b, [common, common + 1]).T
    pairs = np.zeros(len(THRESHOLDS), np.int64)
    for (first_a, last_a), (first_b, last_b) in zip(bounds_a, bounds_b, strict=True):
        ours, theirs = a.boxes[chosen_a[first_a:last_a]], b.boxes[chosen_b[first_b:last_b]]
        pairs += _largest_matchings(_all_overlaps(ours, theirs))
    return float((2 * pairs / total).mean())


def _all_overlaps(ours: Floats, theirs: Floats) -> Floats:
    nobody = np.zeros(len(theirs), bool)
    found = overlaps(ours, theirs, nobody)
    # The overlap of an empty box with itself would be 0 / 0.
    same = (ours[:, np.newaxis] == theirs).all(axis=2)
    result: Floats = np.where(same, 1.0, found)
    return result


def _largest_matchings(overlap: Floats) -> Integers:
    """The largest number of disjoint pairs at each threshold.

    Pairs of a high threshold are allowed at a lower one too, so each threshold starts with those of the next higher.
    """
    partner = np.full(overlap.shape[1], _UNPAIRED)
    paired = np.zeros(overlap.shape[0], bool)
    counts = np.zeros(len(THRESHOLDS), np.int64)
    for place in reversed(range(len(THRESHOLDS))):
        allowed = overlap >= THRESHOLDS[place]
        for row in np.flatnonzero(~paired & allowed.any(axis=1)).tolist():
            paired[row] = _augment(row, allowed, partner)
        counts[place] = paired.sum()
    return counts


def _augment(start: int, allowed: Flags, partner: Integers) -> bool:
    """Pairs one more row by an augmenting path (Kuhn's algorithm, breadth first); False: no path exists.

    By Berge's theorem a matching without augmenting paths is a largest one. A row that has none now has none after
    others were paired, so that each is tried once.
    """
    came_from = np.full(allowed.shape[1], _UNPAIRED)
    waiting = [start]
    for row in waiting:
        reached = np.flatnonzero(allowed[row] & (came_from == _UNPAIRED))
        came_from[reached] = row
        free = reached[partner[reached] == _UNPAIRED]
        if len(free):
            _flip(int(free[0]), start, came_from, partner)
            return True
        waiting += partner[reached].tolist()
    return False


def _flip(column: int, start: int, came_from: Integers, partner: Integers) -> None:
    """Exchanges paired and unpaired edges along the path that ends in a free column."""
    while True:
        row = int(came_from[column])
        before = np.flatnonzero(partner == row)
        partner[column] = row
        if row == start:
            return
        column = int(before[0])
