"""Points to begin with: a scrambled Halton sequence in each subspace, scrambled differently in each.

Every digit of the radical inverse is permuted by a permutation of its own, which keeps what makes the sequence even
(the first b^k points have one in each of b^k equal cells) and gives each subspace other points. Integers and choices
take equal shares of the unit interval, so that no value, not even at the ends, is drawn more often than another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import numpy as np

from zoolens.training.crosstrain.study.published import published_study
from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point, Subspace
from zoolens.training.crosstrain.study.study_plan import Search
from zoolens.training.crosstrain.training.trials import Hyperparameter

_FINEST: Final = 1 << 40  # cells that the digits of a coordinate tell apart
_PATIENCE: Final = 100_000  # draws without a new point after which a finite space counts as used up


def design(search: Search, subspace: Subspace) -> Iterator[Point]:
    """Distinct points without end, or until a finite subspace has no more."""
    if search.design == "published":
        return _distinct(published_study().points(subspace.axes, search.seed), subspace.count)
    return _distinct(_halton_points(subspace, search.seed), subspace.count)


def halton(dimensions: int, seed: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """A scrambled Halton sequence in the unit cube, its ends not in it."""
    digits = [_permutations(base, [*seed, place]) for place, base in enumerate(_primes(dimensions))]
    for index in count():
        yield tuple(_radical_inverse(index, permutations) for permutations in digits)


def value_at(axis: Axis, share: float) -> Hyperparameter:
    """The value that lies at this share of the axis, 0 ≤ share < 1."""
    if axis.choices:
        return axis.choices[int(share * len(axis.choices))]
    if not axis.integer:
        low, high = _scaled(axis, axis.low), _scaled(axis, axis.high)
        value = low + share * (high - low)
        return min(max(10**value if axis.log else value, axis.low), axis.high)
    low, high = _scaled(axis, axis.low - 0.5), _scaled(axis, axis.high + 0.5)
    value = low + share * (high - low)
    nearest = math.floor((10**value if axis.log else value) + 0.5)
    return int(min(max(nearest, axis.low), axis.high))


def _halton_points(subspace: Subspace, seed: int) -> Iterator[Point]:
    for shares in halton(len(subspace.axes), [seed % (1 << 32), subspace.index]):
        yield {axis.name: value_at(axis, share) for axis, share in zip(subspace.axes, shares, strict=True)}


def _distinct(points: Iterator[Point], limit: int | None) -> Iterator[Point]:
    seen: set[tuple[Hyperparameter, ...]] = set()
    idle = 0
    for point in points:
        key = tuple(point.values())
        idle = idle + 1 if key in seen else 0
        if not idle:
            seen.add(key)
            yield point
        if idle > _PATIENCE or (limit is not None and len(seen) >= limit):
            return


def _scaled(axis: Axis, value: float) -> float:
    return math.log10(value) if axis.log else value


def _radical_inverse(index: int, permutations: Sequence[Sequence[int]]) -> float:
    base = len(permutations[0])
    value, weight = 0.0, 1.0
    for permutation in permutations:
        weight /= base
        index, digit = divmod(index, base)
        value += permutation[digit] * weight
    return value + weight / 2  # the middle of the finest cell


def _permutations(base: int, seed: Sequence[int]) -> list[list[int]]:
    generator = np.random.default_rng(np.random.SeedSequence(list(seed)))
    depth = math.ceil(math.log(_FINEST, base))
    return [[int(digit) for digit in generator.permutation(base)] for _ in range(depth)]


def _primes(wanted: int) -> list[int]:
    primes: list[int] = []
    for number in count(2):
        if len(primes) == wanted:
            break
        if all(number % prime for prime in primes):
            primes.append(number)
    return primes
