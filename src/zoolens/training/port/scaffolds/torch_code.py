"""Writes the steps of a draft for PyTorch: modules, with channels first as the canonical graph has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from zoolens.findings.graph.ir.model import Node
from zoolens.training.port.scaffolds.steps import Setting
from zoolens.training.port.scaffolds.writer import CannotWrite, Writer, by_axis, figure, size, width

_FROZEN: Final = "{layer}.%s.requires_grad_(False)  # the source has none"


class TorchWriter(Writer):
    framework: ClassVar[str] = "torch"

    def give_up(self, node: Node, function: str) -> None:
        inputs = self.known_operands(node)
        self.add(node, f"{function}({', '.join(f'{{{place}}}' for place in range(len(inputs)))})", inputs)

    def finished(self, outputs: Sequence[str]) -> list[str]:
        for name in outputs:
            self._tensor(self.graph.by_name[name])
        return list(outputs)

    # --- for handlers

    def layer(self, node: Node, kind: str, settings: Sequence[Setting], inputs: Sequence[str], **more: Any) -> str:
        maker = kind if kind in self.helpers else f"nn.{kind}"
        return self.add(node, "{layer}({0})", inputs, settings, maker=maker, label=more.pop("label", kind), **more)

    def operand(self, node: Node, place: int) -> str:
        self._tensor(self.graph.by_name[node.inputs[place]])
        return node.inputs[place]

    def operands(self, node: Node) -> list[str]:
        return [self.operand(node, place) for place in range(len(node.inputs))]

    def _tensor(self, leaf: Node) -> None:
        """A learned tensor is made where it is first used."""
        if leaf.op not in ("parameter", "constant") or leaf.name in self._made:
            return
        tensor = leaf.parameter("value")
        if tensor is None:
            raise CannotWrite("it uses fixed numbers, which have no layer")
        if leaf.op == "constant" and tensor.key not in self.source.origins:
            raise CannotWrite("it uses fixed numbers, which are no tensor of the source")
        self.helpers["LearnedTensor"] = None
        settings = [Setting("shape", tuple(leaf.shape), positional=True)]
        settings.append(Setting("trainable", leaf.op == "parameter", True))
        self.add(leaf, "{layer}()", [], settings, maker="LearnedTensor", label="LearnedTensor", is_leaf=True)

    @property
    def _made(self) -> set[str]:
        return {value for step in self.steps for value in step.values}


def _nothing(writer: TorchWriter, node: Node) -> None:
    """Inputs are arguments, and learned tensors are written where they are used."""


def _window(node: Node, key: str, neutral: int) -> tuple[int, ...]:
    return tuple(node.get(key) or (neutral,) * (len(node.shape) - 2))


def _rank(node: Node) -> int:
    rank = len(node.shape) - 2
    if not 1 <= rank <= 3:
        raise CannotWrite("PyTorch has layers for one to three spatial axes")
    return rank


def padded(writer: TorchWriter, node: Node, value: str, pads: Sequence[int], filled: float = 0.0) -> str:
    """The value with explicit numbers around it: F.pad begins with the last axis."""
    half = len(pads) // 2
    pairs = [pair for axis in reversed(range(half)) for pair in (int(pads[axis]), int(pads[axis + half]))]
    settings = [Setting("pad", tuple(pairs)), *([Setting("value", filled)] if filled else [])]
    text = "F.pad({0}, {pad}, value={value})" if filled else "F.pad({0}, {pad})"
    name = writer.between(node.name)
    writer.add(node, text, [value], settings, value=name, label="pad", is_leaf=False, path=writer.path(node)[:-1])
    return name


def _symmetric(pads: Sequence[int]) -> bool:
    half = len(pads) // 2
    return tuple(pads[:half]) == tuple(pads[half:])


def _conv(writer: TorchWriter, node: Node) -> None:
    rank, value = _rank(node), writer.operand(node, 0)
    pads = node.get("pads") or (0,) * (2 * rank)
    if not _symmetric(pads):
        value, pads = padded(writer, node, value, pads), (0,) * (2 * rank)
    given = writer.graph.by_name[node.inputs[0]].shape[1]
    settings = [
        width(given, "in_channels", positional=True),
        width(node.shape[1], "out_channels", positional=True),
        size(node.get("kernel"), "kernel_size", positional=True),
        size(_window(node, "stride", 1), "stride", default=1),
        size(pads[:rank], "padding", default=0),
        size(_window(node, "dilation", 1), "dilation", default=1),
        width(node.get("groups", 1), "groups", default=1),
        Setting("bias", node.parameter("bias") is not None, True),
    ]
    writer.layer(node, f"Conv{rank}d", settings, [value])


def _conv_transpose(writer: TorchWriter, node: Node) -> None:
    rank = _rank(node)
    pads, extra = node.get("pads") or (0,) * (2 * rank), node.get("output_pads") or (0,) * rank
    begins, ends = pads[:rank], pads[rank:]
    more = [begin - end for begin, end in zip(begins, ends, strict=True)]  # torch cuts as much on both sides
    if min(more) < 0 or any(extra):
        if not _symmetric(pads):
            raise CannotWrite("PyTorch cuts the result of a transposed convolution in another way")
        more = list(extra)
    given = writer.graph.by_name[node.inputs[0]].shape[1]
    settings = [
        width(given, "in_channels", positional=True),
        width(node.shape[1], "out_channels", positional=True),
        size(node.get("kernel"), "kernel_size", positional=True),
        size(_window(node, "stride", 1), "stride", default=1),
        size(begins, "padding", default=0),
        size(more, "output_padding", default=0),
        width(node.get("groups", 1), "groups", default=1),
        size(_window(node, "dilation", 1), "dilation", default=1),
        Setting("bias", node.parameter("bias") is not None, True),
    ]
    writer.layer(node, f"ConvTranspose{rank}d", settings, [writer.operand(node, 0)])


def _dense(writer: TorchWriter, node: Node) -> None:
    settings = [
        width(writer.graph.by_name[node.inputs[0]].shape[-1], "in_features", positional=True),
        width(node.shape[-1], "out_features", positional=True),
        Setting("bias", node.parameter("bias") is not None, True),
    ]
    writer.layer(node, "Linear", settings, [writer.operand(node, 0)])


def _batch_norm(writer: TorchWriter, node: Node) -> None:
    statistics = (node.parameter("mean"), node.parameter("variance"))
    known = all(tensor is not None and tensor.key in writer.source.origins for tensor in statistics)
    if not node.get("epsilon") and known and len(node.parameters) == 2 and len(node.shape) == 4:
        return _fixed_norm(writer, node)
    rank = max(len(node.shape) - 2, 1)
    fact, scale, shift = writer.norm(node), node.parameter("scale"), node.parameter("shift")
    affine = scale is not None or shift is not None
    kept = [] if fact is None else [Setting("momentum", figure(1 - fact.kept))]
    settings = [
        width(node.shape[1], "num_features", positional=True),
        Setting("eps", figure(node.get("epsilon"))),
        *kept,
        Setting("affine", affine, True),
    ]
    writer.layer(node, f"BatchNorm{rank}d", settings, [writer.operand(node, 0)], after=_frozen(affine, scale, shift))
    return None


def _fixed_norm(writer: TorchWriter, node: Node) -> None:
    """Keras' Normalization: statistics that the source keeps, and no training moves."""
    writer.helpers["FixedNorm"] = None
    settings = [
        width(node.shape[1], "num_features", positional=True),
        Setting("eps", 0.0),
        Setting("affine", False),
    ]
    writer.layer(node, "FixedNorm", settings, [writer.operand(node, 0)])


def _frozen(affine: bool, scale: object, shift: object) -> tuple[str, ...]:
    """A norm of PyTorch has both or neither; what the source lacks stays at its neutral value."""
    missing = (("weight", scale), ("bias", shift))
    return tuple(_FROZEN % name for name, tensor in missing if affine and tensor is None)


def _over_axes(kind: str) -> Callable[[TorchWriter, Node], None]:
    def handle(writer: TorchWriter, node: Node) -> None:
        axes, rank, value = tuple(node.get("axes")), len(node.shape), writer.operand(node, 0)
        scale, shift = node.parameter("scale"), node.parameter("shift")
        if scale is None and shift is not None:
            raise CannotWrite(f"PyTorch's {kind} has no bias without a weight")
        order = (0, *(axis for axis in range(1, rank) if axis not in axes), *axes)
        turned = order != tuple(range(rank))
        if turned:
            value = _permuted(writer, node, value, order)
        shape = tuple(node.shape[axis] for axis in axes)
        settings = [
            Setting("normalized_shape", shape[0] if len(shape) == 1 else shape, family="width", positional=True),
            Setting("eps", figure(node.get("epsilon"))),
            Setting("elementwise_affine", scale is not None, True),
        ]
        if kind == "LayerNorm":
            settings.append(Setting("bias", shift is not None or scale is None, True))
        made = writer.between(node.name) if turned else node.name
        writer.layer(node, kind, settings, [value], value=made)
        if turned:
            back = tuple(order.index(axis) for axis in range(rank))
            writer.add(node, "{0}.permute({dims})", [made], [Setting("dims", back)], label="permute", is_leaf=False)

    return handle


def _permuted(writer: TorchWriter, node: Node, value: str, order: Sequence[int]) -> str:
    name = writer.between(node.name)
    settings = [Setting("dims", tuple(order))]
    writer.add(node, "{0}.permute({dims})", [value], settings, value=name, label="permute", is_leaf=False)
    return name


def _group_norm(writer: TorchWriter, node: Node) -> None:
    scale, shift = node.parameter("scale"), node.parameter("shift")
    affine = scale is not None or shift is not None
    epsilon = Setting("eps", figure(node.get("epsilon")))
    groups = node.get("groups") if node.op == "group_norm" else node.shape[1]
    settings = [
        width(groups, "num_groups", positional=True),
        width(node.shape[1], "num_channels", positional=True),
        epsilon,
        Setting("affine", affine, True),
    ]
    writer.layer(node, "GroupNorm", settings, [writer.operand(node, 0)], after=_frozen(affine, scale, shift))


def _affine(writer: TorchWriter, node: Node) -> None:
    scale, shift = node.parameter("scale"), node.parameter("shift")
    if any(tensor is not None and tensor.key not in writer.source.origins for tensor in (scale, shift)):
        raise CannotWrite("its numbers are fixed or computed from several tensors of the source")
    axis, rank = node.get("axis"), len(node.shape)
    extents = tuple(node.shape[place] if place == axis else 1 for place in range(rank))
    writer.helpers["ChannelScale"] = None
    settings = [
        Setting("shape", extents, positional=True),
        Setting("scale", scale is not None, True),
        Setting("shift", shift is not None, False),
    ]
    writer.layer(node, "ChannelScale", settings, [writer.operand(node, 0)], is_leaf=True)


def _embedding(writer: TorchWriter, node: Node) -> None:
    table = node.parameter("table")
    if table is None:
        raise CannotWrite("its table is computed")
    rows = Setting("num_embeddings", table.shape[0], positional=True)
    settings = [rows, width(table.shape[1], "embedding_dim", positional=True)]
    writer.layer(node, "Embedding", settings, [writer.operand(node, 0)])


def _max_pool(writer: TorchWriter, node: Node) -> None:
    rank, value, pads = _rank(node), writer.operand(node, 0), node.get("pads") or (0,) * (2 * _rank(node))
    filled = node.get("pad_value")
    fits = _symmetric(pads) and all(2 * pad <= extent for pad, extent in zip(pads, node.get("kernel"), strict=False))
    if any(pads) and (filled is not None or not fits):
        value = padded(writer, node, value, pads, float("-inf") if filled is None else float(filled))
        pads = (0,) * (2 * rank)
    _pool(writer, node, f"MaxPool{rank}d", value, pads, [size(_window(node, "dilation", 1), "dilation", default=1)])


def _avg_pool(writer: TorchWriter, node: Node) -> None:
    rank, value, pads = _rank(node), writer.operand(node, 0), node.get("pads") or (0,) * (2 * _rank(node))
    counted = bool(node.get("count_pad"))
    if not _symmetric(pads):
        if not counted:
            raise CannotWrite("PyTorch has no average pool that leaves padding on one side out of the mean")
        value, pads = padded(writer, node, value, pads), (0,) * (2 * rank)
    inclusive = Setting("count_include_pad", counted or not any(pads), True)
    _pool(writer, node, f"AvgPool{rank}d", value, pads, [inclusive])


def _pool(writer: TorchWriter, node: Node, kind: str, value: str, pads: Sequence[int], more: Sequence[Setting]) -> None:
    kernel = by_axis(node.get("kernel"))
    settings = [
        Setting("kernel_size", kernel, positional=True),
        size(_window(node, "stride", 1), "stride"),
        size(pads[: len(pads) // 2], "padding", default=0),
    ]
    writer.layer(node, kind, [*settings, *more], [value])


def _adaptive(kind: str) -> Callable[[TorchWriter, Node], None]:
    def handle(writer: TorchWriter, node: Node) -> None:
        settings = [size(node.get("size"), "output_size", positional=True)]
        writer.layer(node, f"Adaptive{kind}Pool{_rank(node)}d", settings, [writer.operand(node, 0)])

    return handle


def _global(function: str) -> Callable[[TorchWriter, Node], None]:
    def handle(writer: TorchWriter, node: Node) -> None:
        rank = len(writer.graph.by_name[node.inputs[0]].shape)
        axes = Setting("dim", tuple(range(2, rank)))
        kept = ", keepdim=True" if len(node.shape) > 2 else ""
        writer.add(node, f"{{0}}.{function}(dim={{dim}}{kept})", [writer.operand(node, 0)], [axes], is_leaf=False)

    return handle


def _dropout(writer: TorchWriter, node: Node) -> None:
    rate, units = Setting("p", figure(node.get("rate")), positional=True), node.get("units")
    if units == "example":
        writer.helpers["DropBranch"] = None
        kind = "DropBranch"
    else:
        kind = {3: "Dropout1d", 4: "Dropout2d", 5: "Dropout3d"}[len(node.shape)] if units == "channel" else "Dropout"
    writer.layer(node, kind, [rate], [writer.operand(node, 0)], is_leaf=True)


LAYERS: Final[dict[str, Callable[[TorchWriter, Node], None]]] = {
    "input": _nothing,
    "parameter": _nothing,
    "constant": _nothing,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "dense": _dense,
    "batch_norm": _batch_norm,
    "layer_norm": _over_axes("LayerNorm"),
    "rms_norm": _over_axes("RMSNorm"),
    "group_norm": _group_norm,
    "instance_norm": _group_norm,
    "affine": _affine,
    "embedding": _embedding,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "adaptive_avg_pool": _adaptive("Avg"),
    "adaptive_max_pool": _adaptive("Max"),
    "global_avg_pool": _global("mean"),
    "global_max_pool": _global("amax"),
    "dropout": _dropout,
}
