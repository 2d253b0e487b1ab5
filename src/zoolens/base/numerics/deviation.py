"""How far a computed tensor lies from an exact one, and what that means beside a floor of rounding.

Training in lockstep and the comparison of two stacks layer by layer both measure with this one.
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
    """How far a tensor is from the exact one, relative to the larger of the two: never more than 2. `why`: "value" or,
    with an infinite error, what cannot be compared."""

    error: float
    why: Why = "value"

    def verdict(self, floor: float) -> Verdict:
        """Blind: rounding alone moves the quantity by its own size, so that nothing can be told from it."""
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
    """The same for computations that may rightly hold numbers that are not finite, such as masks of minus infinity.

    A place where both have the same infinity, or where both have no number, is equal and does not count. A place where
    only one of the two is finite, or where their infinities differ, makes the deviation infinite.
    """
    if computed.shape != exact.shape:
        return Deviation(math.inf, "shape")
    finite = np.isfinite(computed) & np.isfinite(exact)
    if finite.all():
        return deviation(computed, exact)
    alike = finite | (computed == exact) | (np.isnan(computed) & np.isnan(exact))
    return deviation(computed[finite], exact[finite]) if alike.all() else Deviation(math.inf, "not finite")


def root_mean_square(array: Array) -> float:
    return float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0


def first_beyond(measured: Iterable[tuple[T, Deviation, float]]) -> T | None:
    """The first of some quantities, in their order, whose deviation is beyond its floor."""
    return next((quantity for quantity, moved, floor in measured if moved.verdict(floor) == "beyond"), None)
