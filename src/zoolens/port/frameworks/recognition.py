"""Which framework's network a user's function returned.

Frameworks that the user's code did not import are not imported here either.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from zoolens.errors import ModelError
from zoolens.port.frameworks.base import LiveNetwork
from zoolens.port.frameworks.jax import function_and_parameters


def recognised(made: Any, shapes: Sequence[tuple[int, ...]], kinds: Sequence[str], name: str) -> LiveNetwork:
    """The live network in what the function returned: itself, or the first of a tuple whose others (an optimizer, a
    loss) are for training."""
    network = made[0] if isinstance(made, tuple) and made else made
    torch, keras = sys.modules.get("torch"), sys.modules.get("keras")
    if keras is not None and isinstance(network, keras.Model):  # on torch it is a torch.nn.Module as well
        from zoolens.port.frameworks.keras import KerasNetwork

        return KerasNetwork(network, shapes, kinds, name)
    if torch is not None and isinstance(network, torch.nn.Module):
        from zoolens.port.frameworks.torch import TorchNetwork

        return TorchNetwork(network, shapes, kinds, name)
    pair = function_and_parameters(made) if "jax" in sys.modules else None
    if pair is not None:
        from zoolens.port.frameworks.jax import JaxNetwork

        return JaxNetwork(*pair, shapes, kinds, name)
    kind = type(network)
    raise ModelError(
        f"The function returned an object of {kind.__module__}.{kind.__qualname__}, which is no network that is known "
        "here.",
        hint="Return a torch.nn.Module or a keras.Model, or a JAX function with its parameters.",
    )
