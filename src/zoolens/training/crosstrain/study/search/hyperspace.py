"""HyperSpace: a space cut into 2^D subspaces that overlap, each searched by itself so that none is neglected.

The cut is that of the published study (CrossedWires, package hyperspace) to the last bit: with s = (H − L) / 2 and
o = φ·s the halves are [L, L + s + o] and [H − (s + o), H], floored and ceiled for integers; bit i of a subspace's
index set means the lower half of dimension i. A logarithmic range is cut by the same formula on log10, which the
published code does not do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.training.crosstrain.study.study_plan import Dimension, Search
from zoolens.training.crosstrain.training.trials import Hyperparameter

Point = dict[str, Hyperparameter]

_MOST_HALVED: Final = 12  # dimensions: 4096 subspaces
_STEADY: Final = 9  # decimals at which 10**log10(x) is x again, so that no integer falls between two halves


@dataclass(frozen=True)
class Axis:
    """One dimension of a subspace: a range with both ends in it, which may be a single value, or choices."""

    name: str
    low: float = 0.0
    high: float = 0.0
    integer: bool = False
    log: bool = False
    choices: tuple[Hyperparameter, ...] = ()

    @property
    def count(self) -> int | None:
        """How many values it has; None: a continuum."""
        if self.choices:
            return len(self.choices)
        if self.integer:
            return int(self.high) - int(self.low) + 1
        return 1 if self.low == self.high else None

    def holds(self, value: object) -> bool:
        if self.choices:
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.integer or isinstance(value, int))


@dataclass(frozen=True)
class Subspace:
    """`low`: names of the dimensions of which it is the lower half."""

    index: int
    axes: tuple[Axis, ...]
    low: tuple[str, ...] = ()

    @property
    def count(self) -> int | None:
        """How many points it has; None: a continuum."""
        product = 1
        for axis in self.axes:
            if axis.count is None:
                return None
            product *= axis.count
        return product

    def holds(self, point: Point) -> bool:
        return point.keys() == {axis.name for axis in self.axes} and all(
            axis.holds(point[axis.name]) for axis in self.axes
        )


def subspaces(space: Sequence[Dimension], search: Search) -> tuple[Subspace, ...]:
    """The 2^D subspaces in the published order, which starts with all upper halves; one where nothing is halved."""
    axes = [_axis(dimension) for dimension in space]
    halved = _halved(axes, search.split)
    halves = {name: _halves(axis, search.overlap) for axis in axes if (name := axis.name) in halved}
    parts = []
    for index in range(1 << len(halved)):
        low = tuple(name for bit, name in enumerate(halved) if index >> bit & 1)
        chosen = (halves[axis.name][0 if axis.name in low else 1] if axis.name in halves else axis for axis in axes)
        parts.append(Subspace(index, tuple(chosen), low))
    return tuple(parts)


def _axis(dimension: Dimension) -> Axis:
    if dimension.choices:
        return Axis(dimension.name, choices=tuple(dict.fromkeys(dimension.choices)))
    low, high = float(dimension.low or 0), float(dimension.high or 0)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ZoolensError(f"The range of {dimension.name} is not finite.", hint="Give low and high as numbers.")
    if dimension.integer:
        low, high = math.ceil(low), math.floor(high)
        if low > high:
            raise ZoolensError(f"The range of {dimension.name} has no integer in it.", hint="Widen low and high.")
    return Axis(dimension.name, low, high, dimension.integer, dimension.log)


def _halved(axes: Sequence[Axis], split: tuple[str, ...] | None) -> tuple[str, ...]:
    """Names to halve, in the order of the space."""
    twice = [name for name, times in Counter(axis.name for axis in axes).items() if times > 1]
    if twice:
        raise ZoolensError(f"The space has {twice[0]} twice.", hint="Give each dimension once.")
    ranges = [axis.name for axis in axes if not axis.choices]
    for name in split or ():
        if name not in (axis.name for axis in axes):
            raise UnknownName("dimension", name, (axis.name for axis in axes))
        if name not in ranges:
            raise ZoolensError(f"{name} is a list of choices, which has no halves.", hint="Leave it out of `split`.")
    halved = tuple(name for name in ranges if split is None or name in split)
    if len(halved) > _MOST_HALVED:
        raise ZoolensError(
            f"Halving {len(halved)} dimensions makes {1 << len(halved):,} subspaces.",
            hint=f"Name at most {_MOST_HALVED} in `split`.",
        )
    return halved


def _halves(axis: Axis, overlap: float) -> tuple[Axis, Axis]:
    ends = (math.log10(axis.low), math.log10(axis.high)) if axis.log else (axis.low, axis.high)
    half = abs(ends[1] - ends[0]) / 2
    shared = half * overlap
    # Summed in this order: the released points tell the order by their last bits.
    upper_end, lower_end = ends[0] + half + shared, ends[1] - (half + shared)
    if axis.log:
        upper_end, lower_end = 10**upper_end, 10**lower_end
        if axis.integer:
            upper_end, lower_end = round(upper_end, _STEADY), round(lower_end, _STEADY)
    if axis.integer:
        upper_end, lower_end = math.floor(upper_end), math.ceil(lower_end)
    return replace(axis, high=min(upper_end, axis.high)), replace(axis, low=max(lower_end, axis.low))
