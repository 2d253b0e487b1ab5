"""How alike two models answer that answer no classes: embeddings, regressions, other outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def vector_agreement(a: NDArray[Any], b: NDArray[Any]) -> float:
    """1 − min(1, mean relative l2); NaN where the vectors have different lengths."""
    if a.shape != b.shape:
        return float("nan")
    size = np.maximum(np.linalg.norm(a.astype(np.float64), axis=1), np.linalg.norm(b.astype(np.float64), axis=1))
    apart = np.linalg.norm(a.astype(np.float64) - b, axis=1)
    relative = np.divide(apart, size, out=np.zeros_like(apart), where=size > 0)
    return 1 - min(1.0, float(relative.mean()))
