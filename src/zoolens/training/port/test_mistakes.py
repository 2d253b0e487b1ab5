"""Seeded mistakes of ports, one in each pair, and faithful ports: each mistake is named, and no port is accused.

Each pair is one layer or two around it, so that what is said can only be about the mistake.
"""

import pytest

from zoolens.training.port.port_check import check
from zoolens.training.port.port_words import check_lines

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")
nn, kl = torch.nn, keras.layers
pytestmark = pytest.mark.slow


class Calls(nn.Module):
    """A module and what is done with its output."""

    def __init__(self, module, after):
        super().__init__()
        self.module, self.after = module, after

    def forward(self, x):
        return self.after(self.module(x))


def port(shape, *layers):
    return keras.Sequential([keras.Input(shape), *layers])


def conv(**options):
    return nn.Conv2d(3, 4, 3, **options)


MAP, VECTOR = (8, 8, 3), (6,)
FAITHFUL = {
    "convolution": ("3x8x8", lambda: conv(padding=1), lambda: port(MAP, kl.Conv2D(4, 3, padding="same"))),
    "depthwise with a multiplier": (
        "3x8x8", lambda: nn.Conv2d(3, 6, 3, groups=3), lambda: port(MAP, kl.DepthwiseConv2D(3, depth_multiplier=2)),
    ),
    "dense": ("6", lambda: nn.Linear(6, 4), lambda: port(VECTOR, kl.Dense(4))),
    "layer norm": ("6", lambda: nn.LayerNorm(6), lambda: port(VECTOR, kl.LayerNormalization(epsilon=1e-5))),
    "group norm": (
        "4x8x8", lambda: nn.GroupNorm(2, 4), lambda: port((8, 8, 4), kl.GroupNormalization(2, epsilon=1e-5)),
    ),
    "convolution in one dimension": (
        "3x9",
        lambda: nn.Conv1d(3, 5, 3),
        lambda: port((3, 9), kl.Permute((2, 1)), kl.Conv1D(5, 3), kl.Permute((2, 1))),
    ),
    "pool and flatten": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 3)),
        lambda: port(MAP, kl.Conv2D(4, 3), kl.AveragePooling2D(2), kl.Flatten(), kl.Dense(3)),
    ),
    "embedding": (
        "int:7",
        lambda: nn.Sequential(nn.Embedding(11, 5), nn.Linear(5, 2)),
        lambda: port((7,), kl.Embedding(11, 5), kl.Dense(2)),
    ),
}  # fmt: skip

# name -> input, torch, Keras, what the check says
MISTAKES = {
    "epsilon of a norm": ("6", lambda: nn.LayerNorm(6), lambda: port(VECTOR, kl.LayerNormalization()), "epsilon"),
    "momentum inverted": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.BatchNorm2d(4, eps=1e-3, momentum=0.99)),
        lambda: port(MAP, kl.Conv2D(4, 3), kl.BatchNormalization(momentum=0.99)),
        "share of the old statistics that a step keeps: A 0.01; B 0.99",
    ),
    "bias missing": ("6", lambda: nn.Linear(6, 4), lambda: port(VECTOR, kl.Dense(4, use_bias=False)), "bias"),
    "padding of a stride": (
        "3x8x8",
        lambda: conv(stride=2, padding=1),
        lambda: port(MAP, kl.Conv2D(4, 3, strides=2, padding="same")),
        "padding 1 at bottom and right only",
    ),
    "softmax twice": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(-1)),
        lambda: port(VECTOR, kl.Dense(4, activation="softmax"), kl.Softmax()),
        "softmax",
    ),
    "softmax forgotten": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Softmax(-1)),
        lambda: port(VECTOR, kl.Dense(4)),
        "softmax",
    ),
    "GELU by tanh": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.GELU(approximate="tanh")),
        lambda: port(VECTOR, kl.Dense(4, activation="gelu")),
        "gelu approximate",
    ),
    "slope of a leaky ReLU": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.LeakyReLU()),
        lambda: port(VECTOR, kl.Dense(4), kl.LeakyReLU()),
        "leaky relu",
    ),
    "ReLU6 for ReLU": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.ReLU6()),
        lambda: port(VECTOR, kl.Dense(4, activation="relu")),
        "relu6",
    ),
    "average for maximum": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.MaxPool2d(2)),
        lambda: port(MAP, kl.Conv2D(4, 3), kl.AveragePooling2D(2)),
        "pool",
    ),
    "padding in an average": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.AvgPool2d(3, 1, 1)),
        lambda: port(MAP, kl.Conv2D(4, 3), kl.AveragePooling2D(3, 1, padding="same")),
        "avg pool",
    ),
    "dropout forgotten": (
        "6",
        lambda: nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.3)),
        lambda: port(VECTOR, kl.Dense(4)),
        "dropout layers: A 1 layer, rate 0.3; B none",
    ),
    "dropout left on": (
        "6",
        lambda: Calls(nn.Linear(6, 4), lambda x: nn.functional.dropout(x, 0.5)),
        lambda: port(VECTOR, kl.Dense(4)),
        "answers with other numbers",
    ),
    "flatten order": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.Flatten(), nn.Linear(144, 3)),
        lambda: port(MAP, kl.Conv2D(4, 3), kl.Flatten(), kl.Dense(3)),
        "its inputs from the order CHW to HWC",
    ),
    "initial weights": (
        "600",
        lambda: nn.Linear(600, 300),
        lambda: port((600,), kl.Dense(300, kernel_initializer="he_normal")),
        "kernels of dense layers: A uniform ±1/√(fan in); B kaiming_",
    ),
    "dilation": (
        "3x8x8", lambda: conv(dilation=2, padding=2), lambda: port(MAP, kl.Conv2D(4, 3, padding="same")), "dilation",
    ),
    "groups": (
        "4x8x8",
        lambda: nn.Conv2d(4, 8, 3, groups=2),
        lambda: port((8, 8, 4), kl.Conv2D(8, 3)),
        "group",
    ),
    "BGR for RGB": (
        "3x8x8",
        lambda: nn.Sequential(Calls(nn.Identity(), lambda x: x.flip(1)), conv()),
        lambda: port(MAP, kl.Conv2D(4, 3)),
        "the outputs differ",
    ),
    "order of norm and activation": (
        "3x8x8",
        lambda: nn.Sequential(conv(), nn.BatchNorm2d(4, eps=1e-3), nn.ReLU()),
        lambda: port(MAP, kl.Conv2D(4, 3, activation="relu"), kl.BatchNormalization()),
        "norm",
    ),
    "half precision": (
        "6",
        lambda: nn.Linear(6, 4),
        lambda: port(VECTOR, kl.Dense(4, dtype="float16")),
        "type of the weights: A float32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAITHFUL)
def test_a_faithful_port_is_not_accused(name):
    shape, a, b = FAITHFUL[name]
    found = check(a(), b(), [shape])
    assert found.same, "\n".join(check_lines(found))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    shape, a, b, words = MISTAKES[name]
    found = check(a(), b(), [shape])
    assert words in "\n".join(check_lines(found)).replace("BN", "norm"), "\n".join(check_lines(found))
