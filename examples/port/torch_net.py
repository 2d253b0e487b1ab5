"""The network that was ported: a few convolutions, a flattened map, two dense layers; and how it is trained."""

import torch
from torch import nn


def net() -> nn.Module:
    """Take images of 3×32×32 and answer ten scores."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 8 * 8, 64),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(64, 10),
    )


def training() -> tuple[nn.Module, torch.optim.Optimizer, nn.Module]:
    """The network with what trains it: `zoolens port train` uses them as they are."""
    network = net()
    return network, torch.optim.Adam(network.parameters(), lr=1e-3), nn.CrossEntropyLoss()
