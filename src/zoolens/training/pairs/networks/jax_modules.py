"""What a user's function may return of JAX: a function with its parameters, or a module of Flax or Equinox.

A module becomes a function of its own arrays, in evaluation mode. A library that the user's code did not import is not
imported here either.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

Pair = tuple[Callable[..., Any], Any]  # a function of parameters and inputs, and the parameters


def function_and_parameters(made: Any) -> Pair | None:
    """The function and its parameters in what the user's function returned; None where it is nothing of JAX."""
    network = made[0] if isinstance(made, tuple) and made else made
    state = made[1] if isinstance(made, tuple) and len(made) > 1 else None
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is not None and isinstance(network, nnx.Module):
        return _of_nnx(nnx, network)
    if equinox is not None and isinstance(network, equinox.Module) and callable(network):
        return _of_equinox(equinox, network, state if isinstance(state, equinox.nn.State) else None)
    if state is None:
        return None
    apply = getattr(network, "apply", None)
    if callable(apply):  # a module of flax.linen, with its variables
        return apply, state
    return (network, state) if callable(network) else None


def takes_channels_first(network: Any) -> bool:
    """Whether the library of a module has the channels of images first: Equinox does, other code of JAX has them
    last."""
    module = network[0] if isinstance(network, tuple) and network else network
    equinox = sys.modules.get("equinox")
    return equinox is not None and isinstance(module, equinox.Module)


def objects_of_network(made: tuple[Any, ...]) -> int:
    """How many of the first objects make the network: a module that holds its own arrays is one by itself."""
    nnx, equinox = sys.modules.get("flax.nnx"), sys.modules.get("equinox")
    if nnx is not None and isinstance(made[0], nnx.Module):
        return 1
    stateful = len(made) > 1 and equinox is not None and isinstance(made[1], equinox.nn.State)
    alone = equinox is not None and isinstance(made[0], equinox.Module) and callable(made[0]) and not stateful
    return 1 if alone else 2


def _of_nnx(nnx: Any, module: Any) -> Pair:
    """The user's module stays as it is: a copy is put into evaluation mode."""
    copy = nnx.clone(module)
    copy.eval()
    definition, state = nnx.split(copy)
    return lambda values, *inputs: nnx.merge(definition, values)(*inputs), state


def _of_equinox(equinox: Any, module: Any, state: Any) -> Pair:
    """Modules of Equinox take one sample: they are mapped over the batch, whose axis their norms call "batch"."""
    import jax

    still = equinox.nn.inference_mode(module)
    if state is None:
        return lambda values, *inputs: jax.vmap(values, axis_name="batch")(*inputs), still

    def apply(values: Any, *inputs: Any) -> Any:
        net, kept = values
        axes = (*(0 for _ in inputs), None)
        answer, _ = jax.vmap(net, axis_name="batch", in_axes=axes, out_axes=(0, None))(*inputs, kept)
        return answer

    return apply, (still, state)
