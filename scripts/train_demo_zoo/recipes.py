"""The zoo as data: the architectures, and who trains each one for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .architecture import CLASSES, Architecture, Conv, Dense, Flatten, GlobalAverage, MaxPool, Residual


def _lenet(first: int, second: int, *hidden: int) -> Architecture:
    dense = [Dense(units) for units in hidden]
    convs: Architecture = [Conv(first, 5, "valid"), MaxPool(), Conv(second, 5, "valid"), MaxPool()]
    return [*convs, Flatten(), *dense, Dense(CLASSES, relu=False)]


def _residual(channels: int) -> Residual:
    return Residual((Conv(channels, 3, norm=True), Conv(channels, 3, norm=True, relu=False)))


def _separable(channels: int, filters: int) -> tuple[Conv, Conv]:
    return Conv(channels, 3, depthwise=True, norm=True), Conv(filters, 1, norm=True)


ARCHITECTURES: Final[dict[str, Architecture]] = {
    "lenet": _lenet(6, 16, 120, 84),
    "lenet-narrow": _lenet(3, 6, 24),
    "lenet-wide": _lenet(16, 32, 128),
    "lenet-deep": [
        Conv(8, 3), Conv(8, 3), MaxPool(), Conv(16, 3), Conv(16, 3), MaxPool(), Conv(32, 3), Conv(32, 3), MaxPool(),
        Flatten(), Dense(48), Dense(CLASSES, relu=False),
    ],
    "mlp-small": [Flatten(), Dense(8), Dense(CLASSES, relu=False)],
    "mlp-wide": [Flatten(), Dense(64), Dense(32), Dense(CLASSES, relu=False)],
    "resnet-tiny": [
        Conv(12, 3, norm=True), MaxPool(), _residual(12), Conv(24, 3, norm=True), MaxPool(), _residual(24),
        Conv(32, 3, norm=True), GlobalAverage(), Dense(CLASSES, relu=False),
    ],
    "mobile-tiny": [
        Conv(8, 3, norm=True), MaxPool(), *_separable(8, 24), *_separable(24, 24), MaxPool(), *_separable(24, 48),
        *_separable(48, 48), GlobalAverage(), Dense(CLASSES, relu=False),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How one float model is made. Optimiser and initialisation are the framework's own defaults.

    `int8`: the name of a second model, these weights quantised after training.
    """

    name: str
    architecture: str
    framework: Literal["torch", "tensorflow", "jax"]
    summary: str
    epochs: int
    seed: int
    batch_size: int = 128
    learning_rate: float = 1e-3
    int8: str | None = None

    @property
    def layers(self) -> Architecture:
        return ARCHITECTURES[self.architecture]

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, self.int8) if self.int8 else (self.name,)


_SAME = "LeNet-5 with ReLU and max pooling; the same architecture also comes from the two other frameworks."

RECIPES: Final[tuple[Recipe, ...]] = (
    Recipe("lenet-torch", "lenet", "torch", _SAME, 8, 101, int8="lenet-int8"),
    Recipe("lenet-tensorflow", "lenet", "tensorflow", _SAME, 8, 102),
    Recipe("lenet-jax", "lenet", "jax", _SAME, 8, 103),
    Recipe("lenet-narrow", "lenet-narrow", "jax", "LeNet-5 with half the filters and one hidden layer.", 4, 104),
    Recipe("lenet-wide", "lenet-wide", "torch", "LeNet-5 with more filters.", 8, 105, int8="lenet-wide-int8"),
    Recipe(
        "lenet-deep", "lenet-deep", "tensorflow", "Six small convolutions where LeNet-5 has two large ones.", 6, 106
    ),
    Recipe("mlp-small", "mlp-small", "jax", "One hidden layer of eight units, trained for one epoch.", 1, 107),
    Recipe("mlp-wide", "mlp-wide", "tensorflow", "Two hidden layers, no convolution.", 5, 108),
    Recipe("resnet-tiny", "resnet-tiny", "torch", "Two residual blocks, batch norm folded.", 6, 109),
    Recipe("mobile-tiny", "mobile-tiny", "tensorflow", "Depthwise separable convolutions, batch norm folded.", 5, 110),
)
