"""Optimizers for recipes: Keras' own where Keras has the rule, and otherwise those of `keras_rules`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainers.decay_kinds import decay_kind
from zoolens.training.pairs.optimizers.keras_rules import adagrad_outside, adam_outside, rmsprop, sgd_current
from zoolens.training.pairs.optimizers.keras_schedule import rate_table
from zoolens.training.pairs.optimizers.optimizer_rules import keras_rule
from zoolens.training.pairs.semantics import Semantics


def make_optimizer(recipe: Recipe, semantics: Semantics, rates: NDArray[np.float64] | None = None) -> Any:
    """`rates`: of every step, where they change.

    Its weight decay is decoupled, which is what Keras' users get; a coupled one is not in it: the step adds that to the
    gradient.

    SGD: Keras' velocity is torch's buffer times −(learning rate). While the rate is constant the two are the same
    update, with Nesterov's addition too.
    """
    import keras

    wanted, rate = recipe.optimizer, recipe.learning_rate
    settings: dict[str, Any] = {
        "learning_rate": rate if rates is None else rate_table(rates, rate),
        "weight_decay": _own_decay(recipe, semantics),
    }
    betas = {"beta_1": wanted.beta1, "beta_2": wanted.beta2}
    optimizers = keras.optimizers
    if wanted.name == "sgd":
        current = wanted.momentum and semantics.momentum_rate == "current"
        make = sgd_current(keras) if current else optimizers.SGD
        return make(momentum=wanted.momentum, nesterov=wanted.nesterov, **settings)
    if wanted.name == "lion":
        return optimizers.Lion(**betas, **settings)
    if wanted.name in ("rmsprop", "adagrad"):
        return _root_rule(keras, wanted, semantics, settings)
    epsilon = wanted.epsilon if wanted.epsilon is not None else semantics.adam_epsilon
    settings |= _given(epsilon=epsilon)
    if semantics.adam_rule == "outside":
        return adam_outside(keras)(**betas, **settings)
    make = optimizers.AdamW if wanted.name == "adamw" and settings["weight_decay"] else optimizers.Adam
    return make(**betas, **settings)


def _root_rule(keras: Any, wanted: Optimizer, semantics: Semantics, settings: Mapping[str, Any]) -> Any:
    outside = semantics.root_rule == "outside"
    epsilon = wanted.epsilon if wanted.epsilon is not None else semantics.root_epsilon
    if wanted.name == "adagrad":
        start = wanted.initial_accumulator if wanted.initial_accumulator is not None else semantics.adagrad_start
        make = adagrad_outside(keras) if outside else keras.optimizers.Adagrad
        return make(**settings, **_given(epsilon=epsilon, initial_accumulator_value=start))
    rho = wanted.rho if wanted.rho is not None else semantics.rmsprop_rho
    current = wanted.momentum and semantics.momentum_rate == "current"
    make = keras.optimizers.RMSprop
    if outside or current:
        make = rmsprop(keras, semantics.root_rule or "under", "current" if current else "past")
    return make(centered=wanted.centered, momentum=wanted.momentum, **settings, **_given(epsilon=epsilon, rho=rho))


def _given(**constants: float | None) -> dict[str, float]:
    """What is None is left to Keras."""
    return {name: value for name, value in constants.items() if value is not None}


def _own_decay(recipe: Recipe, semantics: Semantics) -> float | None:
    """What the optimizer itself takes from the values; None where it takes nothing."""
    size = recipe.optimizer.weight_decay
    if not size or semantics.weight_decay == "coupled":
        return None
    return size / recipe.learning_rate if semantics.weight_decay == "independent" else size


def optimizer_semantics(optimizer: Any, recipe: Recipe, coupled: float) -> Semantics:
    """Read from the optimizer itself. `coupled`: the weight decay that steps add to the gradient."""
    rule = keras_rule(optimizer)
    own = rule.constants["weight_decay"] or 0.0
    kind = decay_kind(coupled or own, not coupled, recipe)
    return Semantics(weight_decay=kind).over(rule.semantics)
