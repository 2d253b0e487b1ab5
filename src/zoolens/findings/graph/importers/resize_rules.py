"""Which of the vocabulary's rules a resize of a file follows: "half_pixel", "asymmetric" or "align_corners".

None is the vocabulary's default. A rule that is none of the three keeps a name of its own: the shape is then right, and
nobody computes it by another rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.reference.spatial import RESIZES, nearest_places

_SAME: Final = 1e-6  # relative: factors are float32
_LONGEST: Final = 1 << 16  # places of an axis that are worked out one by one; no image has more


@dataclass(frozen=True)
class ResizedAxis:
    """One that changes its extent. `factor` is the file's own: `after` may be less than `before` × `factor`."""

    before: int
    after: int
    factor: float

    @property
    def exact(self) -> bool:
        return abs(self.before * self.factor - self.after) <= _SAME * self.after


def resized_axis(before: int, after: int, factor: float | None = None) -> ResizedAxis:
    return ResizedAxis(before, after, after / before if factor is None else factor)


def smooth_rule(axes: Sequence[ResizedAxis], rule: str) -> str | None:
    """For weighted sums of neighbours."""
    if rule == "pytorch_half_pixel" and all(axis.after > 1 for axis in axes):
        rule = "half_pixel"
    if rule in ("half_pixel", "asymmetric") and not all(axis.exact for axis in axes):
        return f"{rule} by a factor that leaves a rest"
    return None if rule == "half_pixel" or not axes else rule


def nearest_rule(axes: Sequence[ResizedAxis], rule: str, rounding: str) -> str | None:
    """The first of the rules that choose the same places, so that the many names for a plain doubling become one."""
    own = f"{rule}, {rounding}"
    if rule not in _PLACES or rounding not in _ROUNDINGS or any(axis.after > _LONGEST for axis in axes):
        return own
    chosen = [_ROUNDINGS[rounding](_PLACES[rule](axis)).clip(0, axis.before - 1) for axis in axes]
    for known in RESIZES:
        expected = [nearest_places(axis.before, axis.after, known) for axis in axes]
        if all(np.array_equal(ours, theirs) for ours, theirs in zip(chosen, expected, strict=True)):
            return None if known == RESIZES[0] else known
    return own


def _rows(axis: ResizedAxis) -> Array:
    return np.arange(axis.after)


def _half_pixel(axis: ResizedAxis) -> Array:
    return np.asarray((_rows(axis) + 0.5) / axis.factor - 0.5)


_PLACES: Final[dict[str, Callable[[ResizedAxis], Array]]] = {
    "asymmetric": lambda axis: _rows(axis) / axis.factor,
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda axis: _half_pixel(axis) if axis.after > 1 else np.zeros(1),
    "tf_half_pixel_for_nn": lambda axis: (_rows(axis) + 0.5) / axis.factor,
    "align_corners": lambda axis: _rows(axis) * (axis.before - 1) / max(axis.after - 1, 1),
}
_ROUNDINGS: Final[dict[str, Callable[[Array], Array]]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
}
