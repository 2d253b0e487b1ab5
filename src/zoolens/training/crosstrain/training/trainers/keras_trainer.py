"""Keras on two backends. It chooses its backend when it is imported, so each of them has a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from zoolens.training.crosstrain.training.job import Epoch, Job
from zoolens.training.crosstrain.training.recipe import FEATURES
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.keras_backend import ALONE, EXTRAS, import_keras
from zoolens.training.crosstrain.training.trainers.keras_building import HABITS
from zoolens.training.crosstrain.training.trainers.keras_jax import JaxLoop, jax_settings, set_jax_threads
from zoolens.training.crosstrain.training.trainers.keras_tensorflow import TensorFlowLoop, tensorflow_settings
from zoolens.training.crosstrain.training.trainers.keras_training import KerasSide, live_model, train
from zoolens.training.crosstrain.training.trainers.trainer import Trained, Trainer, Weights
from zoolens.training.pairs.data.train_data import TrainData


class _Keras(Trainer):
    habits = HABITS
    common_networks = True
    starts_shipped = True
    captures = True
    knows = FEATURES

    def live_model(self, side: SideRecipe, weights: Weights) -> Any:
        """A keras.Model; it takes images with channels last."""
        return live_model(side, weights)


class TensorFlow(_Keras):
    """Loops: "compiled" makes a graph of a step (tf.function, no XLA), "eager" does not."""

    name = "tensorflow"
    summary = "Keras on TensorFlow"
    distributions = ("tensorflow", "keras")
    extra = EXTRAS["tensorflow"]
    default_place = 2
    inspector = "zoolens.training.crosstrain.training.live.live_keras:TENSORFLOW"
    aliases = ("keras",)  # the backend that most have
    variables: ClassVar[Mapping[str, str]] = {
        "KERAS_BACKEND": "tensorflow",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        ALONE: "1",
    }

    def train(self, job: Job, data: TrainData, weights: Weights | None, report: Callable[[Epoch], None]) -> Trained:
        import_keras(self.name, f"The trainer {self.name}")
        with tensorflow_settings(job):
            return train(KerasSide(job, data, TensorFlowLoop), weights, report, self.versions())


class Jax(_Keras):
    """One loop, "compiled": XLA."""

    name = "jax"
    summary = "Keras on JAX"
    distributions = ("jax", "jaxlib", "keras")
    extra = EXTRAS["jax"]
    inspector = "zoolens.training.crosstrain.training.live.live_keras:JAX"
    variables: ClassVar[Mapping[str, str]] = {"KERAS_BACKEND": "jax", ALONE: "1"}

    def train(self, job: Job, data: TrainData, weights: Weights | None, report: Callable[[Epoch], None]) -> Trained:
        set_jax_threads(job.threads)
        import_keras(self.name, f"The trainer {self.name}")
        with jax_settings(job):
            return train(KerasSide(job, data, JaxLoop), weights, report, self.versions())
