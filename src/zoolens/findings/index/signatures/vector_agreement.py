"""How alike two models answer that answer no classes: embeddings, regressions, other outputs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_PIECE: Final = 1 << 20  # numbers worked on at once: signatures of many inputs are larger than memory


def vector_agreement(a: NDArray[Any], b: NDArray[Any]) -> float:
    """1 − min(1, mean relative l2); NaN where the vectors have different lengths."""
    if a.shape != b.shape:
        return float("nan")
    step = max(1, _PIECE // max(1, a.shape[1]))
    total = sum(relative_distances(a[at : at + step], b[at : at + step]).sum() for at in range(0, len(a), step))
    return 1 - min(1.0, float(total) / len(a))


def relative_distances(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """‖a − b‖ / max(‖a‖, ‖b‖), row by row; 0 where both are 0."""
    ours, theirs = a.astype(np.float64), b.astype(np.float64)
    size = np.maximum(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1))
    apart = np.linalg.norm(ours - theirs, axis=1)
    return np.asarray(np.divide(apart, size, out=np.zeros_like(apart), where=size > 0))
