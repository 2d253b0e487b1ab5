"""Boxes that a network gives relative to fixed places of its canvas: SSD's anchors and the cells of a grid.

The anchors are those of MediaPipe's SsdAnchorsCalculator, which are also those of TensorFlow's SSD models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError
from zoolens.inventory.manifests.schema_boxes import SsdAnchors, YoloxGrid
from zoolens.inventory.preprocess.box_formats import Boxes
from zoolens.inventory.preprocess.letterbox import Size

_LOWEST: Final = ((0.1, 1.0), (None, 2.0), (None, 0.5))  # scale and aspect ratio; None: the layer's own scale
_MOST: Final = 1 << 17  # anchors of a canvas


def decoded(encoded: NDArray[Any], places: NDArray[np.int64], step: SsdAnchors | YoloxGrid, canvas: Size) -> Boxes:
    """Centre x, centre y, width and height in pixels of the canvas, of some of a network's boxes (those at `places`).

    `encoded`: what the network gave for all boxes of one image.
    """
    fixed = anchor_boxes(step, canvas)
    if len(fixed) != len(encoded):
        raise ModelError(
            f"The model has {len(encoded):,} boxes for an image, but the step {step.op} makes {len(fixed):,} of a "
            f"canvas of {canvas[1]} × {canvas[0]} pixels.",
            hint="Correct its strides and what follows them.",
        )
    numbers, anchors = encoded[places].astype(np.float64), fixed[places]
    if isinstance(step, YoloxGrid):
        stride = anchors[:, 2:]
        with np.errstate(over="ignore"):
            return np.concatenate([(numbers[:, :2] + anchors[:, :2]) * stride, np.exp(numbers[:, 2:]) * stride], axis=1)
    order = [1, 0, 3, 2] if step.order == "yxhw" else [0, 1, 2, 3]
    scaled = (numbers * np.array(step.variances))[:, order]
    centres = scaled[:, :2] * anchors[:, 2:] + anchors[:, :2]
    with np.errstate(over="ignore"):
        sides = (np.exp(scaled[:, 2:]) if step.exponential else scaled[:, 2:]) * anchors[:, 2:]
    return np.concatenate([centres, sides], axis=1) * np.array([canvas[1], canvas[0]] * 2, np.float64)


@lru_cache(maxsize=8)
def anchor_boxes(step: SsdAnchors | YoloxGrid, canvas: Size) -> Boxes:
    """One row for each box, in the network's order: of SSD centre x, centre y, width and height as shares of the
    canvas; of a grid column, row and twice the stride."""
    if sum(rows * columns for rows, columns in (_cells(canvas, stride) for stride in step.strides)) > _MOST:
        raise ModelError(f"The strides {step.strides} make more than {_MOST:,} boxes of a canvas of {canvas}.")
    if isinstance(step, YoloxGrid):
        layers = [
            np.c_[_grid(canvas, stride), np.full((math.prod(_cells(canvas, stride)), 2), stride)]
            for stride in step.strides
        ]
        return np.concatenate(layers).astype(np.float64)
    return np.concatenate(list(_ssd_layers(step, canvas)))


def _ssd_layers(step: SsdAnchors, canvas: Size) -> Iterator[Boxes]:
    """Layers of the same stride, one after the other, share their cells: each cell has the anchors of all of them."""
    first = 0
    while first < len(step.strides):
        last = first
        while last + 1 < len(step.strides) and step.strides[last + 1] == step.strides[first]:
            last += 1
        shapes = np.array([shape for layer in range(first, last + 1) for shape in _shapes(step, layer)])
        rows, columns = _cells(canvas, step.strides[first])
        centres = (_grid(canvas, step.strides[first]) + step.offset) / np.array([columns, rows])
        sides = np.ones_like(shapes) if step.fixed_size else shapes
        yield np.concatenate([np.repeat(centres, len(sides), axis=0), np.tile(sides, (len(centres), 1))], axis=1)
        first = last + 1


def _shapes(step: SsdAnchors, layer: int) -> list[tuple[float, float]]:
    """Width and height of a layer's anchors, as shares of the canvas."""
    scale = _scale(step, layer)
    if layer == 0 and step.reduce_lowest:
        pairs = [(scale if own is None else own, ratio) for own, ratio in _LOWEST]
    else:
        pairs = [(scale, ratio) for ratio in step.aspect_ratios]
        if step.interpolated_ratio > 0:
            following = 1.0 if layer == len(step.strides) - 1 else _scale(step, layer + 1)
            pairs.append((math.sqrt(scale * following), step.interpolated_ratio))
    return [(scale * math.sqrt(ratio), scale / math.sqrt(ratio)) for scale, ratio in pairs]


def _scale(step: SsdAnchors, layer: int) -> float:
    if len(step.strides) == 1:
        return (step.min_scale + step.max_scale) / 2
    return step.min_scale + (step.max_scale - step.min_scale) * layer / (len(step.strides) - 1)


def _cells(canvas: Size, stride: int) -> Size:
    return math.ceil(canvas[0] / stride), math.ceil(canvas[1] / stride)


def _grid(canvas: Size, stride: int) -> NDArray[np.int64]:
    """Column and row of each cell, row by row."""
    rows, columns = _cells(canvas, stride)
    return np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=2).reshape(-1, 2)
