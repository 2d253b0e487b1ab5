"""Optimizers in Keras with the recipe's constants, and Adam with epsilon where torch has it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from zoolens.crosstrain.training.recipe import Recipe
from zoolens.crosstrain.training.semantics import Semantics


def make_optimizer(recipe: Recipe, semantics: Semantics) -> Any:
    """Keras' own, except for Adam's rule "outside". Its weight decay is decoupled, and what Keras' users get; a coupled
    one is not in it: the step adds it to the gradient.

    SGD: Keras' velocity is torch's buffer times −(learning rate). While the rate is constant, as in a recipe, the two
    are the same update.
    """
    import keras

    optimizer = recipe.optimizer
    own = optimizer.weight_decay if optimizer.weight_decay and semantics.weight_decay != "coupled" else None
    if optimizer.name == "sgd":
        return keras.optimizers.SGD(recipe.learning_rate, momentum=optimizer.momentum, weight_decay=own)
    epsilon = optimizer.epsilon if optimizer.epsilon is not None else semantics.adam_epsilon
    constants: dict[str, float] = {} if epsilon is None else {"epsilon": epsilon}
    make = _outside(keras) if semantics.adam_rule == "outside" else keras.optimizers.Adam
    return make(recipe.learning_rate, beta_1=optimizer.beta1, beta_2=optimizer.beta2, weight_decay=own, **constants)


def slots(optimizer: Any, position: int) -> Mapping[str, tuple[Any, float]]:
    """The optimizer's variables for the model's learned one at `position`: "first" and "second" moment, each with the
    factor that makes it one, since Keras' velocity of SGD carries −(learning rate) in it."""
    if hasattr(optimizer, "beta_1"):
        return {"first": (optimizer._momentums[position], 1.0), "second": (optimizer._velocities[position], 1.0)}
    if not optimizer.momentums:
        return {}
    return {"first": (optimizer.momentums[position], -1 / float(optimizer.learning_rate))}


def _outside(keras: Any) -> Any:
    class AdamOutside(keras.optimizers.Adam):  # type: ignore[misc]
        """Epsilon is added to the corrected root. The corrections are taken by expm1: 1 − β₂^t loses four digits in
        the first steps."""

        rule = "outside"

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            ops = keras.ops
            index = self._get_variable_index(variable)
            first, second = self._momentums[index], self._velocities[index]
            gradient = ops.cast(gradient, variable.dtype)
            step = ops.cast(self.iterations + 1, variable.dtype)
            self.assign_add(first, (gradient - first) * (1 - self.beta_1))
            self.assign_add(second, (ops.square(gradient) - second) * (1 - self.beta_2))
            size = ops.cast(learning_rate, variable.dtype) / _correction(ops, self.beta_1, step)
            root = ops.sqrt(second) / ops.sqrt(_correction(ops, self.beta_2, step)) + self.epsilon
            self.assign_sub(variable, size * first / root)

    return AdamOutside


def _correction(ops: Any, beta: float, step: Any) -> Any:
    """1 − beta^step."""
    return 1.0 if beta == 0 else -ops.expm1(step * math.log(beta))
