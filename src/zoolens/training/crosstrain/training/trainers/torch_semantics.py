"""What a live torch network decided: the semantics it has, read from its modules and measured on its weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from zoolens.training.crosstrain.training.initial import fitting_bias, fitting_kernel
from zoolens.training.pairs.semantics import Semantics


def read_semantics(module: Any) -> Semantics:
    """Reads the semantics before any training, since initial weights are measured. None where there is no such layer,
    or they differ."""
    import torch

    nn = torch.nn
    modules = dict(module.named_modules())
    norms = [module for module in modules.values() if isinstance(module, nn.BatchNorm2d)]
    convs = {name: layer for name, layer in modules.items() if isinstance(layer, nn.Conv2d)}
    dropouts = [module.p for module in modules.values() if isinstance(module, nn.Dropout)]
    learning = [module for module in modules.values() if isinstance(module, nn.Conv2d | nn.Linear)]
    kernels = [_array(layer.weight) for layer in learning]
    biases = [(_array(layer.bias), _array(layer.weight).shape) for layer in learning if layer.bias is not None]
    return Semantics(
        norm_momentum=_only(round(1 - norm.momentum, 12) for norm in norms),
        norm_epsilon=_only(norm.eps for norm in norms),
        init=fitting_kernel(kernels),
        bias_init=fitting_bias(biases),
        conv_bias=any(conv.bias is not None for conv in convs.values()) if norms else None,
        dropout=_only(dropouts) if dropouts else 0.0,
        stride=_bottleneck_stride(convs),
        padding=_padding(modules.values(), nn),
    )


def _bottleneck_stride(convs: dict[str, Any]) -> Literal["1x1", "3x3"] | None:
    """Says which layer makes the image smaller, in blocks that have a third convolution beside the first two."""
    for name, conv in convs.items():
        stem = name.removesuffix("conv3")
        if stem == name or conv.kernel_size != (1, 1):
            continue
        if f"{stem}conv1" in convs and convs[f"{stem}conv1"].stride != (1, 1):
            return "1x1"
        if f"{stem}conv2" in convs and convs[f"{stem}conv2"].stride != (1, 1):
            return "3x3"
    return None


def _padding(modules: Iterable[Any], nn: Any) -> Literal["symmetric", "same"] | None:
    """A border of its own is how torch pads as TensorFlow does. Where the image's side is odd, that is the same border
    on both sides, and does not speak against the others."""
    borders: set[bool] = set()  # whether each is symmetric
    strided = False
    for module in modules:
        if isinstance(module, nn.ConstantPad2d):
            left, right, top, bottom = module.padding
            borders.add((left, top) == (right, bottom))
        elif isinstance(module, nn.Conv2d | nn.MaxPool2d | nn.AvgPool2d):
            strided |= _several(module.stride) and any(width != 0 for width in _pair(module.padding))
    if borders:
        return None if strided else "same"
    return "symmetric" if strided else None


def _several(stride: Any) -> bool:
    return any(step > 1 for step in _pair(stride))


def _pair(value: Any) -> tuple[int, int]:
    """torch's pools keep one number where both are the same."""
    return value if isinstance(value, tuple) else (value, value)


def _only(values: Iterable[float]) -> float | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _array(tensor: Any) -> Any:
    return tensor.detach().cpu().numpy()
