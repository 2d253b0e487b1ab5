"""A network whose code decides by numbers what it computes."""

from torch import Tensor, nn


class Branching(nn.Module):
    """Two layers, of which the second is never used: squares are not negative."""

    def __init__(self) -> None:
        super().__init__()
        self.usual, self.never = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if x.square().sum() >= 0:
            return self.usual(x)
        return self.never(x)


def net() -> nn.Module:
    return Branching()
