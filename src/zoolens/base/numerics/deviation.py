"""How far a computed tensor lies from an exact one, and what that means beside a floor of rounding.

Training in lockstep and the comparison of two environments layer by layer both measure with this one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Why = Literal["value", "missing", "extra", "shape", "not finite"]
Verdict = Literal["within", "beyond", "blind"]
T = TypeVar("T")


@dataclass(frozen=True)
class Deviation:
    """How far a tensor is from the exact one, relative to the larger of the two: never more than 2."""

    error: float
    why: Why = "value"  # with an infinite error: why the two cannot be compared

    def verdict(self, floor: float) -> Verdict:
        """Returns whether the error exceeds the floor; "blind" where rounding alone is as large as the quantity."""
        if self.why in ("missing", "extra", "shape"):
            return "beyond"
        if floor >= 1:
            return "blind"
        return "within" if self.error <= floor else "beyond"


def deviation(computed: Array, exact: Array) -> Deviation:
    """The root mean square of the difference, relative to the larger root mean square of the two."""
    if computed.shape != exact.shape:
        return Deviation(math.inf, "shape")
    if not np.isfinite(computed).all() or not np.isfinite(exact).all():
        return Deviation(math.inf, "not finite")
    larger = max(root_mean_square(computed), root_mean_square(exact))
    return Deviation(root_mean_square(computed - exact.astype(np.float64)) / larger if larger else 0.0)


def deviation_of_finite(computed: Array, exact: Array) -> Deviation:
    """Returns the deviation over the finite elements, for tensors that may hold infinities, such as attention masks.

    Elements where both have the same infinity, or both NaN, are equal and do not count. An element where only one of
    the two is finite, or where their infinities differ, makes the deviation infinite.
    """
    if computed.shape != exact.shape:
        return Deviation(math.inf, "shape")
    finite = np.isfinite(computed) & np.isfinite(exact)
    if finite.all():
        return deviation(computed, exact)
    equal = finite | (computed == exact) | (np.isnan(computed) & np.isnan(exact))
    if not equal.all():
        return Deviation(math.inf, "not finite")
    return deviation(computed[finite], exact[finite])


def root_mean_square(array: Array) -> float:
    if not array.size:
        return 0.0
    squares = np.square(array, dtype=np.float64)
    return float(np.sqrt(np.mean(squares)))


def first_beyond(measured: Iterable[tuple[T, Deviation, float]]) -> T | None:
    """Returns the first quantity whose deviation is beyond its floor."""
    for quantity, moved, floor in measured:
        if moved.verdict(floor) == "beyond":
            return quantity
    return None
