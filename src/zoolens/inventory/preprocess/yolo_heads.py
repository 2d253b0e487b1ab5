"""Boxes of YOLO networks whose file ends with the heads: one tensor for each level, which nothing has decoded.

YOLOv3 to YOLOv7 encode boxes against anchors in the cells of a grid. YOLOv8 and later have no anchors: each side is a
distribution over distances from the centre of a cell (distribution focal loss), whose mean counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.manifests.schema_boxes import LEVELS, DistanceBins, YoloAnchors
from zoolens.inventory.preprocess.box_formats import Boxes
from zoolens.inventory.preprocess.letterbox import Size
from zoolens.inventory.runtimes.runtime import shape_text

Array = NDArray[Any]
Integers = NDArray[np.int64]
HeadStep = YoloAnchors | DistanceBins

MOST_CELLS: Final = 1 << 17  # of all heads of a canvas, each with its anchors


def stride(level: str) -> int:
    """Pixels of the canvas between two cells of a level: 8 of p3."""
    return 1 << int(level[1:])


def check_levels(step: HeadStep, levels: tuple[str, ...]) -> None:
    """ManifestError unless the step has what each level needs."""
    if isinstance(step, YoloAnchors) and len(step.anchors) != len(levels):
        raise ManifestError(
            f"The step yolo_anchors has anchors for {len(step.anchors)} levels, but parts names {', '.join(levels)}.",
            hint="Give a row of anchors for each level, that of the smallest stride first.",
        )


def head_rows(parts: Mapping[str, Array], step: HeadStep, canvas: Size) -> Array:
    """The heads of one image as boxes × numbers: level by level, anchor by anchor, cell by cell."""
    rows = []
    for place, level in enumerate(level for level in LEVELS if level in parts):
        anchors = len(step.anchors[place]) // 2 if isinstance(step, YoloAnchors) else 1
        cells = _anchors_first(parts[level], level, anchors, step)
        wanted = tuple(math.ceil(side / stride(level)) for side in canvas)
        if cells.shape[1:3] != wanted:
            raise ModelError(
                f"The part {level} has {cells.shape[1]} × {cells.shape[2]} cells, but a canvas of {canvas[0]} × "
                f"{canvas[1]} pixels has {wanted[0]} × {wanted[1]} of stride {stride(level)}.",
                hint="Level p3 has stride 8, p4 16 and p5 32. Correct parts, or layout of the step.",
            )
        rows.append(cells.reshape(-1, cells.shape[3]))
    widths = {row.shape[1] for row in rows}
    if len(widths) > 1:
        raise ModelError(
            f"The heads have {', '.join(map(str, sorted(widths)))} numbers for each box, not all the same."
        )
    return np.concatenate(rows)


def _anchors_first(head: Array, level: str, anchors: int, step: HeadStep) -> Array:
    """Anchors × rows × columns × numbers."""
    axes = {"NAHWC": 4, "NCHW": 3, "NHWC": 3}[step.layout]
    if head.ndim != axes:
        raise ModelError(
            f"The part {level} has shape {shape_text(head.shape)} for an image, not {axes} axes ({step.layout[1:]}).",
            hint="Correct layout of the step.",
        )
    if step.layout == "NAHWC":
        if head.shape[0] != anchors:
            raise ModelError(f"The part {level} has {head.shape[0]} anchors, but the manifest declares {anchors}.")
        return head
    planes = head if step.layout == "NCHW" else head.transpose(2, 0, 1)
    if planes.shape[0] % anchors:
        raise ModelError(f"The part {level} has {planes.shape[0]} channels, which {anchors} anchors do not divide.")
    return planes.reshape(anchors, -1, *planes.shape[1:]).transpose(0, 2, 3, 1)


def box_numbers(step: HeadStep) -> int:
    """How many of a row's numbers say where the box is; scores follow."""
    return 4 if isinstance(step, YoloAnchors) else 4 * step.reg_max


def decoded_heads(encoded: Array, places: Integers, step: HeadStep, levels: tuple[str, ...], canvas: Size) -> Boxes:
    """Left, top, right and bottom in pixels of the canvas, of the boxes at some places."""
    cells = _cells(step, levels, canvas)[places]
    numbers = encoded[places].astype(np.float64)
    corner, strides = cells[:, :2], cells[:, 2:3]
    if isinstance(step, DistanceBins):
        distances = _mean_bin(numbers.reshape(len(numbers), 4, step.reg_max))
        centres = corner + 0.5
        return np.concatenate([centres - distances[:, :2], centres + distances[:, 2:]], axis=1) * strides
    with np.errstate(over="ignore"):
        near = 1 / (1 + np.exp(-numbers))
        if step.decoding == "yolov5":
            centres, sides = 2 * near[:, :2] - 0.5, (2 * near[:, 2:]) ** 2
        else:
            centres, sides = near[:, :2], np.exp(numbers[:, 2:])
    middle, half = (centres + corner) * strides, sides * cells[:, 3:] / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def _mean_bin(scores: Array) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.asarray(powers @ np.arange(scores.shape[2]) / powers.sum(axis=2))


@lru_cache(maxsize=8)
def _cells(step: HeadStep, levels: tuple[str, ...], canvas: Size) -> Boxes:
    """Column, row and stride of each box, in the order of `head_rows`; and width and height of its anchor."""
    tables = []
    for place, level in enumerate(levels):
        rows, columns = (math.ceil(side / stride(level)) for side in canvas)
        pairs = np.reshape(step.anchors[place], (-1, 2)) if isinstance(step, YoloAnchors) else np.ones((1, 2))
        if rows * columns * len(pairs) > MOST_CELLS:
            raise ModelError(f"The level {level} of a canvas of {canvas} has more than {MOST_CELLS:,} boxes.")
        grid = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=2).reshape(-1, 2)
        fixed = np.c_[grid, np.full(len(grid), stride(level))]
        tables.append(np.c_[np.tile(fixed, (len(pairs), 1)), np.repeat(pairs, len(grid), axis=0)])
    return np.concatenate(tables).astype(np.float64)
