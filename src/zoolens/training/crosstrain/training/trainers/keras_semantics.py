"""What a live Keras model does where nobody told it: read from it, not from a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from zoolens.training.crosstrain.training.initial import fitting_bias, fitting_kernel
from zoolens.training.crosstrain.training.trainers.keras_building import Built
from zoolens.training.crosstrain.training.trainers.keras_layout import tensors
from zoolens.training.pairs.semantics import Semantics

_BETWEEN: Final = ("BatchNormalization", "ReLU", "Activation", "ZeroPadding2D")
_POOLS: Final = ("MaxPooling2D", "AveragePooling2D")


def resolved(built: Built) -> Semantics:
    """Reads the semantics of the model before any training, since first values are judged by what they are. What a
    network does not have (a norm, a bottleneck) stays None."""
    layers = list(built.model.layers)
    norms = list(_kind(layers, "BatchNormalization"))
    first = {tensor.name: tensor.ours(np.asarray(tensor.variable.value)) for tensor in tensors(built)}
    kernels = {name.removesuffix(".kernel"): values for name, values in first.items() if name.endswith(".kernel")}
    biases = [(first[f"{name}.bias"], kernel.shape) for name, kernel in kernels.items() if f"{name}.bias" in first]
    return Semantics(
        norm_momentum=_commonest(norm.momentum for norm in norms),
        norm_epsilon=_commonest(norm.epsilon for norm in norms),
        init=fitting_kernel(list(kernels.values())),
        bias_init=fitting_bias(biases),
        conv_bias=_commonest(conv.use_bias for conv in _before_norms(built)),
        dropout=max((float(layer.rate) for layer in _kind(layers, "Dropout")), default=0.0),
        stride=_stride(built),
        padding=_padding(built),
    )


def _before_norms(built: Built) -> Iterator[Any]:
    makers = _makers(built)
    for norm in _kind(built.model.layers, "BatchNormalization"):
        maker = makers.get(id(norm.input))
        if type(maker).__name__ == "Conv2D":
            yield maker


def _stride(built: Built) -> Any:
    """A bottleneck is a 3×3 convolution that reads a 1×1 one: which of the two strides?"""
    makers = _makers(built)
    for conv in _kind(built.model.layers, "Conv2D"):
        before = _source(conv, makers)
        if conv.kernel_size == (3, 3) and type(before).__name__ == "Conv2D" and before.kernel_size == (1, 1):
            for layer, name in ((conv, "3x3"), (before, "1x1")):
                if max(layer.strides) > 1:
                    return name
    return None


def _padding(built: Built) -> Any:
    makers = _makers(built)
    strided = (layer for layer in _kind(built.model.layers, "Conv2D", *_POOLS) if max(layer.strides) > 1)
    return _commonest(pads for layer in strided if (pads := _pads(layer, makers.get(id(layer.input)))) is not None)


def _pads(layer: Any, before: Any) -> str | None:
    """A layer that pads nothing does not decide."""
    if layer.padding == "same" and max(getattr(layer, "kernel_size", None) or layer.pool_size) > 1:
        return "same"
    widths = before.padding if type(before).__name__ == "ZeroPadding2D" else None
    if type(before).__name__ == "Pad":
        widths = before.pad_width[1:3]
    return "symmetric" if widths is not None and all(first == last for first, last in widths) else None


def _source(layer: Any, makers: dict[int, Any]) -> Any:
    """The layer before this one, seen through what changes no shape but borders."""
    maker: Any = makers.get(id(layer.input))
    while type(maker).__name__ in _BETWEEN:
        maker = makers.get(id(maker.input))
    return maker


def _makers(built: Built) -> dict[int, Any]:
    """Maps the identity of a symbolic tensor to the operation that makes it."""
    return {id(operation.output): operation for operation in built.model.operations}


def _kind(layers: Iterable[Any], *kinds: str) -> Iterator[Any]:
    return (layer for layer in layers if type(layer).__name__ in kinds)


def _commonest(values: Iterable[Any]) -> Any:
    return next((value for value, _ in Counter(values).most_common(1)), None)
