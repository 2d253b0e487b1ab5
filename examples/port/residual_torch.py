"""A small residual network with what trains it; `residual_jax.py` is its port to JAX."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, before: int, filters: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, filters, 3, stride, 1)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1)
        self.shortcut = nn.Conv2d(before, filters, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + self.shortcut(x))


class Residual(nn.Module):
    """Takes images of 3×32×32 and answers ten scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.block1, self.block2, self.block3 = Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block3(self.block2(self.block1(torch.relu(self.stem(x)))))
        return self.head(x.mean((2, 3)))


def net() -> tuple[nn.Module, torch.optim.Optimizer, nn.Module]:
    network = Residual()
    return network, torch.optim.Adam(network.parameters(), lr=1e-3), nn.CrossEntropyLoss()
