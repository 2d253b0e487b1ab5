"""The l2 distance of two probability vectors of which only the best scores and the sum of squares were kept.

What is known of p: its k best entries, that no other is larger than the least of these, and |p|². So the squares that
the other entries share are known too. For two vectors, over the classes

- in both lists, the difference is known;
- in one list only, the other vector's entry lies between 0 and its least kept score;
- in neither, all that is known is how much is left.

With p·q bounded on the last two by these limits and by Cauchy–Schwarz, |p − q|² = |p|² + |q|² − 2 p·q lies in an
interval that surely holds it. Scores are taken to be at least 0, as probabilities are. The stored squares were summed
in float32; the interval allows for the worst rounding that this can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.inventory.tasks.task import Answers, column

Array = NDArray[np.float64]
TOP: Final = 5  # classes of which scores are kept
UNIT_ROUNDOFF: Final = 2.0**-24  # of float32
MOST_CLASSES: Final = 1000  # assumed for rounding where the number of classes is not known


@dataclass(frozen=True)
class _Kept:
    """One side, input by input. `rest_low` and `rest_high`: squares of the entries that were not kept, in all."""

    top: NDArray[np.int32]
    score: Array
    least: Array  # no entry that was not kept is larger
    rest_low: Array
    rest_high: Array


def probability_distance(a: Answers, b: Answers) -> tuple[Array, Array]:
    """Lower and upper limit of |p − q|, input by input; both 0 where the outputs are the same bits."""
    ours, theirs = _kept(a), _kept(b)
    common = ours.top[:, :, None] == theirs.top[:, None, :]  # n × k × k
    low, high = _squared(ours, theirs, common)
    same = _same_bits(a, b)
    low = np.where(same, 0.0, np.sqrt(np.maximum(low, 0)))
    high = np.where(same, 0.0, np.sqrt(high))
    return low, np.maximum(low, high)


def _same_bits(a: Answers, b: Answers) -> NDArray[np.bool_]:
    ours, theirs = column(a, "score"), column(b, "score")
    # Equal raw outputs may still be postprocessed differently; then the scores tell.
    same_digests = column(a, "digest") == column(b, "digest")
    same_scores = ours.shape == theirs.shape and (ours == theirs).all(axis=1)
    return np.asarray(same_digests & same_scores)


def _kept(answers: Answers) -> _Kept:
    top = column(answers, "top")
    k = top.shape[1]
    # Fewer than were asked for: these are all.
    width = k if k < TOP else answers.width
    score = column(answers, "score").astype(np.float64)
    total = column(answers, "sum_squares").astype(np.float64)
    rounding = ((width or MOST_CLASSES) + 2) * UNIT_ROUNDOFF * total
    left = total - np.einsum("ij,ij->i", score, score)
    least = np.zeros(len(score)) if width == k else score[:, -1]
    limit = np.inf if width is None else (width - k) * least**2
    high = np.minimum(np.maximum(left + rounding, 0), limit)
    low = np.minimum(np.maximum(left - rounding, 0), high)
    return _Kept(top, score, least, low, high)


def _squared(a: _Kept, b: _Kept, common: NDArray[np.bool_]) -> tuple[Array, Array]:
    # q's score of each class that p has kept, where q kept it too.
    beside = np.einsum("njk,nk->nj", common, b.score)
    shared_a, shared_b = common.any(axis=2), common.any(axis=1)
    known = np.where(shared_a, (a.score - beside) ** 2, 0).sum(axis=1)
    only_a, only_b = np.where(shared_a, 0, a.score), np.where(shared_b, 0, b.score)
    squares_a, squares_b = (only_a**2).sum(axis=1), (only_b**2).sum(axis=1)
    high = known + squares_a + squares_b + a.rest_high + b.rest_high
    low = known + np.maximum.reduce(
        [
            squares_a + squares_b + a.rest_low + b.rest_low - 2 * _most_product(a, b, only_a, only_b),
            _norm_gap(squares_a + a.rest_low, squares_b + b.rest_high),
            _norm_gap(squares_b + b.rest_low, squares_a + a.rest_high),
            _beyond(only_a, b.least) + _beyond(only_b, a.least),
        ]
    )
    return low, high


def _most_product(a: _Kept, b: _Kept, only_a: Array, only_b: Array) -> Array:
    """The largest p·q that the classes outside both lists and in one list only can add."""
    return (
        _against_rest(only_a, b.least, b.rest_high)
        + _against_rest(only_b, a.least, a.rest_high)
        + np.sqrt(a.rest_high * b.rest_high)
    )


def _against_rest(kept: Array, least: Array, rest: Array) -> Array:
    """Known entries times unknown ones, none above `least` and their squares at most `rest` together."""
    by_largest = kept.sum(axis=1) * least
    by_norms = np.sqrt((kept**2).sum(axis=1) * rest)  # Cauchy–Schwarz
    return np.asarray(np.minimum(by_largest, by_norms))


def _norm_gap(smaller_than: Array, larger_than: Array) -> Array:
    """(|p| − |q|)² at least, where |p|² is at least the first and |q|² at most the second."""
    gap = np.sqrt(smaller_than) - np.sqrt(larger_than)
    return np.asarray(np.maximum(gap, 0) ** 2)


def _beyond(kept: Array, least: Array) -> Array:
    """Squares by which kept entries exceed all that the other side's entry can be."""
    excess = np.maximum(kept - least[:, None], 0)
    return np.asarray((excess**2).sum(axis=1))
