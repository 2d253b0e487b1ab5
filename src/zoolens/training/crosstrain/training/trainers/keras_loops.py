"""What a training loop of a recipe on a Keras model can do, whichever backend computes it.

Why a recipe does not take the steps of a user's compiled model (`pairs/live/keras/keras_steps.py`): a program of a
whole epoch saves the call of each step (a step of the mlp on TensorFlow took 1.5 times as long one by one); Keras' own
mean rounds otherwise (losses differ by 2e-7 from the first steps on); and a compiled model has no place for a weight
decay in the gradient that the reported loss does not show. What an update leaves is captured by one function in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.training.crosstrain.training.job import Job
from zoolens.training.pairs.data.epoch_order import EpochBatches

TEST_BATCH: Final = 500


@dataclass(frozen=True)
class Details:
    """What one step computed, on the device: the mean loss, what every layer answered, and the gradients of the mean or
    the sum of the samples' losses before any weight decay, in the order of the model's learned variables."""

    loss: Any
    answers: Sequence[Any]
    gradients: Sequence[Any]


class Loop(Protocol):
    def epoch(self, batches: EpochBatches) -> NDArray[np.float64]:
        """Train on all batches in order; the mean loss of every step, fetched once."""

    def detailed(self, x: NDArray[np.uint8], y: NDArray[np.int32]) -> Details:
        """One step."""

    def predict(self, x: NDArray[np.uint8]) -> tuple[NDArray[np.int32], bool]:
        """The class answered for every image, and whether all logits were finite."""

    def settle(self) -> None:
        """Put the trained state into the variables of model and optimizer, to be read from them."""


def scaled(x: Any) -> Any:
    import keras

    return keras.ops.cast(x, keras.config.floatx()) / 255.0


def coupled_decay(job: Job) -> float:
    """The weight decay that a step adds to the gradient; a decoupled one is the optimizer's own."""
    return job.recipe.optimizer.weight_decay if job.semantics.weight_decay == "coupled" else 0.0


def decayed(gradients: Sequence[Any], values: Sequence[Any], decay: float) -> Sequence[Any]:
    """Weight decay as a part of the gradient."""
    return [g + decay * w for g, w in zip(gradients, values, strict=True)] if decay else gradients


def as_list(answers: Any) -> list[Any]:
    return answers if isinstance(answers, list) else [answers]
