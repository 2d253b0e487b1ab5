"""Learning rates by step: one table that every framework follows, so that a schedule means the same everywhere.

A schedule is told in epochs. With the unit "step" the rate changes at every step, as Keras' schedules do, which count
the optimizer's steps; with "epoch" it is constant within one, as where torch's schedulers are stepped once an epoch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import Semantics


def schedule_semantics(recipe: Recipe, wanted: Semantics, habits: Semantics) -> Semantics:
    """What a side's schedule does: what it is told, or its framework's habit. None where the recipe's schedule does
    not ask for it: a constant rate has no unit, and nor have steps of whole epochs without a warm-up."""
    schedule, decided = recipe.schedule, wanted.over(habits)
    moving = schedule.name == "cosine" or bool(schedule.warmup)
    remembering = schedule.varies and recipe.optimizer.momentum and recipe.optimizer.name in ("sgd", "rmsprop")
    return Semantics(
        schedule_unit=decided.schedule_unit if moving else None,
        warmup_start=decided.warmup_start if schedule.warmup else None,
        momentum_rate=decided.momentum_rate if remembering else None,
    )


def learning_rates(recipe: Recipe, semantics: Semantics, steps_per_epoch: int) -> NDArray[np.float64]:
    """Returns the learning rate of every step of a training. `semantics`: from `schedule_semantics`."""
    schedule, per = recipe.schedule, steps_per_epoch
    numbers = np.arange(per * recipe.epochs)
    if semantics.schedule_unit == "epoch":
        numbers = numbers // per * per
    warmup = schedule.warmup * per
    after = np.maximum(numbers - warmup, 0)
    shares = np.ones(len(numbers))
    if schedule.name == "cosine":
        length = ((schedule.epochs or recipe.epochs) - schedule.warmup) * per
        shares = schedule.final + (1 - schedule.final) * (1 + np.cos(np.pi * np.minimum(after / length, 1))) / 2
    elif schedule.name == "step":
        shares = np.power(schedule.factor, (after // ((schedule.every or 1) * per)).astype(np.float64))
    if warmup:
        start = semantics.warmup_start or 0.0
        shares = np.where(numbers < warmup, start + (1 - start) * numbers / warmup, shares)
    rates: NDArray[np.float64] = recipe.learning_rate * shares
    return rates
