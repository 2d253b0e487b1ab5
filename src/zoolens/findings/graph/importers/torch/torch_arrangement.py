"""aten operators that only move numbers: views, cuts, joins, permutations, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from zoolens.findings.graph.importers.resize_rules import nearest_rule, resized_axis, smooth_rule
from zoolens.findings.graph.importers.torch.torch_layers import per_axis
from zoolens.findings.graph.importers.torch.trace import SHAPE_ONLY, Lowering, TorchCall


def same(call: TorchCall) -> str:
    """Lowers contiguous, detach and the like: the value itself."""
    return call.trace.value(call.get("self", call.get("input")))


def reshape(call: TorchCall) -> str:
    x = call["self"]
    name = call.trace.value(x)
    if tuple(x.shape) == call.shape:
        return name
    flattens = len(call.shape) == 2 and x.dim() > 2 and call.shape[0] == x.shape[0]
    return call.add("flatten" if flattens and call.trace.depends_on_input(x) else "reshape", name)


def cast(call: TorchCall) -> str:
    x = call["self"]
    if call.result is x or call.result.dtype == x.dtype:
        return call.trace.value(x)
    target = str(call.result.dtype).removeprefix("torch.")
    if x.is_floating_point() and target == "bool":
        return call.add("compare", call.trace.value(x), kind="!=", scalar=0)
    if x.is_floating_point() and not call.result.is_floating_point():
        return call.unknown(f" to {target}")  # it cuts off fractions
    return call.add("cast", call.trace.value(x), to=target)


def permute(call: TorchCall) -> str:
    rank = call["self"].dim()
    return call.add("transpose", call.value("self"), perm=tuple(axis % rank for axis in call["dims"]))


def transpose(call: TorchCall) -> str:
    rank = call["self"].dim()
    if rank == 0:
        return call.value("self")
    perm = list(range(rank))
    first, second = (call[name] % rank for name in list(call.arguments)[1:3])  # dim0, dim1 or axis0, axis1
    perm[first], perm[second] = second, first
    return call.add("transpose", call.value("self"), perm=tuple(perm))


def matrix_transpose(call: TorchCall) -> str:
    rank = call["self"].dim()
    if rank < 2:
        return call.value("self")
    return call.add("transpose", call.value("self"), perm=(*range(rank - 2), rank - 1, rank - 2))


def expand(call: TorchCall) -> str:
    x = call["self"]
    if tuple(x.shape) == call.shape:
        return call.trace.value(x)
    return call.add("expand", _with_rank(call, x, len(call.shape)))


def _with_rank(call: TorchCall, x: Any, rank: int) -> str:
    """The value of a tensor with axes of extent 1 put in front until it has this rank."""
    name = call.trace.value(x)
    if x.dim() == rank:
        return name
    return call.add("reshape", name, shape=((1,) * (rank - x.dim()) + tuple(x.shape)))


def repeat(call: TorchCall) -> str:
    repeats = tuple(call["repeats"])
    name = _with_rank(call, call["self"], len(repeats))
    return name if set(repeats) == {1} else call.add("tile", name, repeats=repeats)


# cuts


def _cut(call: TorchCall, x: Any, axis: int, start: int, stop: int, step: int = 1) -> str:
    name = call.trace.value(x)
    if start == 0 and stop == x.shape[axis] and step == 1:
        return name
    shape = list(x.shape)
    shape[axis] = max(0, -(-(stop - start) // step))
    attributes = {"axis": axis, "start": start, "stop": stop, "step": step if step != 1 else None}
    return call.add("slice", name, shape=shape, **attributes)


def cut(call: TorchCall) -> str:
    x = call["self"]
    axis = call["dim"] % x.dim()
    extent = x.shape[axis]
    start, stop, _ = slice(call["start"], call["end"]).indices(extent)
    return _cut(call, x, axis, start, max(start, stop), call["step"])


def narrow(call: TorchCall) -> str:
    x = call["self"]
    axis = call["dim"] % x.dim()
    start = int(call["start"]) % max(1, x.shape[axis])
    return _cut(call, x, axis, start, start + call["length"])


def select(call: TorchCall) -> str:
    x = call["self"]
    axis = call["dim"] % x.dim()
    start = call["index"] % x.shape[axis]
    return call.add("reshape", _cut(call, x, axis, start, start + 1), shape=call.shape)


def split(call: TorchCall) -> list[str]:
    """Lowers split, chunk, split_with_sizes and tensor_split: the results say where the cuts are."""
    x = call["self"]
    axis = call["dim"] % x.dim()
    start, made = 0, []
    for part in call.result:
        made.append(_cut(call, x, axis, start, start + part.shape[axis]))
        start += part.shape[axis]
    return made


def unbind(call: TorchCall) -> list[str]:
    x = call["self"]
    axis = call["dim"] % x.dim()
    return [
        call.add("reshape", _cut(call, x, axis, index, index + 1), shape=tuple(part.shape))
        for index, part in enumerate(call.result)
    ]


def gather(call: TorchCall) -> str:
    """Lowers x[…, indices, …] with one tensor of indices; several at once, or a mask, stay unknown."""
    indices = call["indices"]
    used = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    if len(used) != 1 or not _is_integer(used[0][1]):
        return call.unknown(" with several index tensors" if len(used) > 1 else " with a mask")
    return _gather(call, *used[0])


def index_select(call: TorchCall) -> str:
    return _gather(call, call["dim"] % call["self"].dim(), call["index"])


def _is_integer(tensor: Any) -> bool:
    return not tensor.is_floating_point() and not str(tensor.dtype).endswith("bool")


def _gather(call: TorchCall, axis: int, index: Any) -> str:
    return call.add("gather", call.value("self"), call.trace.value(index), axis=axis)


def flip(call: TorchCall) -> str:
    """Lowers a reversal of axes: the places of each in the opposite order."""
    x = call["self"]
    value = call.trace.value(x)
    for axis in call["dims"]:
        places = tuple(reversed(range(x.shape[axis])))
        value = call.add("gather", value, shape=tuple(x.shape), axis=axis % x.dim(), indices=places)
    return value


# joins


def concat(call: TorchCall) -> str:
    # torch lets an empty vector pass
    tensors = [tensor for tensor in call["tensors"] if tensor.numel() or tensor.dim() > 1]
    if len(tensors) == 1:
        return call.trace.value(tensors[0])
    axis = call["dim"] % len(call.shape)
    return call.add("concat", *(call.trace.value(tensor) for tensor in tensors), axis=axis)


def stack(call: TorchCall) -> str:
    axis = call["dim"] % len(call.shape)
    shape = (*call.shape[:axis], 1, *call.shape[axis + 1 :])
    parts = [call.add("reshape", call.trace.value(tensor), shape=shape) for tensor in call["tensors"]]
    if len(parts) == 1:
        return parts[0]
    return call.add("concat", *parts, axis=axis)


# spatial arrangement


def pad(call: TorchCall) -> str:
    mode = {"constant": None, "reflect": "reflect", "replicate": "edge"}.get(call.get("mode", "constant"), "?")
    if mode == "?":
        return call.unknown(f" of mode {call['mode']}")
    rank = len(call.shape)
    begins, ends = _pads(call["pad"], rank)
    name = call.value("self")
    if not any(begins) and not any(ends):
        return name
    return call.add("pad", name, pads=(*begins, *ends), value=call.get("value") or None, mode=mode)


def _pads(given: Sequence[int], rank: int) -> tuple[list[int], list[int]]:
    """The begins and the ends of all axes; torch counts from the last axis, begin and end side by side."""
    begins = [0] * rank
    ends = [0] * rank
    for index in range(len(given) // 2):
        begins[rank - 1 - index], ends[rank - 1 - index] = int(given[2 * index]), int(given[2 * index + 1])
    return begins, ends


def roll(call: TorchCall) -> str:
    x = call["self"]
    if not call["dims"]:
        return call.unknown(" of the flattened tensor")
    axes = tuple(axis % x.dim() for axis in per_axis(call["dims"], 1))
    return call.add("roll", call.trace.value(x), axes=axes, shifts=per_axis(call["shifts"], 1))


def shuffle(op: str, factor: str) -> Lowering:
    """Lowers pixel_shuffle and pixel_unshuffle, which keep a block's pixels in neighbouring channels."""

    def lower(call: TorchCall) -> str:
        return call.add(op, call.value("self"), block=call[factor], mode="CRD", axes="NCHW")

    return lower


def im2col(call: TorchCall) -> str:
    """Lowers unfold: the rows of every window, then its columns; windows come last, and their pixels join the
    channels."""
    if call["self"].dim() != 4:
        return call.unknown(" without a batch")
    name = call.value("self")
    shape = tuple(call["self"].shape)
    rows, columns = (per_axis(call["padding"], 2)[axis] for axis in (0, 1))
    if rows or columns:
        shape = (*shape[:2], shape[2] + 2 * rows, shape[3] + 2 * columns)
        name = call.add("pad", name, shape=shape, pads=(0, 0, rows, columns) * 2)
    for axis, place in ((0, 2), (1, 4)):
        window, step, gap = (per_axis(call[key], 2)[axis] for key in ("kernel_size", "stride", "dilation"))
        count = (shape[place] - gap * (window - 1) - 1) // step + 1
        indices = tuple(tuple(inner * gap + outer * step for outer in range(count)) for inner in range(window))
        shape = (*shape[:place], window, count, *shape[place + 1 :])
        name = call.add("gather", name, shape=shape, axis=place, indices=indices)
    turned = (0, 1, 2, 4, 3, 5)
    name = call.add("transpose", name, shape=tuple(shape[axis] for axis in turned), perm=turned)
    return call.add("reshape", name)


def channel_shuffle(call: TorchCall) -> str:
    return call.add("channel_shuffle", call.value("self"), groups=call["groups"], axes="NCHW")


def resize(mode: str) -> Lowering:
    def lower(call: TorchCall) -> str:
        x = call.get("self", call.get("input"))
        return call.add("resize", call.trace.value(x), mode=mode, coordinates=_rule(call, x, mode), axes="NCHW")

    return lower


def _rule(call: TorchCall, x: Any, mode: str) -> str | None:
    factors = call.get("scale_factors") or (call.get("scales_h"), call.get("scales_w"))
    extents = zip(x.shape[2:], call.shape[2:], factors, strict=True)
    axes = [resized_axis(before, after, factor) for before, after, factor in extents if before != after]
    if call.op.endswith("_aa"):
        return "half_pixel, with other weights"
    if mode == "nearest":
        return nearest_rule(axes, "asymmetric", "floor")
    return smooth_rule(axes, "align_corners" if call.get("align_corners") else "half_pixel")


def copy(call: TorchCall) -> str:
    """Lowers y[...] = x where y is whole: its new value is that of x, spread to y's shape."""
    source = call["src"]
    name = call.trace.value(source)
    if tuple(source.shape) == call.shape:
        return name
    return call.add("expand", _with_rank(call, source, len(call.shape)))


def fill(call: TorchCall) -> str:
    number = call.trace.number(call.get("value", 0))
    if number is None:
        return call.unknown(" with a computed number")
    return call.add("expand", call.add("constant", shape=(1,) * len(call.shape), value=number))


ARRANGEMENT: Final[dict[str, Lowering]] = {
    **dict.fromkeys(("contiguous", "detach", "alias", "clone", "lift_fresh", "positive", "real"), same),
    **dict.fromkeys(("to", "_to_copy", "type_as", "float"), cast),
    **dict.fromkeys(("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten"), reshape),
    "permute": permute,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), transpose),
    **dict.fromkeys(("t", "mT", "numpy_T"), matrix_transpose),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expand),
    "repeat": repeat,
    "slice": cut,
    "narrow": narrow,
    "select": select,
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "tensor_split", "unsafe_split"), split),
    "unbind": unbind,
    "index": gather,
    "index_select": index_select,
    "flip": flip,
    **dict.fromkeys(("cat", "concat", "concatenate"), concat),
    "stack": stack,
    **dict.fromkeys(("pad", "constant_pad_nd"), pad),
    "roll": roll,
    "pixel_shuffle": shuffle("depth_to_space", "upscale_factor"),
    "pixel_unshuffle": shuffle("space_to_depth", "downscale_factor"),
    "im2col": im2col,
    "channel_shuffle": channel_shuffle,
    "upsample_nearest2d": resize("nearest"),
    "upsample_bilinear2d": resize("linear"),
    "upsample_bicubic2d": resize("cubic"),
    "_upsample_bicubic2d_aa": resize("cubic"),
    "_upsample_bilinear2d_aa": resize("linear"),
    "copy": copy,
    **dict.fromkeys(("fill", "zero"), fill),
    # constants whatever they are given: `trace` never asks
    **dict.fromkeys(SHAPE_ONLY, same),
}
