"""Where to look next in one subspace: Optuna's Gaussian process, told everything that is known, at every question.

Nothing is kept between questions: the same trials in the same order and the same seed give the same answer, so that a
search which was killed goes on as if it had not been.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import MissingDependency
from zoolens.training.crosstrain.study.search.hyperspace import Axis, Point
from zoolens.training.crosstrain.training.trials import Hyperparameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

_FEW_STEPS: Final = 16


def next_point(
    axes: Sequence[Axis], answered: Sequence[tuple[Point, float]], silent: Sequence[Point], seed: int
) -> Point:
    """The point of most promise for a large Δ.

    `silent`: points without a Δ, because they run now or failed. They are taken to give the least Δ seen (a constant
    liar), or the same point would be proposed again.
    """
    try:
        import optuna
    except ImportError as error:
        raise MissingDependency("The Gaussian-process search", "optuna", "crosstrain") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {axis.name: _distribution(axis) for axis in axes}
    sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=1, warn_independent_sampling=False)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    least = min((delta for _, delta in answered), default=0.0)
    study.add_trials(
        [
            optuna.create_trial(params=point, distributions=distributions, value=delta)
            for point, delta in [*answered, *((point, least) for point in silent)]
        ]
    )
    proposed = study.ask(distributions).params
    return {axis.name: _nearest(axis, proposed[axis.name]) for axis in axes}


def _distribution(axis: Axis) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices:
        return CategoricalDistribution(axis.choices)
    if _finely_stepped(axis):
        return FloatDistribution(axis.low - 0.5, axis.high + 0.5, log=axis.log)
    if axis.integer:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _finely_stepped(axis: Axis) -> bool:
    """Integers that are as good as a continuum: Optuna tries steps one by one, which takes twice the time."""
    return axis.integer and (axis.count or 0) > _FEW_STEPS


def _nearest(axis: Axis, value: Hyperparameter) -> Hyperparameter:
    if isinstance(value, str) or not _finely_stepped(axis):
        return value
    return int(min(max(math.floor(value + 0.5), axis.low), axis.high))
