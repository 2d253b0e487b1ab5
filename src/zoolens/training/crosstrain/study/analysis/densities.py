"""Gaussian kernel density of values between two borders, such as accuracies: mass that a kernel would put beyond a
border is reflected, so that the curve integrates to one and does not sink at 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency

Rule = Literal["silverman", "scott"]

POINTS: Final = (401, 2001)
NARROWEST: Final = 1 / 1000  # of the range: equal values would otherwise have no width at all
REACH: Final = 5  # bandwidths beyond the outermost values that the curve is drawn
FEWEST: Final = 2
IMAGES: Final = (-1, 0, 1)  # reflections of reflections: enough for a kernel as wide as the range
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Density:
    """`height` is per unit of the value. `n` values are in it, `left_out` were not finite or beyond the borders."""

    grid: Values
    height: Values
    bandwidth: float
    rule: Rule
    n: int
    left_out: int


def density(
    values: Values,
    *,
    rule: Rule = "silverman",
    low: float = 0.0,
    high: float = 1.0,
) -> Density | None:
    """Estimates a density; None where fewer than two values are left.

    "silverman" is 0.9 · min(s, IQR / 1.34) · n^(-1/5), which keeps two humps apart; "scott" is s · n^(-1/5).
    """
    given = np.asarray(values, np.float64)
    kept = np.sort(given[(given >= low) & (given <= high)])
    if len(kept) < FEWEST:
        return None
    width = max(bandwidth(kept, rule), NARROWEST * (high - low))
    start, end = max(low, kept[0] - REACH * width), min(high, kept[-1] + REACH * width)
    grid = np.linspace(start, end, int(np.clip(2 * (end - start) / width, *POINTS)))
    height = _reflected(kept, grid, width, low, high)
    return Density(grid, height, width, rule, len(kept), len(given) - len(kept))


def bandwidth(values: Values, rule: Rule) -> float:
    spread = float(np.std(values, ddof=1))
    if rule == "silverman":
        quarter, three = np.quantile(values, [0.25, 0.75])
        middle = float(three - quarter) / 1.34
        spread = 0.9 * (min(spread, middle) if middle > 0 else spread)
    return float(spread * len(values) ** -0.2)


def _reflected(values: Values, grid: Values, width: float, low: float, high: float) -> Values:
    try:
        from sklearn.neighbors import KernelDensity
    except ImportError as error:
        raise MissingDependency("Estimating a density", "scikit-learn", "reports") from error
    estimate = KernelDensity(bandwidth=width).fit(values[:, None])
    shifts = [2 * image * (high - low) for image in IMAGES]
    mirrored = [place for shift in shifts for place in (grid + shift, 2 * low - grid + shift)]
    heights: Values = np.exp(estimate.score_samples(np.concatenate(mirrored)[:, None])).reshape(len(mirrored), -1)
    return np.asarray(heights.sum(axis=0))
