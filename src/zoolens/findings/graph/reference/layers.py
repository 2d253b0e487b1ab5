"""What layers with parameters, norms and pools compute, in numpy, from one call of a node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoolens.findings.graph.ir.model import Array, Node
from zoolens.findings.graph.reference import spatial


@dataclass(frozen=True)
class NodeCall:
    """One node with the values it works on. `layout` is the order of its input's axes; "" is channels first."""

    node: Node
    inputs: tuple[Array, ...]
    parameters: Mapping[str, Array]
    layout: str

    @property
    def x(self) -> Array:
        return self.inputs[0]

    def get(self, attribute: str, default: Any = None) -> Any:
        return self.node.get(attribute, default)

    @property
    def channel(self) -> int:
        """The channel axis; without a layout it is the second, which for a vector is also the last."""
        if "C" in self.layout:
            return self.layout.index("C")
        return min(1, self.x.ndim - 1)

    def along(self, role: str, axis: int, default: float) -> Array | float:
        """A parameter laid along one axis of the input."""
        values = self.parameters.get(role)
        if values is None:
            return default
        return values.reshape([-1 if i == axis else 1 for i in range(self.x.ndim)])

    def channels_first(self) -> Array:
        return np.moveaxis(self.x, self.channel, 1)

    def back(self, result: Array) -> Array:
        return np.moveaxis(result, 1, self.channel)

    def per_axis(self, attribute: str, default: int, *, sides: int = 1) -> tuple[int, ...]:
        given = self.get(attribute)
        if given is not None:
            return tuple(given)
        return (default,) * (sides * (self.x.ndim - 2))


def _normed(call: NodeCall, y: Array, axis: int) -> Array:
    """What a merged norm does after a conv or dense layer."""
    kind = call.get("norm")
    if kind is None:
        return y
    inner = NodeCall(call.node, (y,), call.parameters, "")
    scale = inner.along("norm_scale", axis, 1.0)
    shift = inner.along("norm_shift", axis, 0.0)
    if kind == "affine":
        return np.asarray(_in_place(y * scale, np.add, shift), y.dtype)
    mean = inner.along("norm_mean", axis, 0.0)
    variance = inner.along("norm_variance", axis, 1.0)
    normed = _in_place(y - mean, np.divide, np.sqrt(variance + call.get("epsilon", 0.0)))
    return np.asarray(_in_place(_in_place(normed, np.multiply, scale), np.add, shift), y.dtype)


def _in_place(values: Array, operation: np.ufunc, other: Array | float) -> Array:
    """The result, in the memory of a value that nobody else holds, where its type is that of the result."""
    kept = values if np.result_type(values, other) == values.dtype and np.ndim(other) <= values.ndim else None
    return np.asarray(operation(values, other, out=kept))


def conv(call: NodeCall) -> Array:
    x = spatial.padded(call.channels_first(), call.per_axis("pads", 0, sides=2))
    kernel = call.parameters["kernel"]
    y = spatial.conv(x, kernel, call.per_axis("stride", 1), call.per_axis("dilation", 1), call.get("groups", 1))
    bias = call.parameters.get("bias")
    if bias is not None:
        y = y + bias.reshape(-1, *(1,) * (y.ndim - 2))
    return call.back(_normed(call, y, 1))


def conv_transpose(call: NodeCall) -> Array:
    y = spatial.conv_transpose(
        call.channels_first(),
        call.parameters["kernel"],
        stride=call.per_axis("stride", 1),
        dilation=call.per_axis("dilation", 1),
        pads=call.per_axis("pads", 0, sides=2),
        output_pads=call.per_axis("output_pads", 0),
        groups=call.get("groups", 1),
    )
    bias = call.parameters.get("bias")
    return call.back(y if bias is None else y + bias.reshape(-1, *(1,) * (y.ndim - 2)))


def dense(call: NodeCall) -> Array:
    y = call.x @ call.parameters["kernel"].T
    bias = call.parameters.get("bias")
    return _normed(call, y if bias is None else y + bias, y.ndim - 1)


def batch_norm(call: NodeCall) -> Array:
    axis = call.channel
    deviation = np.sqrt(call.along("variance", axis, 1.0) + call.get("epsilon", 0.0))
    normed = _in_place(call.x - call.along("mean", axis, 0.0), np.divide, deviation)
    scaled = _in_place(normed, np.multiply, call.along("scale", axis, 1.0))
    return _in_place(scaled, np.add, call.along("shift", axis, 0.0))


def layer_norm(call: NodeCall) -> Array:
    axes = tuple(call.get("axes", (call.x.ndim - 1,)))
    centred = call.x - call.x.mean(axis=axes, keepdims=True)
    return _scaled(call, _divided_by_root_mean_square(call, centred, axes), axes)


def rms_norm(call: NodeCall) -> Array:
    axes = tuple(call.get("axes", (call.x.ndim - 1,)))
    return _scaled(call, _divided_by_root_mean_square(call, call.x, axes), axes)


def _divided_by_root_mean_square(call: NodeCall, x: Array, axes: tuple[int, ...]) -> Array:
    mean_square = np.square(x).mean(axis=axes, keepdims=True)
    root = np.sqrt(mean_square + call.get("epsilon", 0.0))
    return np.asarray(x / root)


def _scaled(call: NodeCall, y: Array, axes: tuple[int, ...]) -> Array:
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(y.shape)]
    scale = call.parameters.get("scale")
    shift = call.parameters.get("shift")
    y = y if scale is None else y * scale.reshape(shape)
    return y if shift is None else y + shift.reshape(shape)


def group_norm(call: NodeCall) -> Array:
    x = call.channels_first()
    grouped = x.reshape(x.shape[0], call.get("groups", x.shape[1]), -1)
    centred = grouped - grouped.mean(axis=2, keepdims=True)
    y = _divided_by_root_mean_square(call, centred, (2,)).reshape(x.shape)
    inner = NodeCall(call.node, (y,), call.parameters, "")
    return call.back(np.asarray(y * inner.along("scale", 1, 1.0) + inner.along("shift", 1, 0.0)))


def affine(call: NodeCall) -> Array:
    axis = call.get("axis")
    if axis is None:
        return np.asarray(call.x * call.parameters.get("scale", 1.0) + call.parameters.get("shift", 0.0))
    return np.asarray(call.x * call.along("scale", axis, 1.0) + call.along("shift", axis, 0.0))


def max_pool(call: NodeCall) -> Array:
    kernel = call.per_axis("kernel", 1)
    stride = call.per_axis("stride", 1)
    pads = call.per_axis("pads", 0, sides=2)
    value = call.get("pad_value", -np.inf)
    return call.back(spatial.max_pool(call.channels_first(), kernel, stride, call.per_axis("dilation", 1), pads, value))


def avg_pool(call: NodeCall) -> Array:
    kernel = call.per_axis("kernel", 1)
    stride = call.per_axis("stride", 1)
    pads = call.per_axis("pads", 0, sides=2)
    return call.back(
        spatial.avg_pool(call.channels_first(), kernel, stride, pads, count_pad=call.get("count_pad", False))
    )


def adaptively(reduce: Callable[..., Array]) -> Callable[[NodeCall], Array]:
    return lambda call: call.back(spatial.adaptive_pool(call.channels_first(), call.get("size"), reduce))


def globally(reduce: Callable[..., Array]) -> Callable[[NodeCall], Array]:
    def compute(call: NodeCall) -> Array:
        x = call.channels_first()
        return reduce(x, axis=tuple(range(2, x.ndim))).reshape(call.node.shape)

    return compute


def lrn(call: NodeCall) -> Array:
    given = (call.get("size"), call.get("alpha", 1e-4), call.get("beta", 0.75), call.get("bias", 1.0))
    return call.back(spatial.lrn(call.channels_first(), *given))
