"""The architectures that every framework can build, each as one function from semantics to a network.

Structure that frameworks decide differently (where strides sit, how strided layers pad, biases before norms, dropout)
must be decided before: `build` takes it from the semantics. Constants of norms may stay None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from zoolens.base.errors import ModelError, UnknownName
from zoolens.training.crosstrain.training.drawing import Drawing
from zoolens.training.crosstrain.training.network import Network
from zoolens.training.pairs.semantics import Semantics

STRUCTURAL: Final = ("conv_bias", "dropout", "stride", "padding")
_VGG16: Final = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
_RESNET50: Final = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))
_DENSENET121: Final = (6, 12, 24, 16)
_GROWTH: Final = 32


def build(architecture: str, semantics: Semantics, input_shape: tuple[int, int, int], classes: int) -> Network:
    """`input_shape`: channels, height, width. The last layer gives the logits of `classes`."""
    if architecture not in _BUILDERS:
        raise UnknownName("architecture", architecture, NAMES)
    undecided = [name for name in STRUCTURAL if getattr(semantics, name) is None]
    if undecided:
        raise ValueError(f"{', '.join(undecided)}: the trainer decides these before it builds")
    drawing = Drawing(semantics, input_shape)
    _BUILDERS[architecture](drawing, classes)
    network = Network(architecture, drawing.layers)
    if any(extent < 1 for layer in network.layers for extent in layer.shape):
        size = "×".join(map(str, input_shape[1:]))
        raise ModelError(f"Images of {size} are too small for {architecture}.", hint="Use larger images.")
    return network


def tensor_shapes(network: Network) -> dict[str, tuple[int, ...]]:
    """Every learned tensor and norm statistic by its stable name, in the order of computation."""
    shapes = {layer.name: layer.shape for layer in network.layers}
    by_name: dict[str, tuple[int, ...]] = {}
    for layer in network.layers:
        if layer.kind in ("conv", "dense"):
            kernel = (layer.settings["kernel"],) * 2 if layer.kind == "conv" else ()
            by_name[f"{layer.name}.kernel"] = (layer.shape[0], shapes[layer.inputs[0]][0], *kernel)
            if layer.settings["bias"]:
                by_name[f"{layer.name}.bias"] = (layer.shape[0],)
        elif layer.kind == "norm":
            by_name |= {f"{layer.name}.{part}": (layer.shape[0],) for part in ("scale", "shift", "mean", "variance")}
    return by_name


def is_statistic(tensor: str) -> bool:
    """Kept by a norm, not learned by the optimizer."""
    return tensor.endswith((".mean", ".variance"))


def parameters(network: Network) -> int:
    """How many numbers the optimizer learns."""
    return sum(math.prod(shape) for name, shape in tensor_shapes(network).items() if not is_statistic(name))


def _mlp(draw: Drawing, classes: int) -> None:
    draw.flatten()
    for number in (1, 2):
        draw.dense(f"dense{number}", 128)
        draw.relu(f"relu{number}")
        draw.dropout(f"dropout{number}")
    draw.dense("logits", classes)


def _lenet(draw: Drawing, classes: int) -> None:
    """LeNet-5 with ReLU and max pooling, as tutorials of all frameworks have it."""
    draw.conv("conv1", 6, 5)
    draw.relu("relu1")
    draw.pool("pool1", "max_pool", 2, 2)
    draw.conv("conv2", 16, 5, padding="valid")
    draw.relu("relu2")
    draw.pool("pool2", "max_pool", 2, 2)
    draw.flatten()
    for number, units in ((3, 120), (4, 84)):
        draw.dense(f"dense{number}", units)
        draw.relu(f"relu{number}")
    draw.dropout("dropout")
    draw.dense("logits", classes)


def _convnorm(draw: Drawing, classes: int) -> None:
    for number, (filters, stride) in enumerate(((16, 1), (32, 2), (64, 2), (64, 2)), start=1):
        draw.conv_norm(f"conv{number}", filters, 3, stride)
        draw.relu(f"relu{number}")
    _head(draw, classes)


def _cifar_resnet(blocks: int) -> Callable[[Drawing, int], None]:
    """He et al. 2015, section 4.2, with 6·blocks + 2 layers; shortcuts that change shape are projections."""

    def resnet(draw: Drawing, classes: int) -> None:
        draw.conv_norm("conv1", 16, 3)
        draw.relu("relu1")
        for stage, filters in enumerate((16, 32, 64), start=1):
            for block in range(1, blocks + 1):
                stride = 2 if stage > 1 and block == 1 else 1
                _basic_block(draw, f"stage{stage}_block{block}", filters, stride)
        _head(draw, classes)

    return resnet


def _basic_block(draw: Drawing, name: str, filters: int, stride: int) -> None:
    start = draw.last
    draw.conv_norm(f"{name}_conv1", filters, 3, stride)
    draw.relu(f"{name}_relu1")
    residual = draw.conv_norm(f"{name}_conv2", filters, 3)
    if stride != 1 or draw.channels(start) != filters:
        start = draw.conv_norm(f"{name}_shortcut", filters, 1, stride, after=start)
    draw.join(f"{name}_add", "add", residual, start)
    draw.relu(f"{name}_relu2")


def _vgg16(draw: Drawing, classes: int) -> None:
    """Builds VGG-16 with keras' head (torchvision's pools to 7×7 first, which repeats the only pixel of a 32×32
    image)."""
    for stage, (filters, count) in enumerate(_VGG16, start=1):
        for number in range(1, count + 1):
            draw.conv(f"stage{stage}_conv{number}", filters, 3)
            draw.relu(f"stage{stage}_relu{number}")
        draw.pool(f"stage{stage}_pool", "max_pool", 2, 2)
    draw.flatten()
    for number in (1, 2):
        draw.dense(f"dense{number}", 4096)
        draw.relu(f"relu{number}")
        draw.dropout(f"dropout{number}")
    draw.dense("logits", classes)


def _resnet50(draw: Drawing, classes: int) -> None:
    _stem(draw)
    for stage, (filters, blocks, stride) in enumerate(_RESNET50, start=1):
        for block in range(1, blocks + 1):
            _bottleneck(draw, f"stage{stage}_block{block}", filters, stride if block == 1 else 1)
    _head(draw, classes)


def _bottleneck(draw: Drawing, name: str, filters: int, stride: int) -> None:
    start = draw.last
    first, second = (stride, 1) if draw.semantics.stride == "1x1" else (1, stride)
    draw.conv_norm(f"{name}_conv1", filters, 1, first)
    draw.relu(f"{name}_relu1")
    draw.conv_norm(f"{name}_conv2", filters, 3, second)
    draw.relu(f"{name}_relu2")
    residual = draw.conv_norm(f"{name}_conv3", 4 * filters, 1)
    if stride != 1 or draw.channels(start) != 4 * filters:
        start = draw.conv_norm(f"{name}_shortcut", 4 * filters, 1, stride, after=start)
    draw.join(f"{name}_add", "add", residual, start)
    draw.relu(f"{name}_relu3")


def _densenet121(draw: Drawing, classes: int) -> None:
    _stem(draw)
    for stage, count in enumerate(_DENSENET121, start=1):
        for number in range(1, count + 1):
            _dense_layer(draw, f"stage{stage}_layer{number}")
        draw.norm(f"stage{stage}_norm")
        draw.relu(f"stage{stage}_relu")
        if stage < len(_DENSENET121):
            draw.conv(f"stage{stage}_conv", draw.channels(draw.last) // 2, 1, bias=False)
            draw.pool(f"stage{stage}_pool", "avg_pool", 2, 2)
    _head(draw, classes)


def _dense_layer(draw: Drawing, name: str) -> None:
    start = draw.last
    draw.norm(f"{name}_norm1")
    draw.relu(f"{name}_relu1")
    draw.conv(f"{name}_conv1", 4 * _GROWTH, 1, bias=draw.conv_bias)
    draw.norm(f"{name}_norm2")
    draw.relu(f"{name}_relu2")
    grown = draw.conv(f"{name}_conv2", _GROWTH, 3, bias=False)
    draw.join(f"{name}_concat", "concat", start, grown)


def _stem(draw: Drawing) -> None:
    draw.conv_norm("conv1", 64, 7, 2)
    draw.relu("relu1")
    draw.pool("pool1", "max_pool", 3, 2, padded=True)


def _head(draw: Drawing, classes: int) -> None:
    draw.global_pool()
    draw.dropout("dropout")
    draw.dense("logits", classes)


_BUILDERS: Final[Mapping[str, Callable[[Drawing, int], None]]] = {
    "mlp": _mlp,
    "lenet": _lenet,
    "convnorm": _convnorm,
    "resnet8": _cifar_resnet(1),
    "resnet20": _cifar_resnet(3),
    "vgg16": _vgg16,
    "resnet50": _resnet50,
    "densenet121": _densenet121,
}
NAMES: Final = tuple(_BUILDERS)
