"""Layers with parameters and norms, as ONNX operators. A merged batch norm is written out again behind its layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.onnx_writer.onnx_graph import NodeWriter


def window(call: NodeWriter, *names: str) -> dict[str, Any]:
    """Attributes of a sliding window, under ONNX's names."""
    count = len(call.given()) - 2
    defaults = {"kernel": (), "stride": (1,) * count, "dilation": (1,) * count, "pads": (0,) * (2 * count)}
    return {_NAMES[name]: list(call.get(name) or defaults[name]) for name in names}


def padded(call: NodeWriter, value: str, pads: Sequence[int], fill: float) -> str:
    """Spatial pads as an operator of their own; negative ones crop."""
    half = len(pads) // 2
    every = [0, 0, *pads[:half], 0, 0, *pads[half:]]
    return call.emit("Pad", value, call.integers(every), call.number(fill))


def _conv(call: NodeWriter) -> str:
    chosen = window(call, "kernel", "stride", "dilation", "pads")
    x = call.x
    if min(chosen["pads"]) < 0:
        x = padded(call, x, chosen["pads"], 0.0)
        chosen["pads"] = [0] * len(chosen["pads"])
    y = call.emit("Conv", *_given(x, call.weight("kernel"), call.weight("bias")), group=call.get("groups", 1), **chosen)
    return _normed(call, y, 1)


def _conv_transpose(call: NodeWriter) -> str:
    chosen = window(call, "kernel", "stride", "dilation", "pads")
    if min(chosen["pads"]) < 0:
        raise call.refused("it pads by less than nothing")
    extra = list(call.get("output_pads") or [0] * (len(call.given()) - 2))
    given = _given(call.x, call.weight("kernel"), call.weight("bias"))
    return call.emit("ConvTranspose", *given, group=call.get("groups", 1), output_padding=extra, **chosen)


def _given(*inputs: str | None) -> list[str]:
    return [name for name in inputs if name is not None]


def _dense(call: NodeWriter) -> str:
    kernel = call.values("kernel")
    bias = call.weight("bias")
    if len(call.given()) == 2:
        y = call.emit("Gemm", *_given(call.x, call.weight("kernel"), bias), transB=1)
    else:
        assert kernel is not None  # a dense layer has one
        y = call.emit("MatMul", call.x, call.tensor(kernel.T, "kernel"))
        y = y if bias is None else call.emit("Add", y, bias)
    return _normed(call, y, len(call.shape) - 1)


def _normed(call: NodeWriter, y: str, axis: int) -> str:
    """What a merged norm does after a layer whose channels are on this axis."""
    kind = call.get("norm")
    rank = len(call.shape)
    if kind is None:
        return y
    if kind == "batch" and axis == 1:
        return _batch_normed(call, y, "norm_")
    if kind == "batch":
        scale, shift = _as_line(call)
        y = call.emit("Mul", y, call.tensor(scale, "scale"))
        return call.emit("Add", y, call.tensor(shift, "shift"))
    return _scaled(call, y, call.along("norm_scale", axis, rank), call.along("norm_shift", axis, rank))


def _as_line(call: NodeWriter) -> tuple[Any, Any]:
    """A batch norm on the last axis, where ONNX has none: y·scale + shift, worked out in double precision."""
    channels = call.shape[-1]
    scale, shift, mean, variance = _statistics(call, "norm_", channels)
    factor = scale.astype(float) / np.sqrt(variance.astype(float) + call.get("epsilon", 0.0))
    return factor, shift - mean.astype(float) * factor


def _statistics(call: NodeWriter, prefix: str, channels: int) -> tuple[Any, ...]:
    defaults = {"scale": 1.0, "shift": 0.0, "mean": 0.0, "variance": 1.0}
    statistics = []
    for role, default in defaults.items():
        values = call.values(prefix + role)
        statistics.append(np.full(channels, default) if values is None else values.reshape(-1))
    return tuple(statistics)


def _batch_normed(call: NodeWriter, y: str, prefix: str) -> str:
    roles = ("scale", "shift", "mean", "variance")
    parts = zip(roles, _statistics(call, prefix, call.shape[1]), strict=True)
    keys = {tensor.role: tensor.key for tensor in call.node.parameters}
    tensors = [call.draft.tensor(values, keys.get(prefix + role, f"{call.node.name}/{role}")) for role, values in parts]
    return call.emit("BatchNormalization", y, *tensors, epsilon=float(call.get("epsilon", 0.0)))


def _scaled(call: NodeWriter, y: str, scale: str | None, shift: str | None) -> str:
    y = y if scale is None else call.emit("Mul", y, scale)
    return y if shift is None else call.emit("Add", y, shift)


def _batch_norm(call: NodeWriter) -> str:
    if len(call.shape) < 2:
        raise call.refused("it has no channel axis")
    return _batch_normed(call, call.x, "")


def _axes(call: NodeWriter) -> tuple[int, ...]:
    return tuple(call.get("axes", (len(call.shape) - 1,)))


def _layer_norm(call: NodeWriter) -> str:
    axes = _axes(call)
    rank = len(call.shape)
    epsilon = float(call.get("epsilon", 0.0))
    if axes == tuple(range(axes[0], rank)):
        extents = call.shape[axes[0] :]
        scale = call.weight("scale", extents) or call.tensor(np.ones(extents), "scale")
        given = _given(call.x, scale, call.weight("shift", extents))
        return call.emit("LayerNormalization", *given, axis=axes[0], epsilon=epsilon)
    mean = call.emit("ReduceMean", call.x, axes=list(axes), keepdims=1)
    return _over_root_mean_square(call, call.emit("Sub", call.x, mean), axes)


def _rms_norm(call: NodeWriter) -> str:
    return _over_root_mean_square(call, call.x, _axes(call))


def _over_root_mean_square(call: NodeWriter, x: str, axes: tuple[int, ...]) -> str:
    square = call.emit("Mul", x, x)
    mean = call.emit("ReduceMean", square, axes=list(axes), keepdims=1)
    above_zero = call.emit("Add", mean, call.number(call.get("epsilon", 0.0)))
    root = call.emit("Sqrt", above_zero)
    normed = call.emit("Div", x, root)
    shape = [extent if axis in axes else 1 for axis, extent in enumerate(call.shape)]
    return _scaled(call, normed, call.weight("scale", shape), call.weight("shift", shape))


def _group_norm(call: NodeWriter) -> str:
    """Writes a group norm as ONNX's norm of each map, on maps that are the groups."""
    channels = call.shape[1]
    rank = len(call.shape)
    groups = int(call.get("groups", channels))
    x = call.reshaped(call.x, (call.shape[0], groups, channels // groups * prod(call.shape[2:])))
    ones = call.tensor(np.ones(groups), "ones")
    zeros = call.tensor(np.zeros(groups), "zeros")
    y = call.emit("InstanceNormalization", x, ones, zeros, epsilon=float(call.get("epsilon", 0.0)))
    y = call.reshaped(y, call.shape)
    return _scaled(call, y, call.along("scale", 1, rank), call.along("shift", 1, rank))


def _affine(call: NodeWriter) -> str:
    axis = call.get("axis")
    rank = len(call.shape)
    if axis is None:
        return _same(call, _scaled(call, call.x, call.weight("scale", ()), call.weight("shift", ())))
    return _same(call, _scaled(call, call.x, call.along("scale", axis, rank), call.along("shift", axis, rank)))


def _same(call: NodeWriter, y: str) -> str:
    return call.emit("Identity", y) if y == call.x else y


def _lrn(call: NodeWriter) -> str:
    chosen: dict[str, Any] = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    chosen = {name: float(call.get(name, default)) for name, default in chosen.items()}
    return call.emit("LRN", call.x, size=int(call.get("size")), **chosen)


def _embedding(call: NodeWriter) -> str:
    table = call.weight("table")
    assert table is not None  # an embedding is one
    return call.emit("Gather", table, call.input(0, "int"), axis=0)


_NAMES: Final = {"kernel": "kernel_shape", "stride": "strides", "dilation": "dilations", "pads": "pads"}

LAYERS: Final[dict[str, Callable[[NodeWriter], str]]] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "dense": _dense,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    "affine": _affine,
    "lrn": _lrn,
    "embedding": _embedding,
}
