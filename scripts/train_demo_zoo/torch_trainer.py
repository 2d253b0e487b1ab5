"""Trains with PyTorch: its layers, its initialisation, its Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from .architecture import (
    INPUT_SHAPE,
    Architecture,
    Conv,
    Dense,
    Flatten,
    GlobalAverage,
    MaxPool,
    Residual,
    Shape,
    Weights,
    fold_norm,
    output_shape,
)
from .data import Split
from .recipes import Recipe

PACKAGES = ("torch", "numpy")
INITIALISATION = "torch default (kaiming_uniform, a=√5)"


def train(recipe: Recipe, data: Split) -> list[Weights]:
    torch.set_num_threads(1)
    torch.manual_seed(recipe.seed)
    torch.use_deterministic_algorithms(True)
    network = nn.Sequential(*_build(recipe.layers, INPUT_SHAPE))
    images, labels = torch.from_numpy(data.images).unsqueeze(1), torch.from_numpy(data.labels)
    optimizer = torch.optim.Adam(network.parameters(), lr=recipe.learning_rate)
    for epoch in range(recipe.epochs):
        total = 0.0
        for batch in torch.randperm(len(labels)).split(recipe.batch_size):
            loss = nn.functional.cross_entropy(network(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        print(f"  epoch {epoch + 1}: loss {total / len(labels):.4f}", flush=True)
    return _collect(network)


class _FlattenChannelsLast(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 3, 1).flatten(1)


class _Mean(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


class _Residual(nn.Module):
    def __init__(self, body: nn.Sequential) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def _build(layers: Architecture, shape: Shape) -> list[nn.Module]:
    modules: list[nn.Module] = []
    for layer in layers:
        modules += _modules(layer, shape)
        shape = output_shape(layer, shape)
    return modules


def _modules(layer: Any, shape: Shape) -> list[nn.Module]:
    match layer:
        case Conv(filters=filters, kernel=kernel, padding=padding, norm=norm):
            groups = filters if layer.depthwise else 1
            conv = nn.Conv2d(shape[-1], filters, kernel, padding=padding, groups=groups, bias=not norm)
            return [conv, *([nn.BatchNorm2d(filters)] if norm else []), *([nn.ReLU()] if layer.relu else [])]
        case Dense(units=units, relu=relu):
            return [nn.Linear(shape[0], units), *([nn.ReLU()] if relu else [])]
        case MaxPool():
            return [nn.MaxPool2d(2)]
        case GlobalAverage():
            return [_Mean()]
        case Flatten():
            return [_FlattenChannelsLast()]
        case Residual(body=body):
            return [_Residual(nn.Sequential(*_build(body, shape)))]
    raise TypeError(layer)


def _collect(network: nn.Module) -> list[Weights]:
    modules = [m for m in network.modules() if isinstance(m, (nn.Conv2d, nn.Linear, nn.BatchNorm2d))]
    weights = []
    for module, following in zip(modules, [*modules[1:], None], strict=True):
        if isinstance(module, nn.Linear):
            weights.append(Weights(_numpy(module.weight).T.copy(), _numpy(module.bias)))
        elif isinstance(module, nn.Conv2d):
            depthwise = module.groups > 1
            kernel = _numpy(module.weight).transpose((2, 3, 0, 1) if depthwise else (2, 3, 1, 0))
            if isinstance(following, nn.BatchNorm2d):
                norm = (following.weight, following.bias, following.running_mean, following.running_var)
                weights.append(fold_norm(kernel, [_numpy(values) for values in norm], following.eps, depthwise))
            else:
                weights.append(Weights(kernel.copy(), _numpy(module.bias)))
    return weights


def _numpy(tensor: Any) -> np.ndarray:
    return np.array(tensor.detach().numpy())
