"""A small convolutional network, trained with Adam."""

import torch
from torch import nn


def net() -> tuple[nn.Module, torch.optim.Optimizer, nn.Module]:
    network = nn.Sequential(nn.Conv2d(1, 8, 2, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    return network, torch.optim.Adam(network.parameters(), lr=0.004), nn.CrossEntropyLoss()
