"""Update rules that Keras' optimizers do not have: epsilon and the learning rate of momentum where torch has them.

Each declares in `rule` where its epsilon is, which `optimizer_rules` reads.
"""

from __future__ import annotations

import math
from typing import Any


def adam_outside(keras: Any) -> Any:
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


def sgd_current(keras: Any) -> Any:
    class SGDCurrent(keras.optimizers.SGD):  # type: ignore[misc]
        """The momentum has no learning rate in it, and moves at the current one."""

        rule = "current"
        momentum_rate = "current"

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            ops = keras.ops
            gradient = ops.cast(gradient, variable.dtype)
            first = self.momentums[self._get_variable_index(variable)]
            self.assign(first, self.momentum * first + gradient)
            direction = gradient + self.momentum * first if self.nesterov else first
            self.assign_sub(variable, ops.cast(learning_rate, variable.dtype) * direction)

    return SGDCurrent


def rmsprop(keras: Any, root_rule: str, rate_of_momentum: str) -> Any:
    class RMSprop(keras.optimizers.RMSprop):  # type: ignore[misc]
        """Epsilon is added to the root or under it; the momentum has the learning rate in it, or not."""

        rule = root_rule
        momentum_rate = rate_of_momentum

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            ops, index = keras.ops, self._get_variable_index(variable)
            gradient = ops.cast(gradient, variable.dtype)
            second = self._velocities[index]
            self.assign(second, self.rho * second + (1 - self.rho) * ops.square(gradient))
            squares = second
            if self.centered:
                average = self._average_gradients[index]
                self.assign(average, self.rho * average + (1 - self.rho) * gradient)
                squares = second - ops.square(average)
            under = self.rule == "under"
            root = ops.sqrt(squares + self.epsilon) if under else ops.sqrt(squares) + self.epsilon
            rate, direction = ops.cast(learning_rate, variable.dtype), gradient / root
            past = self.momentum_rate == "past"
            if self.momentum > 0:
                first = self._momentums[index]
                self.assign(first, self.momentum * first + (rate * direction if past else direction))
                direction = first
            self.assign_sub(variable, direction if past and self.momentum > 0 else rate * direction)

    return RMSprop


def adagrad_outside(keras: Any) -> Any:
    class AdagradOutside(keras.optimizers.Adagrad):  # type: ignore[misc]
        """Epsilon is added to the root."""

        rule = "outside"

        def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
            ops = keras.ops
            gradient = ops.cast(gradient, variable.dtype)
            total = self._accumulators[self._get_variable_index(variable)]
            self.assign_add(total, ops.square(gradient))
            rate = ops.cast(learning_rate, variable.dtype)
            self.assign_sub(variable, rate * gradient / (ops.sqrt(total) + self.epsilon))

    return AdagradOutside
