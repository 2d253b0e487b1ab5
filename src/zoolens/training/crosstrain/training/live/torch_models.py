"""A trained side as a live torch module."""

from __future__ import annotations

from typing import Any

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.torch_building import (
    build_module,
    build_shipped,
    install,
    named_tensors,
)
from zoolens.training.crosstrain.training.trainers.trainer import Weights
from zoolens.training.pairs.semantics import USUAL


def torch_model(side: SideRecipe, weights: Weights) -> Any:
    """Builds the module in evaluation mode, on the CPU, in the recipe's precision where that is float64."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependency("A live torch model", "torch", "torch") from error
    recipe = side.recipe
    if recipe.shipped:
        module = build_shipped(recipe.architecture, side.shape, side.classes)
        _install_shipped(module, weights, recipe.architecture)
    else:
        network = build(recipe.architecture, side.semantics.over(USUAL), side.shape, side.classes)
        module = build_module(network)
        if recipe.precision == "float64":
            module = module.double()
        install(module, network, weights)
    return module.to(torch.float64 if recipe.precision == "float64" else torch.float32).eval()


def _install_shipped(module: Any, weights: Weights, architecture: str) -> None:
    import torch

    tensors = named_tensors(module, None)
    if strange := sorted(set(weights) ^ set(tensors)):
        raise ModelError(f"The weights do not fit torchvision's {architecture}: {strange[0]} is on one side only.")
    with torch.no_grad():
        for name, array in weights.items():
            if tuple(tensors[name].shape) != array.shape:
                raise ModelError(f"The weights do not fit torchvision's {architecture}: {name} has another shape.")
            tensors[name].copy_(torch.from_numpy(array))
