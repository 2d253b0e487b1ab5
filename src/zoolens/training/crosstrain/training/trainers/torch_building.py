"""A network in torch: built from our definition, or as torchvision ships it, and its tensors by their stable names."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.network import Layer, Network
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.pairs.semantics import USUAL, Semantics

Shape = tuple[int, int, int]

# What a torch user gets who says nothing; norms, initial weights and Adam are left to torch's own objects.
_PARTS: Final = {
    "conv": {"kernel": "weight", "bias": "bias"},
    "dense": {"kernel": "weight", "bias": "bias"},
    "norm": {"scale": "weight", "shift": "bias", "mean": "running_mean", "variance": "running_var"},
}
_SHIPPED_SIDE: Final = 32


def build_module(network: Network) -> Any:
    """A module whose forward is straight-line code; node.meta["layer"] tells which layer a node computes."""
    import torch

    root, graph = torch.nn.Module(), torch.fx.Graph()
    nodes: dict[str, Any] = {}
    before = {layer.name: layer.shape for layer in network.layers}
    for layer in network.layers:
        inputs = [nodes[name] for name in layer.inputs]
        if layer.kind == "input":
            node = graph.placeholder("images")
        elif layer.kind == "add":
            node = graph.call_function(operator.add, tuple(inputs))
        elif layer.kind == "concat":
            node = graph.call_function(torch.cat, (inputs, 1))
        else:
            root.add_module(layer.name, _module(torch.nn, layer, before[layer.inputs[0]]))
            node = graph.call_module(layer.name, tuple(inputs))
        node.meta["layer"] = layer.name
        nodes[layer.name] = node
    graph.output(nodes[network.layers[-1].name])
    return torch.fx.GraphModule(root, graph, network.architecture)


def _module(nn: Any, layer: Layer, shape: tuple[int, ...]) -> Any:
    settings = layer.settings
    match layer.kind:
        case "conv":
            conv = (shape[0], settings["filters"], settings["kernel"], settings["stride"])
            return _padded(nn, layer, shape, 0.0, lambda border: nn.Conv2d(*conv, border, bias=settings["bias"]))
        case "max_pool":
            pool = (settings["kernel"], settings["stride"])
            return _padded(nn, layer, shape, -float("inf"), lambda border: nn.MaxPool2d(*pool, border))
        case "avg_pool":
            return _padded(
                nn, layer, shape, 0.0, lambda border: nn.AvgPool2d(settings["kernel"], settings["stride"], border)
            )
        case "norm":
            momentum = {} if settings["momentum"] is None else {"momentum": 1 - settings["momentum"]}
            epsilon = {} if settings["epsilon"] is None else {"eps": settings["epsilon"]}
            return nn.BatchNorm2d(shape[0], **momentum, **epsilon)
        case "dense":
            return nn.Linear(shape[0], settings["units"], bias=settings["bias"])
        case "global_avg_pool":
            return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        case "dropout":
            return nn.Dropout(settings["rate"])
        case "relu":
            return nn.ReLU()
        case "flatten":
            return nn.Flatten()
    raise ValueError(f"torch has no layer for {layer.kind}")


def _padded(nn: Any, layer: Layer, shape: tuple[int, ...], value: float, make: Any) -> Any:
    """Pads with torch's own border where it is symmetric; else a layer before it that pads as TensorFlow does."""
    kernel, stride, padding = (layer.settings[name] for name in ("kernel", "stride", "padding"))
    if padding == "valid":
        return make(0)
    if padding == "symmetric" or stride == 1:
        return make(kernel // 2)
    borders: list[int] = []
    for extent, out in zip(reversed(shape[1:]), reversed(layer.shape[1:]), strict=True):  # torch begins with the width
        total = max((out - 1) * stride + kernel - extent, 0)
        borders += [total // 2, total - total // 2]
    return nn.Sequential(nn.ConstantPad2d(tuple(borders), value), make(0))


def recipe_module(recipe: Recipe, semantics: Semantics, shape: Shape, classes: int) -> tuple[Any, Network | None]:
    """The module that a recipe asks for, with torch's own first values, and its definition; None: it is torchvision's.
    `shape`: channels, height and width."""
    if recipe.shipped:
        return build_shipped(recipe.architecture, shape, classes), None
    network = build(recipe.architecture, semantics.over(USUAL), shape, classes)
    return build_module(network), network


def build_shipped(architecture: str, input_shape: tuple[int, ...], classes: int) -> Any:
    """torchvision's own network, without weights."""
    if input_shape[0] != 3 or min(input_shape[1:]) < _SHIPPED_SIDE:
        raise ModelError(
            f"{architecture} as torchvision ships it takes colour images of at least 32×32 pixels.",
            hint="Use another dataset, or mode: aligned.",
        )
    try:
        torchvision = import_torchvision(with_compiler=False)
    except ImportError as error:
        raise MissingDependency(f"{architecture} as its library ships it", "torchvision", "torchvision") from error
    return torchvision.models.get_model(architecture, weights=None, num_classes=classes)


def named_tensors(module: Any, network: Network | None) -> dict[str, Any]:
    """The live parameters and statistics by their stable names; a shipped network's (None) by torchvision's own."""
    if network is None:
        statistics = {name: value for name, value in module.named_buffers() if value.dim()}  # not the step counters
        return {**dict(module.named_parameters()), **statistics}
    tensors: dict[str, Any] = {}
    for layer in network.layers:
        if layer.kind in _PARTS:
            owner = layer_module(module, layer.name)
            parts = {part: getattr(owner, attribute) for part, attribute in _PARTS[layer.kind].items()}
            tensors |= {f"{layer.name}.{part}": value for part, value in parts.items() if value is not None}
    return tensors


def layer_module(module: Any, name: str) -> Any:
    """The module that learns, without what pads before it."""
    import torch

    submodule = module.get_submodule(name)
    return submodule[1] if isinstance(submodule, torch.nn.Sequential) else submodule


def install(
    module: Any, network: Network | None, weights: Mapping[str, NDArray[Any]], *, all_of_them: bool = True
) -> None:
    """Copy weights into the module; where `all_of_them`, every tensor must be given."""
    import torch

    tensors = named_tensors(module, network)
    title = f"torchvision's {type(module).__name__}" if network is None else network.architecture
    strange = sorted(set(weights) - set(tensors)) or (all_of_them and sorted(set(tensors) - set(weights)))
    if strange:
        raise ModelError(
            f"The weights do not fit {title}: {strange[0]} is on one side only.",
            hint="Were they made for other semantics or another dataset?",
        )
    with torch.no_grad():
        for name, array in weights.items():
            if tuple(array.shape) != tuple(tensors[name].shape):
                raise ModelError(
                    f"The weights do not fit {title}: {name} has shape {tuple(array.shape)}, "
                    f"the network expects {tuple(tensors[name].shape)}."
                )
            tensors[name].copy_(torch.from_numpy(np.array(array)))


def as_arrays(tensors: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Copies: training may go on."""
    return {name: tensor.detach().cpu().contiguous().numpy().copy() for name, tensor in tensors.items()}
