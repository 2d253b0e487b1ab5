"""Tensors that two runtimes show under one name, where graphs cannot be read or aligned.

Copies of one file, and what converters make of it, keep the names of tensors. No floor of rounding can be measured for
them, and nothing says what goes into them: they tell where the two begin to differ, and not why.
"""

from __future__ import annotations

import numpy as np

from zoolens.base.errors import UnsupportedAbility, ZoolensError
from zoolens.base.numerics.deviation import deviation_of_finite
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.inspection import InspectedLayer
from zoolens.findings.divergence.result import LayerFacts
from zoolens.findings.divergence.side_graphs import captured_within
from zoolens.findings.divergence.sides import Side
from zoolens.findings.graph.ir.model import Array
from zoolens.inventory.runtimes.observing import CapturePoint


def tensors_of_one_name(a: Side, b: Side, index: int, memory: int, floor: float) -> tuple[LayerFacts, ...]:
    """The tensors of one name and shape on one input, in the order in which A computes them."""
    try:
        points = [_points(side) for side in (a, b)]
        names = [name for name in points[0] if name in points[1]]
        shown = [
            _shown(side, index, [of[name] for name in names], memory // 2)
            for side, of in zip((a, b), points, strict=True)
        ]
    except (UnsupportedAbility, NotImplementedError, ZoolensError):
        return ()
    facts = []
    for name in names:
        one, other = (values.get(of[name].name) for values, of in zip(shown, points, strict=True))
        if one is None or other is None or one.shape != other.shape or one.dtype.kind != "f" or one.ndim < 1:
            continue
        moved = deviation_of_finite(other.astype(np.float64), one.astype(np.float64))
        facts.append(LayerFacts(name, InspectedLayer(NodePair(name, name), moved, floor, None, None)))
    return tuple(facts)


def _points(side: Side) -> dict[str, CapturePoint]:
    every = side.subject.session.capture_points()
    kept = [point for point in every if point.kept] or every  # reading others changes the computation
    return {point.tensor or point.name: point for point in kept}


def _shown(side: Side, index: int, points: list[CapturePoint], memory: int) -> dict[str, Array]:
    values, _ = captured_within(side, side.feeds(index), points, memory)
    return {name: side.first_sample(value) for name, value in values.items()}
