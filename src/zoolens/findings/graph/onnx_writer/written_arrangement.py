"""Leaves, and operators that only arrange numbers, as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.onnx_writer.onnx_graph import Kind, NodeWriter
from zoolens.findings.graph.reference.spatial import RESIZES, nearest_places

_INDEXED: Final = {"gather": 1, "embedding": 0}  # the input that holds indices


def _leaf(call: NodeWriter) -> str:
    given = call.get("value")
    numbers = call.values("value") if given is None else np.asarray(given)
    assert numbers is not None  # a leaf has numbers in one of the two places
    values = numbers.reshape(call.shape)
    return call.draft.tensor(values, f"{call.node.name}/value", _kind(call, values))


def _kind(call: NodeWriter, values: Array) -> Kind:
    """Numbers are real ones unless they only choose: casts are left behind on the way to the canonical form."""
    if values.dtype == bool:
        return "bool"
    users = call.draft.graph.consumers[call.node.name]
    chooses = users and all(_INDEXED.get(user.op) == user.inputs.index(call.node.name) for user in users)
    return "int" if values.dtype.kind in "iu" and chooses else "float"


def _concat(call: NodeWriter) -> str:
    inputs = call.inputs
    if call.draft.free and any(name in call.draft.batched for name in call.node.inputs):
        like = next(value for name, value in zip(call.node.inputs, inputs, strict=True) if name in call.draft.batched)
        inputs = [
            value if name in call.draft.batched else _for_each(call, value, like, call.given(place))
            for place, (name, value) in enumerate(zip(call.node.inputs, inputs, strict=True))
        ]
    return call.emit("Concat", *inputs, axis=int(call.get("axis")))


def _for_each(call: NodeWriter, value: str, like: str, shape: Sequence[int]) -> str:
    """What every example gets, such as a class token, once for each in the batch."""
    count = call.emit("Shape", like, kind="int", start=0, end=1)
    target = call.emit("Concat", count, call.integers(shape[1:]), kind="int", axis=0)
    return call.emit("Expand", value, target)


def _slice(call: NodeWriter) -> str:
    axis = int(call.get("axis"))
    start = call.get("start", 0)
    stop = call.get("stop", call.given()[axis])
    return call.cut(call.x, axis, start, stop, call.get("step", 1))


def _pad(call: NodeWriter) -> str:
    pads = call.integers(call.get("pads"))
    mode = call.get("mode", "constant")
    if mode == "constant":
        return call.emit("Pad", call.x, pads, call.number(call.get("value", 0.0)))
    return call.emit("Pad", call.x, pads, mode=mode)


def _reshape(call: NodeWriter) -> str:
    return call.reshaped(call.x, call.shape)


def _flatten(call: NodeWriter) -> str:
    order = call.get("order")
    x = call.x
    if order is not None:
        names = "NC" + "DHW"[-(len(call.given()) - 2) :]
        x = call.emit("Transpose", x, perm=[names.index(name) for name in order])
    return call.reshaped(x, call.shape)


def _transpose(call: NodeWriter) -> str:
    return call.emit("Transpose", call.x, perm=[int(axis) for axis in call.get("perm")])


def _expand(call: NodeWriter) -> str:
    """An extent of 1 keeps the input's own: so the batch stays free."""
    batched = call.node.name in call.draft.batched
    return call.emit("Expand", call.x, call.integers([1, *call.shape[1:]] if batched else call.shape))


def _gather(call: NodeWriter) -> str:
    chosen = call.get("indices")
    indices = call.input(1, "int") if chosen is None else call.tensor(np.asarray(chosen), "indices", "int")
    return call.emit("Gather", call.x, indices, axis=int(call.get("axis", 0)))


def _in_steps(call: NodeWriter, split: Sequence[int], perm: Sequence[int]) -> str:
    """Axes split, put in another order, and joined to the node's shape."""
    turned = call.emit("Transpose", call.reshaped(call.x, split), perm=list(perm))
    return call.reshaped(turned, call.shape)


def _channel_shuffle(call: NodeWriter) -> str:
    n, channels, *spatial = call.given()
    groups = int(call.get("groups", 1))
    rest = range(3, 3 + len(spatial))
    return _in_steps(call, (n, groups, channels // groups, *spatial), (0, 2, 1, *rest))


def _space_to_depth(call: NodeWriter) -> str:
    n, c, h, w = call.given()
    block = int(call.get("block", 2))
    order = (0, 1, 3, 5, 2, 4) if call.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    return _in_steps(call, (n, c, h // block, block, w // block, block), order)


def _depth_to_space(call: NodeWriter) -> str:
    return call.emit("DepthToSpace", call.x, blocksize=int(call.get("block", 2)), mode=call.get("mode", "DCR"))


def _resize(call: NodeWriter) -> str:
    """Writes a resize by scales and not by sizes, because a size would fix the batch."""
    mode = call.get("mode", "nearest")
    how = call.get("coordinates") or ("asymmetric" if mode == "nearest" else "half_pixel")
    if how not in RESIZES:
        raise call.refused(f"it resizes by the rule {how[:80]!r}")
    if mode == "nearest":
        return _nearest(call, how)
    scales = [_scale(before, after) for before, after in zip(call.given(), call.shape, strict=True)]
    given = (call.x, "", call.tensor(np.asarray(scales), "scales"))
    return call.emit("Resize", *given, mode=mode, coordinate_transformation_mode=how)


def _nearest(call: NodeWriter, how: str) -> str:
    """A choice of rows and columns: where a place lies just between two, a runtime's rounding would decide."""
    x = call.x
    for axis in range(2, len(call.shape)):
        before = call.given()[axis]
        after = call.shape[axis]
        if before != after:
            chosen = nearest_places(before, after, how)
            x = call.emit("Gather", x, call.tensor(chosen, f"places{axis}", "int"), axis=axis)
    return x if x != call.x else call.emit("Identity", x)


def _scale(before: int, after: int) -> float:
    """The scale in single precision, rounded so that the product is not just below the size that is wanted."""
    scale = np.float32(after / before)
    while int(before * float(scale)) < after:
        scale = np.nextafter(scale, np.float32(np.inf))
    return float(scale)


def _roll(call: NodeWriter) -> str:
    axes, shifts = (value if isinstance(value, tuple) else (value,) for value in (call.get("axes"), call.get("shifts")))
    x = call.x
    for axis, shift in zip(axes, shifts, strict=True):
        extent = call.shape[axis]
        at = -shift % extent
        if at:
            behind = call.cut(x, axis, at, extent, 1)
            before = call.cut(x, axis, 0, at, 1)
            x = call.emit("Concat", behind, before, axis=int(axis))
    return x if x != call.x else call.emit("Identity", x)


def _tile(call: NodeWriter) -> str:
    return call.emit("Tile", call.x, call.integers(call.get("repeats")))


def _nothing(call: NodeWriter) -> str:
    return call.emit("Identity", call.x)


ARRANGEMENT: Final[dict[str, Callable[[NodeWriter], str]]] = {
    **dict.fromkeys(FIXED, _leaf),
    **dict.fromkeys(("identity", "dropout", "cast", "quantize", "dequantize"), _nothing),
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "reshape": _reshape,
    "flatten": _flatten,
    "transpose": _transpose,
    "expand": _expand,
    "gather": _gather,
    "channel_shuffle": _channel_shuffle,
    "space_to_depth": _space_to_depth,
    "depth_to_space": _depth_to_space,
    "resize": _resize,
    "roll": _roll,
    "tile": _tile,
}
