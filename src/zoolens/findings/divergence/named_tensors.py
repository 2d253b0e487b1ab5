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
        points_a = _points(a)
        points_b = _points(b)
        names = [name for name in points_a if name in points_b]
        shown_a = _shown(a, index, [points_a[name] for name in names], memory // 2)
        shown_b = _shown(b, index, [points_b[name] for name in names], memory // 2)
    except (UnsupportedAbility, NotImplementedError, ZoolensError):
        return ()
    facts = []
    for name in names:
        one = shown_a.get(points_a[name].name)
        other = shown_b.get(points_b[name].name)
        if one is None or other is None or one.shape != other.shape:
            continue
        # Single numbers that a program shows are no layers, and integers may stand for reals on other grids.
        if one.dtype.kind != "f" or one.ndim < 1:
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
