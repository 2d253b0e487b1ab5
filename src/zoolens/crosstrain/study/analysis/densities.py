"""Gaussian kernel density of values between two borders, such as accuracies: mass that a kernel would put beyond a
border is reflected, so that the curve integrates to one and does not sink at 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Rule = Literal["silverman", "scott"]

POINTS: Final = (401, 2001)
NARROWEST: Final = 1 / 1000  # of the range: equal values would otherwise have no width at all
REACH: Final = 5  # bandwidths beyond the outermost values that the curve is drawn
FEWEST: Final = 2
IMAGES: Final = (-1, 0, 1)  # reflections of reflections: enough for a kernel as wide as the range
BLOCK: Final = 2_000_000  # numbers held at once


@dataclass(frozen=True)
class Density:
    """`height` is per unit of the value. `n` values are in it, `left_out` were not finite or beyond the borders."""

    grid: NDArray[np.float64]
    height: NDArray[np.float64]
    bandwidth: float
    rule: Rule
    n: int
    left_out: int


def density(
    values: NDArray[np.float64],
    *,
    rule: Rule = "silverman",
    low: float = 0.0,
    high: float = 1.0,
) -> Density | None:
    """None where fewer than two values are left.

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


def bandwidth(values: NDArray[np.float64], rule: Rule) -> float:
    spread = float(np.std(values, ddof=1))
    if rule == "silverman":
        quarter, three = np.quantile(values, [0.25, 0.75])
        middle = float(three - quarter) / 1.34
        spread = 0.9 * (min(spread, middle) if middle > 0 else spread)
    return float(spread * len(values) ** -0.2)


def _reflected(
    values: NDArray[np.float64], grid: NDArray[np.float64], width: float, low: float, high: float
) -> NDArray[np.float64]:
    total = np.zeros(len(grid))
    block = max(1, BLOCK // len(grid))
    for start in range(0, len(values), block):
        part = values[start : start + block]
        for image in IMAGES:
            shift = 2 * image * (high - low)
            total += _bells(grid, part + shift, width) + _bells(grid, 2 * low - part + shift, width)
    return np.asarray(total / (len(values) * width * np.sqrt(2 * np.pi)))


def _bells(grid: NDArray[np.float64], centres: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.exp(-0.5 * ((grid[:, None] - centres[None, :]) / width) ** 2).sum(axis=1)
    return found
