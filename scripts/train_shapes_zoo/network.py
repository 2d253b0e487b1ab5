"""A detector without anchors: three stages of convolutions, and for each of 8 × 8 cells a box and scores of classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .pictures import CLASSES, SIDE

STRIDE: Final = 8
CELLS: Final = SIDE // STRIDE
USUAL: Final = 16.0  # pixels of a side where the network answers 0
_LONGEST: Final = 2.0  # of the logarithm of a side
_RARE: Final = 4.0  # logit of a shape in a cell, before anything is learned


class Detector(nn.Module):  # type: ignore[misc]  # torch has no types here
    """From pixels (0 to 255) to boxes, centre and sides in pixels, and a score of each class for each cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for stage in range(3):
            wider = width * 2**stage
            layers += _normalised(channels, wider, 2) + _normalised(wider, wider, 1)
            channels = wider
        self.body = nn.Sequential(*layers)
        self.head = nn.Conv2d(channels, 4 + len(CLASSES), 1)
        # Most cells show nothing: they begin so, and need not learn it first.
        nn.init.constant_(self.head.bias[4:], -_RARE)
        places = (torch.arange(CELLS, dtype=torch.float32) + 0.5) * STRIDE
        self.register_buffer("x", places.repeat(CELLS), persistent=False)
        self.register_buffer("y", places.repeat_interleave(CELLS), persistent=False)

    def cells(self, pixels: Tensor) -> Tensor:
        """What each cell answers: four numbers of a box and logits of classes."""
        found: Tensor = self.head(self.body(pixels / 127.5 - 1))
        return found.flatten(2).transpose(1, 2)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        cells = self.cells(pixels)
        return self.boxes(cells), cells[..., 4:].sigmoid()

    def boxes(self, cells: Tensor) -> Tensor:
        centre_x = self.x + STRIDE * cells[..., 0]
        centre_y = self.y + STRIDE * cells[..., 1]
        sides = USUAL * cells[..., 2:4].clamp(-_LONGEST, _LONGEST).exp()
        return torch.cat([centre_x[..., None], centre_y[..., None], sides], -1)


def _normalised(channels: int, wider: int, stride: int) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, wider, 3, stride=stride, padding=1, bias=False)
    return [convolution, nn.BatchNorm2d(wider), nn.ReLU()]


def convolutions(model: Detector) -> Iterator[tuple[nn.Conv2d, NDArray[Any], NDArray[Any]]]:
    """Each convolution with its kernel and bias, the batch norm behind it folded in."""
    for place, layer in enumerate(model.body):
        if isinstance(layer, nn.Conv2d):
            norm = model.body[place + 1]
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            kernel, bias = layer.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale
            yield layer, kernel.detach().numpy(), bias.detach().numpy()
    yield model.head, model.head.weight.detach().numpy(), model.head.bias.detach().numpy()


def parameters(model: Detector) -> int:
    return sum(kernel.size + bias.size for _, kernel, bias in convolutions(model))
