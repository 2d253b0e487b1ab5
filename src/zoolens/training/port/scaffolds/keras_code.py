"""Writes the steps of a draft for Keras: functional, with channels last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.outline.blocks import is_depthwise
from zoolens.training.port.scaffolds.layouts import Order, channels_last, straight
from zoolens.training.port.scaffolds.steps import Setting
from zoolens.training.port.scaffolds.writer import (
    CannotWrite,
    Handler,
    SourceFacts,
    Writer,
    by_axis,
    figure,
    size,
    width,
)

_LAYERS: Final = "layers."


class KerasWriter(Writer):
    framework: ClassVar[str] = "keras"

    def __init__(self, graph: Graph, source: SourceFacts, handlers: Mapping[str, Handler]) -> None:
        super().__init__(graph, source, handlers)
        self.orders: dict[str, Order] = {}

    def give_up(self, node: Node, function: str) -> None:
        inputs = self.known_operands(node)
        same = next((self.orders[name] for name in inputs if len(self.orders[name]) == len(node.shape)), None)
        self.orders[node.name] = same or straight(len(node.shape))
        self.add(node, f"{function}({', '.join(f'{{{place}}}' for place in range(len(inputs)))})", inputs)

    def finished(self, outputs: Sequence[str]) -> list[str]:
        """The variables of the outputs: maps with their channels last, everything else in the source's order."""
        names = []
        for name in outputs:
            node = self.graph.by_name[name]
            if name not in self.orders:  # a learned tensor, or an input
                self._tensor(node, node)
            order = self.orders[name]
            usual = channels_last(4) if len(order) == 4 else straight(len(order))
            names.append(name if order == usual else self.turned(node, name, straight(len(order))))
        return names

    # --- for handlers

    def layer(self, node: Node, kind: str, settings: Sequence[Setting], inputs: Sequence[str], **more: Any) -> str:
        """A layer of keras.layers that is called with one value, or with a list of several."""
        given = ", ".join(f"{{{place}}}" for place in range(len(inputs)))
        pattern = f"{{layer}}([{given}])" if len(inputs) > 1 else "{layer}({0})"
        maker = kind if kind in self.helpers else f"{_LAYERS}{kind}"
        return self.add(node, pattern, inputs, settings, maker=maker, label=more.pop("label", kind), **more)

    def made(self, node: Node, order: Order, value: str | None = None) -> None:
        self.orders[value or node.name] = order

    def operand(self, node: Node, place: int) -> str:
        """The variable of an input. A learned tensor is made where it is first used."""
        name = node.inputs[place]
        given = self.graph.by_name[name]
        if given.op in ("parameter", "constant") and name not in self.orders:
            self._tensor(given, node)
        return name

    def _tensor(self, leaf: Node, user: Node) -> None:
        tensor = leaf.parameter("value")
        if tensor is None:
            raise CannotWrite("it uses fixed numbers, which have no layer")
        if leaf.op == "constant" and tensor.key not in self.source.origins:
            raise CannotWrite("it uses fixed numbers, which are no tensor of the source")
        others = [name for name in user.inputs if self.graph.by_name[name].op not in ("parameter", "constant")]
        if not others:
            raise CannotWrite("it has no input but learned tensors")
        self.helpers["LearnedTensor"] = None
        alone = len(leaf.shape) > 1 and leaf.shape[0] == 1
        shape = leaf.shape[1:] if alone else leaf.shape
        settings = [Setting("shape", shape, positional=True), Setting("trainable", leaf.op == "parameter", True)]
        self.layer(leaf, "LearnedTensor", settings, others[:1], is_leaf=True)
        self.made(leaf, straight(len(shape) + 1))

    def turned(self, node: Node, value: str, order: Order) -> str:
        """The variable with its axes in this order."""
        old = self.orders[value]
        if old == order:
            return value
        if old[0] != 0 or order[0] != 0 or len(old) != len(order):
            raise CannotWrite("its axes would have to change places with the batch")
        dims = tuple(old.index(axis) for axis in order[1:])
        name = self.between(node.name)
        self.layer(
            node, "Permute", [Setting("dims", dims, positional=True)], [value], value=name,
            path=self.path(node, "permute"),
        )  # fmt: skip
        self.orders[name] = order
        return name

    def usual(self, node: Node, place: int = 0) -> str:
        """An input with its channels last."""
        value = self.operand(node, place)
        return self.turned(node, value, channels_last(len(self.orders[value])))

    def straightened(self, node: Node, place: int = 0) -> str:
        """An input with its axes as the canonical graph has them."""
        value = self.operand(node, place)
        return self.turned(node, value, straight(len(self.orders[value])))


def spatial_axes(node: Node) -> int:
    """How many spatial axes a map has."""
    return len(node.shape) - 2


def _input(writer: KerasWriter, node: Node) -> None:
    order = channels_last(4) if len(node.shape) == 4 else straight(len(node.shape))
    writer.made(node, order)


def _leaf(writer: KerasWriter, node: Node) -> None:
    """Learned tensors are written where they are used."""


def window(node: Node, key: str, neutral: int) -> tuple[int, ...]:
    """A setting of a sliding window, with its default."""
    return tuple(node.get(key) or (neutral,) * spatial_axes(node))


def pads_like_same(node: Node) -> bool:
    """Whether padding="same" pads like that, at every size of the input: only without strides."""
    if any(stride != 1 for stride in window(node, "stride", 1)):
        return False
    dilation = window(node, "dilation", 1)
    total = [d * (k - 1) for k, d in zip(node.get("kernel"), dilation, strict=True)]
    begins = tuple(pads // 2 for pads in total)
    return tuple(node.get("pads")) == (*begins, *(pads - begin for pads, begin in zip(total, begins, strict=True)))


def padded(writer: KerasWriter, node: Node, value: str, pads: Sequence[int]) -> str:
    """The value with explicit zeros around it."""
    half = len(pads) // 2
    pairs = tuple(zip(map(int, pads[:half]), map(int, pads[half:]), strict=True))
    given: Any = pairs if half > 1 else pairs[0]
    if all(begin == end for begin, end in pairs):
        given = by_axis([begin for begin, _ in pairs])
    name = writer.between(node.name)
    settings = [Setting("padding", given, positional=True)]
    writer.layer(node, f"ZeroPadding{half}D", settings, [value], value=name, path=writer.path(node, "pad"))
    writer.orders[name] = writer.orders[value]
    return name


def _conv(writer: KerasWriter, node: Node) -> None:
    rank, value = spatial_axes(node), writer.usual(node)
    kernel, strides, dilation = node.get("kernel"), window(node, "stride", 1), window(node, "dilation", 1)
    groups = node.get("groups", 1)
    if max(strides) > 1 and max(dilation) > 1:
        raise CannotWrite("Keras has no convolution with both a stride and a dilation")
    same = any(node.get("pads", ())) and not writer.explicit and pads_like_same(node)
    if any(node.get("pads", ())) and not same:
        value = padded(writer, node, value, node.get("pads"))
    given = writer.graph.by_name[node.inputs[0]].shape[1]
    common = [
        size(strides, "strides", default=1),
        Setting("padding", "same" if same else "valid", "valid"),
        size(dilation, "dilation_rate", default=1),
        Setting("use_bias", node.parameter("bias") is not None, True),
    ]
    extents = size(kernel, "kernel_size", positional=True)
    if is_depthwise(node) and groups == given and rank < 3 and len(set(strides)) == 1:
        multiplier = Setting("depth_multiplier", node.shape[1] // given, 1)
        writer.layer(node, f"DepthwiseConv{rank}D", [extents, multiplier, *common], [value])
    else:
        filters = width(node.shape[1], "filters", positional=True)
        writer.layer(node, f"Conv{rank}D", [filters, extents, width(groups, "groups", default=1), *common], [value])
    writer.made(node, channels_last(len(node.shape)))


def _conv_transpose(writer: KerasWriter, node: Node) -> None:
    rank = spatial_axes(node)
    kernel, strides = node.get("kernel"), window(node, "stride", 1)
    pads, extra = node.get("pads") or (0,) * (2 * rank), node.get("output_pads") or (0,) * rank
    if node.get("groups", 1) != 1 or any(rate != 1 for rate in window(node, "dilation", 1)):
        raise CannotWrite("Keras has no transposed convolution with groups, and none that is dilated in this way")
    total = [k - s for k, s in zip(kernel, strides, strict=True)]
    halves = tuple(max(cut, 0) // 2 for cut in total)
    same = not any(extra) and min(total) >= 0 and tuple(pads) == (
        *halves, *(cut - half for cut, half in zip(total, halves, strict=True))
    )  # fmt: skip
    if any((*pads, *extra)) and not same:
        raise CannotWrite("Keras cuts the result of a transposed convolution in another way")
    settings = [
        width(node.shape[1], "filters", positional=True),
        size(kernel, "kernel_size", positional=True),
        size(strides, "strides", default=1),
        Setting("padding", "same" if same and any(pads) else "valid", "valid"),
        Setting("use_bias", node.parameter("bias") is not None, True),
    ]
    writer.layer(node, f"Conv{rank}DTranspose", settings, [writer.usual(node)])
    writer.made(node, channels_last(len(node.shape)))


def _dense(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    if order[-1] != len(order) - 1:
        value = writer.straightened(node)
        order = writer.orders[value]
    settings = [
        width(node.shape[-1], "units", positional=True),
        Setting("use_bias", node.parameter("bias") is not None, True),
    ]
    writer.layer(node, "Dense", settings, [value])
    writer.made(node, order)


def _batch_norm(writer: KerasWriter, node: Node) -> None:
    fact = writer.norm(node)
    learned = [
        Setting("center", node.parameter("shift") is not None, True),
        Setting("scale", node.parameter("scale") is not None, True),
    ]
    kept = [] if fact is None else [Setting("momentum", figure(fact.kept))]
    settings = [*kept, Setting("epsilon", figure(node.get("epsilon"))), *learned]
    value = writer.usual(node)
    writer.layer(node, "BatchNormalization", settings, [value])
    writer.made(node, writer.orders[value])


def _over_axes(kind: str) -> Callable[[KerasWriter, Node], None]:
    def handle(writer: KerasWriter, node: Node) -> None:
        value = writer.operand(node, 0)
        order = writer.orders[value]
        axes = sorted(order.index(axis) for axis in node.get("axes"))
        given: Any = tuple(axes) if len(axes) > 1 else -1 if axes == [len(order) - 1] else axes[0]
        shift = [Setting("center", node.parameter("shift") is not None, True)] if kind == "LayerNormalization" else []
        scale = [Setting("scale", node.parameter("scale") is not None, True)] if kind == "LayerNormalization" else []
        if kind != "LayerNormalization" and node.parameter("scale") is None:
            raise CannotWrite("Keras' RMSNormalization always has a scale")
        epsilon = Setting("epsilon", figure(node.get("epsilon")))
        writer.layer(node, kind, [Setting("axis", given, -1), epsilon, *shift, *scale], [value])
        writer.made(node, order)

    return handle


def _group_norm(writer: KerasWriter, node: Node) -> None:
    value = writer.usual(node)
    groups = node.get("groups") if node.op == "group_norm" else node.shape[1]
    settings = [
        width(groups, "groups", default=32),
        Setting("epsilon", figure(node.get("epsilon"))),
        Setting("center", node.parameter("shift") is not None, True),
        Setting("scale", node.parameter("scale") is not None, True),
    ]
    writer.layer(node, "GroupNormalization", settings, [value])
    writer.made(node, writer.orders[value])


def _affine(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    order = writer.orders[value]
    scale, shift = node.parameter("scale"), node.parameter("shift")
    if any(tensor is not None and tensor.key not in writer.source.origins for tensor in (scale, shift)):
        raise CannotWrite("its numbers are fixed or computed from several tensors of the source")
    axis = order.index(node.get("axis")) if node.get("axis") is not None else None
    writer.helpers["ChannelScale"] = None
    settings = [
        Setting("axis", -1 if axis == len(order) - 1 else axis, -1),
        Setting("scale", scale is not None, True),
        Setting("shift", shift is not None, False),
    ]
    writer.layer(node, "ChannelScale", settings, [value], is_leaf=True)
    writer.made(node, order)


def _embedding(writer: KerasWriter, node: Node) -> None:
    table = node.parameter("table")
    if table is None:
        raise CannotWrite("its table is computed")
    value = writer.straightened(node)
    rows = Setting("input_dim", table.shape[0], positional=True)
    writer.layer(node, "Embedding", [rows, width(table.shape[1], "output_dim", positional=True)], [value])
    writer.made(node, straight(len(node.shape)))


def _dropout(writer: KerasWriter, node: Node) -> None:
    value = writer.operand(node, 0)
    rate = Setting("rate", figure(node.get("rate")), positional=True)
    kept = {"example": (), "channel": (len(node.shape) - 1,)}.get(node.get("units"))
    extents = (
        (None, *(None if place in kept else 1 for place in range(1, len(node.shape)))) if kept is not None else None
    )
    value = writer.turned(node, value, channels_last(len(node.shape))) if kept else value
    together = [Setting("noise_shape", extents)] if extents is not None else []
    writer.layer(node, "Dropout", [rate, *together], [value], is_leaf=True)
    writer.made(node, writer.orders[value])


def _flatten(writer: KerasWriter, node: Node) -> None:
    """Behind a plain Flatten the numbers are in Keras' order; a dense layer then has its inputs in that order, too."""
    value = writer.operand(node, 0)
    shape = writer.graph.by_name[node.inputs[0]].shape
    if prod(shape[2:]) > 1 and not writer.feeds_dense(node):
        value = writer.straightened(node)
    writer.layer(node, "Flatten", [], [value])
    writer.made(node, straight(2))


LAYERS: Final[dict[str, Callable[[KerasWriter, Node], None]]] = {
    "input": _input,
    "parameter": _leaf,
    "constant": _leaf,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "dense": _dense,
    "batch_norm": _batch_norm,
    "layer_norm": _over_axes("LayerNormalization"),
    "rms_norm": _over_axes("RMSNormalization"),
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    "affine": _affine,
    "embedding": _embedding,
    "dropout": _dropout,
    "flatten": _flatten,
}
