"""A network with a layer that leaves torch, and one in which that layer is wrong: zoolens port check compares both."""

import numpy as np
import torch
from torch import nn


class Sorted(nn.Module):
    """Sorts its numbers with numpy, so that no reader of torch's operators sees what it does."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.scale, self.factor = nn.Parameter(torch.ones(6)), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sort(self.factor * x.detach().numpy())) * self.scale


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), Sorted(), nn.Linear(6, 3))


def wrong() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), Sorted(2.0), nn.Linear(6, 3))
