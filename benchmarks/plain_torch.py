"""What a PyTorch user writes in an afternoon, without zoolens: LeNet and ResNet-8 of torch's own layers, and a loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, before: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, filters, 3, stride, 1), nn.BatchNorm2d(filters)
        self.conv2, self.norm2 = nn.Conv2d(filters, filters, 3, 1, 1), nn.BatchNorm2d(filters)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, filters, 1, stride), nn.BatchNorm2d(filters))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


def resnet8() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


class Plain:
    """`weights`: every tensor, in the order of computation."""

    def __init__(self, architecture: str, weights: Mapping[str, NDArray[Any]], rate: float, loop: str) -> None:
        self.net = {"lenet": lenet, "resnet8": resnet8}[architecture]()
        self._install(weights.values())
        self.model = torch.compile(self.net) if loop == "compiled" else self.net
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=rate)

    def _install(self, weights: Iterable[NDArray[Any]]) -> None:
        tensors = [value for name, value in self.net.state_dict().items() if "num_batches" not in name]
        for tensor, array in zip(tensors, weights, strict=True):
            assert tuple(tensor.shape) == array.shape
            tensor.copy_(torch.from_numpy(array))

    def batches(self, x: NDArray[np.float32], y: NDArray[np.int32], size: int) -> Batches:
        images = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous()
        return list(zip(images.split(size), torch.from_numpy(y.astype(np.int64)).split(size), strict=True))

    def train(self, batches: Batches) -> float:
        self.net.train()
        total, seen = 0.0, 0
        for x, y in batches:
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, seen = total + loss.item() * len(y), seen + len(y)
        return total / seen

    def test(self, batches: Batches) -> int:
        self.net.eval()
        with torch.inference_mode():
            return sum(int((self.net(x).argmax(1) == y).sum()) for x, y in batches)
