"""Shares of a gap. Everything here is a weighted sum of the cells' accuracies, so each seed gives one value, and the
values over the seeds give the interval: seeds are shared by all cells, and what they have in common cancels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zoolens.crosstrain.study.explanation.design import Design
from zoolens.statistics.student import Estimate, Values, mean_estimate, ratio_interval

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """`points`: the part of the gap b − a, in accuracy; `share`: of the whole; its interval is Fieller's, None where
    the gap may be 0."""

    name: str
    points: Estimate
    share: Estimate


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
    found = []
    for cell in design.cells:
        size = cell.bit_count()
        joined = bool(cell >> player & 1)
        others = size - 1 if joined else size
        weight = math.factorial(others) * math.factorial(n - others - 1) / math.factorial(n)
        found.append(weight if joined else -weight)
    return found


def shares(design: Design, names: tuple[str, ...], table: Matrix) -> tuple[tuple[Share, ...], Share | None]:
    """`table`: seeds × cells. The players' shares, and what a fraction leaves to no player: interactions of three and
    more. None: the shares add up to the gap, as in a full design, or in a fraction with as many players as it can
    hold."""
    parts = table @ shapley_weights(design).T
    gap = table[:, design.cells.index((1 << design.players) - 1)] - table[:, design.cells.index(0)]
    found = tuple(_share(name, parts[:, place], gap) for place, name in enumerate(names))
    if design.full or 2 * design.players == len(design.cells):
        return found, None
    return found, _share("no single one", gap - parts.sum(axis=1), gap)


def _share(name: str, part: Values, gap: Values) -> Share:
    whole = float(gap.mean())
    share = float(part.mean()) / whole if whole else 0.0
    return Share(name, mean_estimate(part), Estimate(share, ratio_interval(part, gap)))


def interactions(design: Design, names: tuple[str, ...], table: Matrix) -> tuple[Interaction, ...]:
    """Of two players each, the largest first."""
    found = []
    for chain in design.chains():
        i, j = chain[0]
        signs = [1 if (cell >> i & 1) == (cell >> j & 1) else -1 for cell in design.cells]
        points = mean_estimate(4 * (table @ np.array(signs, np.float64)) / len(design.cells))
        found.append(Interaction(tuple((names[i], names[j]) for i, j in chain), points))
    return tuple(sorted(found, key=lambda one: -abs(one.points.value)))
