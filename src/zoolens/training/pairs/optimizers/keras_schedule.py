"""Schedules of recipes in Keras: a table of learning rates that the optimizer looks up by its count of steps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.training.pairs.semantics import Semantics

# What Keras' users get: schedules count the optimizer's steps, a warm-up of CosineDecay begins with the rate that
# it is given, which is 0 where Keras' documentation shows it, and the velocity keeps the learning rate at which each
# gradient came.
HABITS: Final = Semantics(schedule_unit="step", warmup_start=0.0, momentum_rate="past")


def rate_table(rates: NDArray[np.float64], base_rate: float | None = None) -> Any:
    """`base_rate`: the recipe's learning rate, by which captured velocities are divided; None: they are not told."""
    import keras

    class RateTable(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        base = base_rate

        def __call__(self, step: Any) -> Any:
            ops = keras.ops
            place = ops.minimum(ops.cast(step, "int32"), len(rates) - 1)
            return ops.take(ops.convert_to_tensor(rates, dtype=keras.config.floatx()), place)

        def get_config(self) -> dict[str, Any]:
            return {"rates": rates.tolist()}

    return RateTable()
