"""One constant that turns numbers into others: logits at another temperature, outputs in percent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_LEFT: Final = 1e-3  # of the largest difference; float32 leaves some 1e-6
_NO_CHANGE: Final = 1e-3  # of the factor: then it explains nothing


@dataclass(frozen=True)
class CommonFactor:
    """A constant by which one array has to be multiplied to become another."""

    factor: float
    before: float  # the largest difference without the factor
    left: float  # the largest difference with it


def common_factor(ours: NDArray[Any], theirs: NDArray[Any]) -> CommonFactor | None:
    """Returns the positive constant that turns `ours` into `theirs` by least squares; None if it leaves more than a
    thousandth of the largest difference."""
    a = np.asarray(ours, np.float64).ravel()
    b = np.asarray(theirs, np.float64).ravel()
    squares = float(a @ a)
    if a.shape != b.shape or not np.isfinite(squares) or not squares or not np.isfinite(b).all():
        return None
    factor = float(a @ b) / squares
    before = float(np.abs(b - a).max())
    left = float(np.abs(b - factor * a).max())
    explains = factor > 0 and abs(factor - 1) > _NO_CHANGE and left <= _LEFT * before
    return CommonFactor(factor, before, left) if explains else None
