"""Non-maximum suppression, with what libraries differ in said by name.

Boxes are taken by descending score, of equal scores the first; each removes later boxes that overlap it too much.

- `class_aware`: a box removes only boxes of its own class. ONNX Runtime is class-aware; TensorFlow's
  `non_max_suppression` sees one class.
- `strict`: a box is removed if its overlap is larger than the threshold, not if it equals it. Both are strict.
- `offset` 1: right and bottom are the last pixel inside, so that sides are one longer, as in Fast R-CNN's code. Both
  libraries have offset 0.

Soft-NMS, which lowers scores instead of removing boxes, is not supported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.preprocess.box_formats import Boxes, checked

Integers = NDArray[np.int64]

MAX_BOXES: Final = 1 << 17  # of one image that are looked at
MAX_KEPT: Final = 10_000  # each box that is kept is compared with all that are left


@dataclass(frozen=True)
class Suppression:
    """What is removed, and how many boxes are left at most."""

    overlap: float
    most: int
    class_aware: bool = True
    strict: bool = True
    offset: int = 0
    kind: str = "hard"

    def __post_init__(self) -> None:
        if self.kind != "hard":
            raise ManifestError(
                f"Non-maximum suppression of kind {self.kind!r} is not supported.", hint="Known: hard. Not soft-NMS."
            )
        if not 0 <= self.overlap <= 1:
            raise ManifestError(f"The overlap of non-maximum suppression must lie in [0, 1]; got {self.overlap}.")
        if not 1 <= self.most <= MAX_KEPT:
            raise ManifestError(f"Non-maximum suppression keeps 1 to {MAX_KEPT:,} boxes; got {self.most}.")
        if self.offset not in (0, 1):
            raise ManifestError(f"The offset of box sides is 0 or 1; got {self.offset}.")


def suppress(boxes: ArrayLike, scores: ArrayLike, classes: ArrayLike | None, rule: Suppression) -> Integers:
    """Places of the boxes (xyxy) that are kept, by descending score. `classes`: None if the rule knows none."""
    corners, values, labels = _checked(boxes, scores, classes, rule)
    waiting = np.argsort(-values, kind="stable")
    areas = _areas(corners, rule.offset)
    kept: list[int] = []
    while len(waiting) and len(kept) < rule.most:
        best, waiting = int(waiting[0]), waiting[1:]
        kept.append(best)
        overlap = _overlap(corners[best], areas[best], corners[waiting], areas[waiting], rule.offset)
        removed = overlap > rule.overlap if rule.strict else overlap >= rule.overlap
        if labels is not None:
            removed &= labels[waiting] == labels[best]
        waiting = waiting[~removed]
    return np.array(kept, np.int64)


def _checked(
    boxes: ArrayLike, scores: ArrayLike, classes: ArrayLike | None, rule: Suppression
) -> tuple[Boxes, NDArray[np.float64], NDArray[Any] | None]:
    corners, values = checked(boxes, "xyxy"), np.asarray(scores, np.float64)
    if len(corners) > MAX_BOXES:
        raise ModelError(f"The model has {len(corners):,} boxes for one image; at most {MAX_BOXES:,} are looked at.")
    if values.shape != (len(corners),):
        raise ModelError(f"The model has {len(corners)} boxes, but scores of shape {values.shape}.")
    if np.isnan(values).any():
        raise ModelError(f"The score of box {int(np.flatnonzero(np.isnan(values))[0])} is NaN.")
    if not rule.class_aware:
        return corners, values, None
    labels = np.asarray([] if classes is None else classes)
    if labels.shape != (len(corners),):
        raise ModelError(f"The model has {len(corners)} boxes, but classes of shape {labels.shape}.")
    return corners, values, labels


def _areas(corners: Boxes, offset: int) -> NDArray[np.float64]:
    result: NDArray[np.float64] = (corners[:, 2] - corners[:, 0] + offset) * (corners[:, 3] - corners[:, 1] + offset)
    return result


def _overlap(box: Boxes, area: float, others: Boxes, areas: NDArray[np.float64], offset: int) -> NDArray[np.float64]:
    width = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0]) + offset
    height = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1]) + offset
    shared = np.maximum(width, 0) * np.maximum(height, 0)
    union = area + areas - shared
    # Two empty boxes have no union; they do not overlap.
    result: NDArray[np.float64] = np.divide(shared, union, out=np.zeros(len(others)), where=union > 0)
    return result
