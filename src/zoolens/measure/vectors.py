"""How far two models' vectors lie apart, input by input: for answers that are no classes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

TOLERANCE: Final = 1e-3  # of relative l2 distance, below which two vectors count as the same answer


def relative_distance(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """|a − b| / |a|: 0 where both are 0, infinite where only a is."""
    distance, size = np.linalg.norm(a - b, axis=1), np.linalg.norm(a, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance == 0, 0.0, distance / size)


def cosine(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    """1 where both are 0: they point nowhere together."""
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(
            np.where(sizes > 0, np.einsum("ij,ij->i", a, b) / sizes, (a == b).all(axis=1).astype(np.float64))
        )
