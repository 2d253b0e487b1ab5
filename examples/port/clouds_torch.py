"""A classifier of points, trained with momentum."""

import torch
from torch import nn


def net() -> tuple[nn.Module, torch.optim.Optimizer, nn.Module]:
    network = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
    return network, torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9), nn.CrossEntropyLoss()
