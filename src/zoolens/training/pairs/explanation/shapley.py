"""Shares of a gap. Everything here is a weighted sum of the cells' accuracies, so each seed gives one value, and the
values over the seeds give the interval: seeds are shared by all cells, and what they have in common cancels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.base.statistics.student import Estimate, Values, count_rounding, mean_estimate, ratio_interval
from zoolens.training.pairs.explanation.design import Design

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ShapleyShare:
    """The part of a gap that is due to one player."""

    name: str
    points: Estimate  # the part of the gap b − a, in accuracy
    share: Estimate  # of the whole; its interval is Fieller's, None where the gap may be 0


@dataclass(frozen=True)
class Interaction:
    """How much more two switches do together than each alone, averaged over all else. `pairs`: the one it is, or all
    that the design cannot tell apart, whose sum it is."""

    pairs: tuple[tuple[str, str], ...]
    points: Estimate


def shapley_weights(design: Design) -> Matrix:
    """Players × cells. The exact Shapley values of a full design; main effects of a fraction."""
    return np.array([_player_weights(design, player) for player in range(design.players)])


def _player_weights(design: Design, player: int) -> list[float]:
    if not design.full:
        return [(1 if cell >> player & 1 else -1) * 2 / len(design.cells) for cell in design.cells]
    n = design.players
    weights = []
    for cell in design.cells:
        size = cell.bit_count()
        joined = bool(cell >> player & 1)
        others = size - 1 if joined else size
        weight = math.factorial(others) * math.factorial(n - others - 1) / math.factorial(n)
        weights.append(weight if joined else -weight)
    return weights


def shares(
    design: Design, names: tuple[str, ...], table: Matrix, images: int | None = None
) -> tuple[tuple[ShapleyShare, ...], ShapleyShare | None]:
    """`table`: seeds × cells. The players' shares, and what a fraction leaves to no player: interactions of three and
    more. None: the shares add up to the gap, as in a full design, or in a fraction with as many players as it can
    hold. `images`: how many test images each accuracy counts, None where nobody knows it."""
    weights = shapley_weights(design)
    gap = np.zeros(len(design.cells))
    gap[design.cells.index((1 << design.players) - 1)], gap[design.cells.index(0)] = 1, -1
    parts = tuple(_share(name, weights[place], gap, table, images) for place, name in enumerate(names))
    if design.full or 2 * design.players == len(design.cells):
        return parts, None
    return parts, _share("no single one", gap - weights.sum(axis=0), gap, table, images)


def _share(name: str, weights: Values, gap_weights: Values, table: Matrix, images: int | None) -> ShapleyShare:
    both = np.stack([weights, gap_weights])
    part, gap = both @ table.T
    rounding = both @ both.T * count_rounding(images)
    whole = float(gap.mean())
    share = float(part.mean()) / whole if whole else 0.0
    return ShapleyShare(name, mean_estimate(part, rounding[0, 0]), Estimate(share, ratio_interval(part, gap, rounding)))


def interactions(
    design: Design, names: tuple[str, ...], table: Matrix, images: int | None = None
) -> tuple[Interaction, ...]:
    """Returns the interactions of two players each, the largest first. `images`: how many test images each accuracy
    counts."""
    effects = []
    for chain in design.chains():
        i, j = chain[0]
        signs = [1.0 if (cell >> i & 1) == (cell >> j & 1) else -1.0 for cell in design.cells]
        weights = 4 * np.array(signs) / len(design.cells)
        points = mean_estimate(table @ weights, float(weights @ weights) * count_rounding(images))
        effects.append(Interaction(tuple((names[i], names[j]) for i, j in chain), points))
    return tuple(sorted(effects, key=lambda effect: -abs(effect.points.value)))
