"""Pools and reductions as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from zoolens.findings.graph.onnx_writer.onnx_graph import NodeWriter
from zoolens.findings.graph.onnx_writer.written_layers import padded, window


def _max_pool(call: NodeWriter) -> str:
    chosen = window(call, "kernel", "stride", "dilation", "pads")
    value = call.get("pad_value", -np.inf)
    if not _fits(chosen["pads"], chosen["kernel_shape"]) or (value != -np.inf and any(chosen["pads"])):
        # onnxruntime joins a pad of 0 with the pool behind it, which then pads with -inf: keep the two apart.
        x = call.emit("Max", padded(call, call.x, chosen["pads"], float(value)), call.number(-np.inf))
        return call.emit("MaxPool", x, **chosen | {"pads": [0] * len(chosen["pads"])})
    return call.emit("MaxPool", call.x, **chosen)


def _avg_pool(call: NodeWriter) -> str:
    chosen = window(call, "kernel", "stride", "pads")
    counted = bool(call.get("count_pad", False))
    if _fits(chosen["pads"], chosen["kernel_shape"]):
        return call.emit("AveragePool", call.x, count_include_pad=int(counted), **chosen)
    if not counted:
        raise call.refused("some of its windows see only padding")
    x = padded(call, call.x, chosen["pads"], 0.0)
    return call.emit("AveragePool", x, **chosen | {"pads": [0] * len(chosen["pads"])})


def _fits(pads: list[int], kernel: list[int]) -> bool:
    """Runtimes refuse pads as wide as the window, and pads below 0."""
    return all(0 <= pad < extent for pad, extent in zip(pads, kernel * 2, strict=True))


def _adaptively(pool: str, reduce: str) -> Callable[[NodeWriter], str]:
    """Writes an adaptive pool as a plain one where cells are equal, else cell by cell, one axis after the other."""

    def write(call: NodeWriter) -> str:
        extents = call.given()[2:]
        cells = tuple(call.get("size"))
        if not any(extent % count for extent, count in zip(extents, cells, strict=True)):
            size = [extent // count for extent, count in zip(extents, cells, strict=True)]
            return call.emit(pool, call.x, kernel_shape=size, strides=size)
        x = call.x
        for axis, (extent, count) in enumerate(zip(extents, cells, strict=True), start=2):
            spans = [(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]
            parts = []
            for start, stop in spans:
                cell = call.cut(x, axis, start, stop)
                parts.append(call.emit(reduce, cell, axes=[axis], keepdims=1))
            x = call.emit("Concat", *parts, axis=axis)
        return x

    return write


def _globally(reduce: str) -> Callable[[NodeWriter], str]:
    def write(call: NodeWriter) -> str:
        axes = list(range(2, len(call.given())))
        return call.emit(reduce, call.x, axes=axes, keepdims=int(len(call.shape) > 2))

    return write


def _reduced(reduce: str) -> Callable[[NodeWriter], str]:
    def write(call: NodeWriter) -> str:
        axes = [int(axis) for axis in call.get("axes")]
        keep = int(call.get("keep", False))
        if reduce == "ReduceSum":  # the one whose axes are an input already at our opset
            return call.emit(reduce, call.x, call.integers(axes), keepdims=keep)
        return call.emit(reduce, call.x, axes=axes, keepdims=keep)

    return write


def _extreme(find: str) -> Callable[[NodeWriter], str]:
    """The places as real numbers, as every value here."""

    def write(call: NodeWriter) -> str:
        (axis,) = call.get("axes")
        keep = int(call.get("keep", False))
        places = call.emit(find, call.x, kind="int", axis=int(axis), keepdims=keep)
        return call.emit("Cast", places, to=1)

    return write


POOLS: Final[dict[str, Callable[[NodeWriter], str]]] = {
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptively("AveragePool", "ReduceMean"),
    "adaptive_max_pool": _adaptively("MaxPool", "ReduceMax"),
    "global_avg_pool": _globally("ReduceMean"),
    "global_max_pool": _globally("ReduceMax"),
    "mean": _reduced("ReduceMean"),
    "sum": _reduced("ReduceSum"),
    "max": _reduced("ReduceMax"),
    "min": _reduced("ReduceMin"),
    "prod": _reduced("ReduceProd"),
    "argmax": _extreme("ArgMax"),
    "argmin": _extreme("ArgMin"),
}
