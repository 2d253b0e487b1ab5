"""The trainable network of what a user's function returned."""

from __future__ import annotations

from typing import Any

from zoolens.base.errors import ModelError
from zoolens.training.port.frameworks.framework import LiveNetwork
from zoolens.training.port.frameworks.training_objects import sorted_objects
from zoolens.training.port.training.live_training import TrainableNetwork


def trainable(made: Any, network: LiveNetwork) -> TrainableNetwork:
    """`network`: the live network that was recognised in it. ModelError says what is missing for a training."""
    objects = sorted_objects(made)
    if network.framework == "torch":
        from zoolens.training.port.training.torch.torch_training import TorchTraining

        return TorchTraining(network, objects)
    if network.framework == "keras":
        from zoolens.training.port.training.keras.keras_training import KerasTraining

        return KerasTraining(network, objects)
    if network.framework == "jax":
        from zoolens.training.port.training.jax.jax_training import JaxTraining

        return JaxTraining(network, objects)
    raise ModelError(f"Networks of {network.framework} cannot be trained here.")
