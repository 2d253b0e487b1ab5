"""A network as data: a list of layers, and the one walk over them that every interpreter shares.

Tensors are height × width × channels without the batch axis, kernels are (height, width, in, out) for convolutions,
(height, width, channels, 1) for depthwise ones and (in, out) for dense layers; Flatten is channels-last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

INPUT_SHAPE = (28, 28, 1)
CLASSES = 10

Shape = tuple[int, ...]


class Weights(NamedTuple):
    """One layer's kernel and bias, batch norm already folded in."""

    kernel: NDArray[np.float32]
    bias: NDArray[np.float32]


@dataclass(frozen=True)
class Conv:
    """Stride 1 always: strided SAME padding differs between frameworks, pooling does not."""

    filters: int
    kernel: int
    padding: Literal["same", "valid"] = "same"
    depthwise: bool = False
    norm: bool = False
    relu: bool = True

    def __str__(self) -> str:
        kind = "depthwise" if self.depthwise else "conv"
        extras = f"{' norm' if self.norm else ''}{' relu' if self.relu else ''}"
        return f"{kind} {self.filters} {self.kernel}×{self.kernel} {self.padding}{extras}"


@dataclass(frozen=True)
class MaxPool:
    """2×2, stride 2; an odd last row or column is dropped."""

    def __str__(self) -> str:
        return "maxpool 2×2"


@dataclass(frozen=True)
class GlobalAverage:
    def __str__(self) -> str:
        return "global average"


@dataclass(frozen=True)
class Flatten:
    def __str__(self) -> str:
        return "flatten"


@dataclass(frozen=True)
class Dense:
    units: int
    relu: bool = True

    def __str__(self) -> str:
        return f"dense {self.units}{' relu' if self.relu else ''}"


@dataclass(frozen=True)
class Residual:
    """relu(x + body(x)); the body keeps the shape."""

    body: tuple[Conv, ...]

    def __str__(self) -> str:
        return f"residual [{', '.join(map(str, self.body))}]"


Layer = Conv | MaxPool | GlobalAverage | Flatten | Dense | Residual
Architecture = Sequence[Layer]


def output_shape(layer: Layer, shape: Shape) -> Shape:
    match layer:
        case Conv(filters=filters, kernel=kernel, padding=padding):
            lost = kernel - 1 if padding == "valid" else 0
            return (shape[0] - lost, shape[1] - lost, filters)
        case MaxPool():
            return (shape[0] // 2, shape[1] // 2, shape[2])
        case GlobalAverage():
            return (shape[2],)
        case Flatten():
            return (prod(shape),)
        case Dense(units=units):
            return (units,)
        case Residual():
            return shape


def kernel_shapes(layers: Architecture, shape: Shape = INPUT_SHAPE) -> Iterator[Shape]:
    """Shapes of all kernels in the order of the walk; a bias is as long as the layer's output has channels."""
    for layer in layers:
        match layer:
            case Conv(kernel=kernel, depthwise=True):
                yield (kernel, kernel, shape[-1], 1)
            case Conv(filters=filters, kernel=kernel):
                yield (kernel, kernel, shape[-1], filters)
            case Dense(units=units):
                yield (shape[0], units)
            case Residual(body=body):
                yield from kernel_shapes(body, shape)
            case _:
                pass
        shape = output_shape(layer, shape)


def count_parameters(weights: Sequence[Weights]) -> int:
    return sum(kernel.size + bias.size for kernel, bias in weights)


T = TypeVar("T")


class Ops(Protocol[T]):
    """What an interpreter (JAX, TensorFlow, ONNX) must know how to do with its own kind of tensor T."""

    def conv(self, x: T, layer: Conv, kernel: Any, bias: Any) -> T: ...
    def dense(self, x: T, kernel: Any, bias: Any) -> T: ...
    def relu(self, x: T) -> T: ...
    def max_pool(self, x: T) -> T: ...
    def global_average(self, x: T) -> T: ...
    def flatten(self, x: T, shape: Shape) -> T: ...
    def add(self, x: T, y: T) -> T: ...


def walk(layers: Architecture, x: T, weights: Iterator[tuple[Any, Any]], ops: Ops[T], shape: Shape = INPUT_SHAPE) -> T:
    """Interpret the layers from `x`, taking kernels and biases from `weights` as they are needed."""
    for layer in layers:
        match layer:
            case Conv(relu=relu):
                x = ops.conv(x, layer, *next(weights))
                x = ops.relu(x) if relu else x
            case MaxPool():
                x = ops.max_pool(x)
            case GlobalAverage():
                x = ops.global_average(x)
            case Flatten():
                x = ops.flatten(x, shape)
            case Dense(relu=relu):
                x = ops.dense(x, *next(weights))
                x = ops.relu(x) if relu else x
            case Residual(body=body):
                x = ops.relu(ops.add(x, walk(body, x, weights, ops, shape)))
        shape = output_shape(layer, shape)
    return x


def fold_norm(
    kernel: NDArray[np.float32], norm: Sequence[NDArray[np.float32]], epsilon: float, depthwise: bool
) -> Weights:
    """The convolution that does what a bias-free one and its batch norm (gamma, beta, mean, variance) did."""
    gamma, beta, mean, variance = (values.astype(np.float64) for values in norm)
    scale = gamma / np.sqrt(variance + epsilon)
    bias = beta - mean * scale
    folded = kernel * (scale[:, None] if depthwise else scale)
    return Weights(folded.astype(np.float32), bias.astype(np.float32))
