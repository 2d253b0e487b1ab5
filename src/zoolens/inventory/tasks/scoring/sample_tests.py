"""Do two models write texts of one distribution? A test of drawn continuations, which knows nothing but the texts.

Two texts are as alike as the share of their positions with the same token. The distance of two models on a prompt is by
how much two texts of one model are more alike than one of each: the squared maximum mean discrepancy of that kernel
(Gretton et al., 2012; Gao et al., 2024, for models behind endpoints). It is 0 where every position has one distribution
in both, and estimated without bias from pairs of different draws. The texts of a prompt end with the longest one that
either model wrote: places behind would be alike in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.anytime import share_interval
from zoolens.base.statistics.intervals import Interval

ERROR: Final = 0.05  # how often a test finds a difference where there is none
SAME_WITHIN: Final = 0.05  # a squared distance that is surely below it is called the same
ENDED: Final = -1  # behind the end of a drawn text
_SHUFFLES: Final = 999
_LEAST: Final = 2  # draws of a prompt: an estimate takes pairs of them

Draws = NDArray[Any]  # draws × tokens
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SampleFigures:
    """What the draws of two models tell. `interval`: of the mean squared distance, over prompts.
    `repeated`: both drew the same texts, and not one text only, as runs with the same random numbers do."""

    prompts: int
    draws: int  # of each model for each prompt
    distance: float
    interval: Interval
    p_value: float
    repeated: bool = False

    @property
    def same(self) -> bool | None:
        """None: the draws do not tell."""
        if self.repeated:
            return None
        if self.p_value <= ERROR:
            return False
        return True if self.interval.high <= SAME_WITHIN else None


def sample_figures(a: Sequence[Draws], b: Sequence[Draws], seed: int = 0) -> SampleFigures | None:
    """The draws of both models for each prompt, as many of both and as long; None where there are too few."""
    shapes = {draws.shape for draws in (*a, *b)}
    if len(shapes) != 1:
        return None
    ((count, _),) = shapes
    if count < _LEAST:
        return None
    alike = np.stack([_alike(np.concatenate(pair)) for pair in zip(a, b, strict=True)])
    own = np.arange(2 * count) < count
    distances = _distances(alike, own[np.newaxis])[:, 0]
    observed = float(distances.mean())
    # Under the null hypothesis the draws of a prompt may change sides; those of different prompts may not.
    random = np.random.default_rng(seed)
    shuffled = np.zeros(_SHUFFLES)
    for each in alike:
        sides = random.permuted(np.tile(own, (_SHUFFLES, 1)), axis=1)
        shuffled += _distances(each[np.newaxis], sides)[0] / len(alike)
    larger = int(np.count_nonzero(shuffled >= observed - 1e-12))
    interval, _ = share_interval((distances + 2) / 4)  # each lies between −2 and 2
    low, high = (4 * end - 2 for end in (interval.low, interval.high))
    p_value = (1 + larger) / (1 + _SHUFFLES)
    return SampleFigures(len(alike), count, observed, Interval(low, high), p_value, _repeated(a, b))


def _repeated(a: Sequence[Draws], b: Sequence[Draws]) -> bool:
    varied = any((draws != draws[0]).any() for draws in a)
    return varied and all(np.array_equal(*pair) for pair in zip(a, b, strict=True))


def _alike(draws: Draws) -> Floats:
    """The share of positions with the same token, of every pair of draws; 0 of a draw with itself, which no estimate
    may use."""
    draws = draws[:, (draws != ENDED).any(axis=0)]
    if not draws.shape[1]:
        return 1 - np.eye(len(draws))
    same = np.asarray((draws[:, np.newaxis] == draws[np.newaxis]).mean(axis=2), np.float64)
    np.fill_diagonal(same, 0)
    return same


def _distances(alike: Floats, sides: NDArray[np.bool_]) -> Floats:
    """The unbiased estimates of prompts × divisions, where half of all draws are on either side."""
    first = sides.astype(np.float64)
    second = 1 - first
    count = sides.shape[1] // 2
    pairs = count * (count - 1)
    within = [np.einsum("di,pij,dj->pd", side, alike, side, optimize=True) / pairs for side in (first, second)]
    between = np.einsum("di,pij,dj->pd", first, alike, second, optimize=True) / count**2
    return np.asarray(within[0] + within[1] - 2 * between, np.float64)
