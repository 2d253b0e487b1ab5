"""The trainable network of what a user's function returned."""

from __future__ import annotations

from typing import Any

from zoolens.errors import ModelError
from zoolens.port.frameworks.base import LiveNetwork
from zoolens.port.frameworks.training_objects import sorted_objects
from zoolens.port.training.base import TrainableNetwork


def trainable(made: Any, network: LiveNetwork) -> TrainableNetwork:
    """`network`: the live network that was recognised in it. ModelError says what is missing for a training."""
    objects = sorted_objects(made)
    if network.framework == "torch":
        from zoolens.port.training.torch.training import TorchTraining

        return TorchTraining(network, objects)
    if network.framework == "keras":
        from zoolens.port.training.keras.training import KerasTraining

        return KerasTraining(network, objects)
    if network.framework == "jax":
        from zoolens.port.training.jax.training import JaxTraining

        return JaxTraining(network, objects)
    raise ModelError(f"Networks of {network.framework} cannot be trained here.")
