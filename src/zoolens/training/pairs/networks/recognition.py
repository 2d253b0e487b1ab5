"""Which framework's network a user's function returned.

Frameworks that the user's code did not import are not imported here either.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from zoolens.base.errors import ModelError
from zoolens.training.pairs.networks.framework import LiveNetwork
from zoolens.training.pairs.networks.jax_modules import function_and_parameters, takes_channels_first
from zoolens.training.pairs.networks.training_objects import framework_of, network_in


def recognised(made: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], name: str) -> LiveNetwork:
    """The live network in what the function returned: itself, the first of a tuple, or that of a dictionary; what else
    is there (an optimizer, a loss) is for training."""
    network = network_in(made)
    framework = framework_of(network)
    if framework == "keras":
        from zoolens.training.pairs.networks.keras_framework import KerasNetwork

        return KerasNetwork(network, shapes, kinds, name)
    if framework == "torch":
        from zoolens.training.pairs.networks.torch_framework import TorchNetwork

        return TorchNetwork(network, shapes, kinds, name)
    pair = function_and_parameters(network) if "jax" in sys.modules else None
    if pair is not None:
        from zoolens.training.pairs.networks.jax_framework import JaxNetwork

        return JaxNetwork(*pair, shapes, kinds, name, channels_first=takes_channels_first(network))
    kind = type(network[0] if isinstance(network, tuple) and network else network)
    raise ModelError(
        f"The function returned an object of {kind.__module__}.{kind.__qualname__}, which is no network that is known "
        "here.",
        hint="Return a torch.nn.Module, a keras.Model, a module of Flax or Equinox, or a JAX function and parameters.",
    )
