"""Pools of a draft for Keras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zoolens.findings.graph.ir.model import Node
from zoolens.training.port.scaffolds.keras_code import KerasWriter, padded, pads_like_same, spatial_axes, window
from zoolens.training.port.scaffolds.layouts import channels_last
from zoolens.training.port.scaffolds.steps import Setting
from zoolens.training.port.scaffolds.writer import CannotWrite, by_axis, size


def _max_pool(writer: KerasWriter, node: Node) -> None:
    rank, value, pads = spatial_axes(node), writer.usual(node), node.get("pads") or ()
    if any(rate != 1 for rate in window(node, "dilation", 1)):
        raise CannotWrite("Keras has no dilated pools")
    filled = node.get("pad_value")
    same = any(pads) and filled is None and pads_like_same(node)
    if any(pads) and not same:
        zeros = filled == 0 or (filled is None and writer.never_negative[node.inputs[0]])
        value = padded(writer, node, value, pads) if zeros else _filled(writer, node, value, pads, filled)
    _pooling(writer, node, f"MaxPooling{rank}D", value, same)


def _filled(writer: KerasWriter, node: Node, value: str, pads: Sequence[int], filled: float | None) -> str:
    half = len(pads) // 2
    pairs = ((0, 0), *zip(map(int, pads[:half]), map(int, pads[half:]), strict=True), (0, 0))
    name = writer.between(node.name)
    number = float("-inf") if filled is None else float(filled)
    settings = [Setting("pad_width", pairs), Setting("constant_values", number)]
    writer.add(
        node, "ops.pad({0}, {pad_width}, constant_values={constant_values})", [value], settings, value=name,
        is_leaf=False, label="pad",
    )  # fmt: skip
    writer.orders[name] = writer.orders[value]
    return name


def _avg_pool(writer: KerasWriter, node: Node) -> None:
    rank, value, pads = spatial_axes(node), writer.usual(node), node.get("pads") or ()
    same = any(pads) and not node.get("count_pad") and pads_like_same(node)
    if any(pads) and not same:
        if not node.get("count_pad"):
            raise CannotWrite("Keras has no average pool that leaves explicit padding out of the mean")
        value = padded(writer, node, value, pads)
    _pooling(writer, node, f"AveragePooling{rank}D", value, same)


def _pooling(writer: KerasWriter, node: Node, kind: str, value: str, same: bool) -> None:
    kernel, strides = by_axis(node.get("kernel")), by_axis(window(node, "stride", 1))
    settings = [
        Setting("pool_size", kernel, positional=True),
        Setting("strides", strides),
        Setting("padding", "same" if same else "valid", "valid"),
    ]
    writer.layer(node, kind, settings, [value])
    writer.made(node, channels_last(len(node.shape)))


def _adaptive(kind: str) -> Callable[[KerasWriter, Node], None]:
    def handle(writer: KerasWriter, node: Node) -> None:
        settings = [size(node.get("size"), "output_size", positional=True)]
        writer.layer(node, f"Adaptive{kind}Pooling{spatial_axes(node)}D", settings, [writer.usual(node)])
        writer.made(node, channels_last(len(node.shape)))

    return handle


def _global(kind: str) -> Callable[[KerasWriter, Node], None]:
    def handle(writer: KerasWriter, node: Node) -> None:
        rank = len(writer.graph.by_name[node.inputs[0]].shape) - 2
        if not 1 <= rank <= 3:
            raise CannotWrite("Keras pools one to three axes")
        kept = Setting("keepdims", len(node.shape) > 2, False)
        writer.layer(node, f"Global{kind}Pooling{rank}D", [kept], [writer.usual(node)])
        writer.made(node, channels_last(len(node.shape)))

    return handle


POOLS: Final[dict[str, Callable[[KerasWriter, Node], None]]] = {
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive("Average"),
    "adaptive_max_pool": _adaptive("Max"),
    "global_avg_pool": _global("Average"),
    "global_max_pool": _global("Max"),
}
