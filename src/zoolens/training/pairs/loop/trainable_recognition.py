"""The trainable network of what a user's function returned."""

from __future__ import annotations

from typing import Any

from zoolens.base.errors import ModelError
from zoolens.training.pairs.live.live_training import TrainableNetwork
from zoolens.training.pairs.networks.framework import LiveNetwork
from zoolens.training.pairs.networks.training_objects import sorted_objects


def trainable(made: Any, network: LiveNetwork) -> TrainableNetwork:
    """`network`: the live network that was recognised in it. ModelError says what is missing for a training."""
    objects = sorted_objects(made)
    if network.framework == "torch":
        from zoolens.training.pairs.live.torch.switchable_torch import SwitchableTorch

        return SwitchableTorch(network, objects)
    if network.framework == "keras":
        from zoolens.training.pairs.live.keras.switchable_keras import SwitchableKeras

        return SwitchableKeras(network, objects)
    if network.framework == "jax":
        from zoolens.training.pairs.live.jax.switchable_jax import SwitchableJax

        return SwitchableJax(network, objects)
    raise ModelError(f"Networks of {network.framework} cannot be trained here.")
