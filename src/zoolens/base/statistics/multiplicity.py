"""Corrections for many comparisons at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def corrected(alpha: float, candidates: int) -> float:
    """Bonferroni: the alpha of each of several bounds so that, with confidence 1 − alpha, all of them hold.

    `candidates` counts everything that might have been chosen: they must be named by what is known without the answers
    on the probe inputs (cost, family, zoo). To count only those that looked good on them would be to look twice.
    """
    if candidates < 1:
        raise ValueError(f"There are {candidates} candidates: at least one is needed.")
    return alpha / candidates


def holm(p_values: Sequence[float] | NDArray[Any]) -> NDArray[np.float64]:
    """Adjusted p-values of several tests that are reported together: those ≤ alpha may all be believed at once."""
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given, kind="stable")
    stepped = given[order] * np.arange(len(given), 0, -1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return adjusted
