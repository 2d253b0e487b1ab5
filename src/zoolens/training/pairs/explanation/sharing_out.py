"""A gap in accuracy shared out among players, and the judgement of the re-run that fixes the culprits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.base.statistics.seeds import SeedNoise
from zoolens.base.statistics.student import Estimate, Values, count_rounding, mean_estimate
from zoolens.training.pairs.explanation.design import FRAMEWORK, Fraction, choose
from zoolens.training.pairs.explanation.results import Explained, Switch, Verification
from zoolens.training.pairs.explanation.shapley import ShapleyShare, interactions, shares

_ENOUGH: Final = 0.8  # share of the gap that the culprits must explain together
_LEAST: Final = 0.05  # share of the gap below which a setting is no culprit


def cells_of(players: int, fraction: Fraction = "auto") -> tuple[int, ...]:
    """The cells that are trained: those of the design, and what shows each player switched alone."""
    return tuple(dict.fromkeys((*choose(players, fraction).cells, *_single_cells(players))))


def explained_by(
    players: tuple[str, ...],
    trained: Callable[[Sequence[int]], Values],
    fraction: Fraction,
    level: float,
    images: int | None,
) -> Explained:
    """Share a gap out among players, whoever they are. `trained`: accuracies, seeds × cells; a cell is the set of
    players at b's value, as bits. `level`: what seeds alone show, below which no interaction is told."""
    design, cells = choose(len(players), fraction), cells_of(len(players), fraction)
    table = trained(cells)
    inside = table[:, : len(design.cells)]
    parts, unassigned = shares(design, players, inside, images)
    together = interactions(design, players, inside, images)
    columns = {cell: table[:, place] for place, cell in enumerate(cells)}
    return Explained(
        design,
        tuple(sorted(parts, key=lambda part: -part.share.value)),
        unassigned,
        tuple(_switches(players, columns, images)),
        tuple(
            interaction
            for interaction in together
            if interaction.points.excludes_zero and abs(interaction.points.value) > level
        ),
        len(together),
        {_members(players, cell): tuple(values.tolist()) for cell, values in columns.items()},
    )


def culprits_of(parts: Sequence[ShapleyShare]) -> tuple[str, ...]:
    """The settings with the largest shares, until they explain enough of the gap together or none is worth naming."""
    names: list[str] = []
    explained = 0.0
    for part in sorted(parts, key=lambda part: -part.share.value):
        if part.name != FRAMEWORK and part.share.value >= _LEAST and explained < _ENOUGH:
            names.append(part.name)
            explained += part.share.value
    return tuple(names)


def judged(
    culprits: tuple[str, ...], side: str, before: SeedNoise, after: SeedNoise, images: int | None = None
) -> Verification:
    """A gap is closed if these seeds show it, it became smaller, and its size now may be what seeds alone show.
    `images`: how many test images each accuracy counts, None where nobody knows it."""
    sign = 1 if before.difference.value > 0 else -1
    gained = mean_estimate(sign * (paired_differences(before) - paired_differences(after)), 4 * count_rounding(images))
    left = after.difference.interval
    least = 0.0 if left is None or left.contains(0.0) else min(abs(left.low), abs(left.high))
    verification = Verification(culprits, side, before, after, gained, closed=False)
    return replace(verification, closed=verification.shown and verification.narrowed and least <= (after.level or 0.0))


def paired_differences(seed_noise: SeedNoise) -> Values:
    """B − A, seed by seed."""
    return np.subtract(seed_noise.accuracies_b, seed_noise.accuracies_a)


def _single_cells(players: int) -> list[int]:
    everyone, bits = (1 << players) - 1, [1 << place for place in range(players)]
    return [0, everyone, *bits, *(everyone ^ bit for bit in bits)]


def _switches(players: tuple[str, ...], columns: dict[int, Values], images: int | None) -> list[Switch]:
    switches, rounding, everyone = [], 2 * count_rounding(images), (1 << len(players)) - 1
    for place, name in enumerate(players):
        bit = 1 << place
        in_a: Estimate = mean_estimate(columns[bit] - columns[0], rounding)
        in_b: Estimate = mean_estimate(columns[everyone ^ bit] - columns[everyone], rounding)
        switches.append(Switch(name, in_a, in_b))
    return switches


def _members(players: tuple[str, ...], cell: int) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(players) if cell >> place & 1)
