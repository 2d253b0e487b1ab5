"""Parts of one image from which mean IoU and pixel accuracy follow: how often each true class was answered as which.

The figures of a weighted set of images are those of the weighted sum of the images' counts, not means over images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zoolens.base.errors import DatasetError, ModelError, ZoolensError

Counts = NDArray[np.int64]
MAX_CLASSES: Final = 4096  # counts of one image then take 128 MiB


@dataclass(frozen=True)
class MaskFigures:
    """NaN where no pixel counts. The two means differ where a model answers a class that is nowhere in the truth."""

    mean_iou: float  # over classes that are in the truth or in an answer
    mean_iou_of_true: float  # over classes that are in the truth
    pixel_accuracy: float
    # For each class; NaN for one that is neither in the truth nor in an answer.
    iou: NDArray[np.float64]


def confusion(true: NDArray[Any], answered: NDArray[Any], classes: int, ignore: int | None = None) -> Counts:
    """Counts of pixels, true classes × answered classes. `ignore`: pixels of this true value count nowhere, whatever
    was answered there."""
    if not 1 <= classes <= MAX_CLASSES:
        raise DatasetError(f"Masks may have 1 to {MAX_CLASSES:,} classes; got {classes}.")
    if true.shape != answered.shape:
        raise ModelError(f"The model's mask has shape {answered.shape}, the true one {true.shape}.")
    for mask, whose, error in ((true, "true", DatasetError), (answered, "model's", ModelError)):
        if mask.dtype.kind not in "iu":
            raise error(f"The {whose} mask has numbers of type {mask.dtype}; classes are integers.")
    counted = np.ones(true.shape, bool) if ignore is None else true != ignore
    rows = _labels(true[counted], classes, "true", DatasetError)
    columns = _labels(answered[counted], classes, "model's", ModelError)
    counts: Counts = np.bincount(rows * classes + columns, minlength=classes * classes).astype(np.int64)
    return counts.reshape(classes, classes)


def mask_figures(parts: Sequence[Counts], weights: ArrayLike | None = None) -> MaskFigures:
    """Figures of all images. `weights`: how often each counts, integers of at least 0; each once if not given."""
    if not parts:
        raise DatasetError("There are no masks.")
    times = np.ones(len(parts), np.int64) if weights is None else np.asarray(weights)
    if times.shape != (len(parts),) or times.dtype.kind not in "iu" or (times < 0).any():
        raise DatasetError(f"Weights must be {len(parts)} integers of at least 0, one for each image.")
    total = sum((int(time) * part for time, part in zip(times, parts, strict=True)), np.zeros_like(parts[0]))
    right = np.diagonal(total)
    union = total.sum(axis=0) + total.sum(axis=1) - right
    iou = np.divide(right, union, out=np.full(len(right), np.nan), where=union > 0)
    pixels = int(total.sum())
    if pixels == 0:
        return MaskFigures(float("nan"), float("nan"), float("nan"), iou)
    of_true = iou[total.sum(axis=1) > 0]
    return MaskFigures(float(np.nanmean(iou)), float(of_true.mean()), int(right.sum()) / pixels, iou)


def _labels(values: NDArray[Any], classes: int, whose: str, error: type[ZoolensError]) -> Counts:
    outside = (values < 0) | (values >= classes)
    if outside.any():
        raise error(f"The {whose} mask has class {values[outside][0]}; classes are 0 to {classes - 1}.")
    return values.astype(np.int64)
