"""What one or two hyperparameters do to a figure, averaged over all others as the trials have them: partial dependence
of the surrogate, exact (its kernel is a product, so the average over the trials is a sum), with a band of
two standard deviations of the surrogate, and Friedman's H for what two do together beyond what each does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.study.analysis.surrogate import Matrix, Surrogate, SurrogateInput, fit

POINTS: Final = 41
GRID: Final = 25  # of a two-way table, per side
# Standard deviations of a band. It is the surrogate's own and no confidence interval: simulated studies of 30 and 100
# trials have the true curve in it at 82 to 98 % of the points, fewest where a response jumps.
BAND: Final = 2.0
TRUSTED: Final = 0.25  # R² below which curves are not to be trusted


@dataclass(frozen=True)
class Curve:
    """`importance`: standard deviation of the curve over the trials, in units of the target."""

    input: SurrogateInput
    values: NDArray[Any]
    mean: Matrix
    low: Matrix
    high: Matrix
    importance: float


@dataclass(frozen=True)
class InputInteraction:
    """How two inputs act together."""

    inputs: tuple[SurrogateInput, SurrogateInput]
    h: float  # Friedman's H: the share (0 … 1) of the two-way dependence that is not the sum of both one-way ones
    strength: float  # the same part as a root mean square in units of the target; a large H of a weak pair is nothing


@dataclass(frozen=True)
class Surface:
    inputs: tuple[SurrogateInput, SurrogateInput]
    rows: NDArray[Any]
    columns: NDArray[Any]
    mean: Matrix  # rows × columns


@dataclass(frozen=True)
class Dependence:
    """`interactions` from the strongest on; `surface` of the first one."""

    target: str
    surrogate: Surrogate
    curves: tuple[Curve, ...]
    interactions: tuple[InputInteraction, ...]
    surface: Surface | None

    @property
    def trusted(self) -> bool:
        return self.surrogate.r_squared >= TRUSTED


def dependence(
    columns: Mapping[str, NDArray[Any]],
    target: Matrix,
    name: str,
    *,
    log: Collection[str] | None = None,
    seed: int = 0,
) -> Dependence:
    surrogate = fit(columns, target, log=log, seed=seed)
    positions = range(len(surrogate.inputs))
    alone = [_at_trials(surrogate, position) for position in positions]
    curves = tuple(_curve(surrogate, position, float(alone[position].std())) for position in positions)
    interactions = [_interaction(surrogate, pair, alone) for pair in combinations(positions, 2)]
    interactions.sort(key=lambda interaction: -interaction.strength)
    surface = (
        two_way(surrogate, interactions[0].inputs[0].name, interactions[0].inputs[1].name) if interactions else None
    )
    return Dependence(name, surrogate, curves, tuple(interactions), surface)


def two_way(surrogate: Surrogate, row: str, column: str, points: int = GRID) -> Surface:
    names = [given.name for given in surrogate.inputs]
    i, j = names.index(row), names.index(column)
    rows, columns = surrogate.inputs[i].grid(points), surrogate.inputs[j].grid(points)
    share = surrogate.weights * surrogate.others(i, j).mean(axis=0)
    mean = surrogate.mean + (surrogate.kernel(i, rows) * share) @ surrogate.kernel(j, columns).T
    return Surface((surrogate.inputs[i], surrogate.inputs[j]), rows, columns, mean)


def _curve(surrogate: Surrogate, position: int, importance: float) -> Curve:
    given = surrogate.inputs[position]
    values = given.grid(POINTS)
    others = surrogate.others(position)
    near = surrogate.kernel(position, values) * others.mean(axis=0)
    mean = surrogate.mean + near @ surrogate.weights
    variance = others.mean() - np.einsum("ij,jk,ik->i", near, surrogate.inverse, near, optimize=True)
    band = BAND * np.sqrt(surrogate.scale * np.maximum(variance, 0))
    return Curve(given, values, mean, mean - band, mean + band, importance)


def _at_trials(surrogate: Surrogate, *positions: int) -> Matrix:
    """Partial dependence at the fitted trials, less its mean."""
    kernel = np.prod([surrogate.similar[position] for position in positions], axis=0)
    response: Matrix = kernel @ (surrogate.weights * surrogate.others(*positions).mean(axis=0))
    return np.asarray(response - response.mean())


def _interaction(surrogate: Surrogate, pair: tuple[int, int], alone: list[Matrix]) -> InputInteraction:
    i, j = pair
    both = _at_trials(surrogate, i, j)
    beyond = both - alone[i] - alone[j]
    whole = float((both**2).sum())
    h = float(np.sqrt(min((beyond**2).sum() / whole, 1.0))) if whole > 0 else 0.0
    return InputInteraction((surrogate.inputs[i], surrogate.inputs[j]), h, float(np.sqrt((beyond**2).mean())))
