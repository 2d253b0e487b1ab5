"""Parts of an output whose numbers are much smaller than the others, so that a difference in them does not show.

Deviations are relative to a whole tensor. A detector that gives boxes in pixels beside scores from 0 to 1 in one tensor
may have every score of a class off by a thousandth, while the deviation of the tensor is that of rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.base.numerics.deviation import root_mean_square
from zoolens.findings.divergence.divergence_causes import number
from zoolens.findings.graph.ir.model import Array

_SMALL: Final = 0.25  # of the root mean square of the whole output: a part below it is small
_FEWEST: Final = 8  # numbers of a part: the deviation of fewer says little
_CLEARLY: Final = 4.0  # times the floor of the whole output


@dataclass(frozen=True)
class SmallPart:
    """One place of an axis of an output."""

    axis: int
    place: int
    error: float  # difference of both sides, relative to the numbers of this place
    size: float  # of its numbers, relative to those of the whole output

    def shows_beside(self, floor: float) -> bool:
        """Whether the difference of this part clearly exceeds the floor of the whole output."""
        return self.error > _CLEARLY * floor

    @property
    def remark(self) -> str:
        """What is to be said where the output as a whole is within its floor and this part is not."""
        return (
            f"The output holds numbers of very different size. At place {self.place} of its axis {self.axis} they are "
            f"{1 / self.size:.3g} times smaller than in the whole, and the two sides differ by {number(self.error)} "
            "relative to these; relative to the whole output, which the floor is about, that does not show. Whether "
            "rounding explains it is not known."
        )


def worst_small_part(one: Array, other: Array) -> SmallPart | None:
    """Return the small part in which two outputs of one input differ most; None if there is none.

    The first axis counts samples.
    """
    if one.shape != other.shape or one.ndim < 3 or one.dtype.kind != "f" or other.dtype.kind != "f":
        return None
    a, b = one.astype(np.float64), other.astype(np.float64)
    whole = max(root_mean_square(a), root_mean_square(b))
    if not np.isfinite(whole) or not whole:
        return None
    parts = [part for axis in range(1, a.ndim) if (part := _worst_of_axis(a, b, axis, whole)) is not None]
    return max(parts, key=lambda part: part.error, default=None)


def _worst_of_axis(a: Array, b: Array, axis: int, whole: float) -> SmallPart | None:
    extent = a.shape[axis]
    if extent < 2 or a.size // extent < _FEWEST:
        return None
    own = np.maximum(_sizes(a, axis), _sizes(b, axis))
    small = np.flatnonzero((own > 0) & (own < _SMALL * whole))
    if not small.size:
        return None
    errors = _sizes(a - b, axis)[small] / own[small]
    worst = int(errors.argmax())
    return SmallPart(axis, int(small[worst]), float(errors[worst]), float(own[small[worst]] / whole))


def _sizes(array: Array, axis: int) -> Array:
    """The root mean square of each place of an axis."""
    rest = tuple(other for other in range(array.ndim) if other != axis)
    return np.asarray(np.sqrt(np.mean(np.square(array), axis=rest)))
