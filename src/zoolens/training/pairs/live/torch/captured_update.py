"""What one training step of torch computed behind its forward pass: gradients, moments and tensors, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from zoolens.training.pairs.networks.framework import Array
from zoolens.training.pairs.optimizers.torch_slots import slots


def captured_update(
    computed: Mapping[str, Any],
    tensors: Mapping[str, Any],
    statistics: Collection[str],
    optimizer: Any,
    update: Callable[[], None],
) -> dict[str, Array]:
    """Take the gradients that a backward pass left, let `update` change the tensors, and take what it made of them.

    `computed`: what the forward pass made, by its keys. `statistics`: the names of those tensors that are not learned.
    """
    learned = {name: tensor for name, tensor in tensors.items() if name not in statistics}
    gradients = {f"gradient/{name}": tensor.grad for name, tensor in learned.items() if tensor.grad is not None}
    # Copied before the update: an optimizer may change gradients in place.
    before = {name: as_array(tensor) for name, tensor in {**computed, **gradients}.items()}
    update()
    after = {f"{'tensor' if name in learned else 'statistic'}/{name}": tensor for name, tensor in tensors.items()}
    made = {**slots(optimizer, learned), **after}
    return before | {name: as_array(tensor) for name, tensor in made.items()}


def as_array(tensor: Any) -> Array:
    """A copy in float32, or float64 where the tensor has it: numpy has no bfloat16."""
    import torch

    given = tensor.detach()
    wide = given if given.dtype in (torch.float64, torch.float32) else given.float()
    array: Array = wide.cpu().numpy().copy()
    return array
