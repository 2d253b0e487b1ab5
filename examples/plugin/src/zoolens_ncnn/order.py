"""A trade: every halving of what a model costs is worth two points of agreement with the reference."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WORTH = 0.02


def bargain(equivalence: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    return equivalence - WORTH * np.log2(cost)
