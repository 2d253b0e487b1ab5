"""TFLite operators that move numbers about or reduce them, and the shape arithmetic that converters leave behind."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.resize_rules import nearest_rule, resized_axis, smooth_rule
from zoolens.findings.graph.importers.tflite.translation import TfliteCall
from zoolens.findings.graph.importers.translation import Dynamic
from zoolens.findings.graph.ir.model import Array, Shape, nested_tuples
from zoolens.findings.graph.ir.shapes import broadcast

_SHOWN: Final = 64


def _reshape(call: TfliteCall) -> None:
    shape = call.shape(0)
    try:
        target = call.whole(1) or call.listed(0)
    except Dynamic:
        target = list(call.declared(0) or ())
        if not target:
            raise
    _arrange(call, call.state.reshaped(shape, target))


def _arrange(call: TfliteCall, target: Shape) -> None:
    value = call.given(0)
    if isinstance(value, Constant):
        call.answer(value.reshaped(target))
    else:
        call.rearrange(target)


def _squeeze(call: TfliteCall) -> None:
    shape = call.shape(0)
    axes = {call.axis(axis, len(shape)) for axis in call.listed(0)} or {i for i, e in enumerate(shape) if e == 1}
    if any(shape[axis] != 1 for axis in axes):
        raise ModelError(f"{call.source[:60]!r} removes an axis that is longer than 1.")
    _arrange(call, tuple(extent for axis, extent in enumerate(shape) if axis not in axes))


def _expand_dims(call: TfliteCall) -> None:
    shape = call.shape(0)
    axis = call.axis((call.whole(1) or [0])[0], len(shape) + 1)
    _arrange(call, (*shape[:axis], 1, *shape[axis:]))


def _transpose(call: TfliteCall) -> None:
    perm = tuple(call.whole(1) or ())
    value = call.given(0)
    if isinstance(value, Constant) and sorted(perm) == list(range(len(value.shape))):
        call.answer(value.transposed(perm))
    else:
        call.emit("transpose", (call.live(0),), perm=perm)


def _pad(call: TfliteCall) -> None:
    pads = call.setting(1)
    mirrored = call.kind == "MIRROR_PAD"
    if pads is None or pads.shape != (len(call.shape(0)), 2) or pads.min(initial=0) < 0:
        raise ModelError(f"{call.source[:60]!r} pads {len(call.shape(0))} axes in an impossible way.")
    if mirrored and call.option(0, kind="b"):
        call.unknown("symmetric")
        return
    value = call.setting(2) if call.kind == "PADV2" else None
    number = float(value.ravel()[0]) if value is not None and value.size else 0.0
    flat = tuple(int(width) for width in pads.T.ravel())
    call.emit("pad", (call.live(0),), pads=flat, value=number or None, mode="reflect" if mirrored else None)


def _concat(call: TfliteCall) -> None:
    values = [call.needed(i) for i in range(len(call.inputs))]
    axis = call.axis(call.option(0), len(call.shape(0)))
    constants = [value.values() for value in values if isinstance(value, Constant) and value.is_small]
    if len(constants) == len(values):
        call.fold(np.concatenate(constants, axis=axis))
        return
    call.finish(call.add("concat", [call.live(i) for i in range(len(values))], axis=axis), 1)


def _slice(call: TfliteCall) -> None:
    begins = call.whole(1) or []
    sizes = call.whole(2) or []
    shape = call.shape(0)
    if len(begins) != len(shape) or len(sizes) != len(shape):
        raise ModelError(f"{call.source[:60]!r} cuts {len(begins)} of {len(shape)} axes.")
    ends = [extent if size < 0 else begin + size for begin, size, extent in zip(begins, sizes, shape, strict=True)]
    cuts = [(axis, begin, end, 1) for axis, (begin, end) in enumerate(zip(begins, ends, strict=True))]
    call.answer(call.cut(call.live(0), cuts))


def _strided_slice(call: TfliteCall) -> None:
    """Slots 0 to 4 are bit masks: begin, end, ellipsis, new axis, shrink."""
    begins = call.whole(1) or []
    ends = call.whole(2) or []
    steps = call.whole(3) or []
    shape = call.shape(0)
    value = call.given(0)
    if call.option(2) or call.option(3) or 0 in steps or len(begins) > len(shape):
        call.unknown("with new axes")
        return
    cuts = []
    gone = set()
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=False)):
        if call.option(4) >> axis & 1:
            place = begin % max(shape[axis], 1)
            cuts.append((axis, place, place + 1, 1))
            gone.add(axis)
        else:
            first = None if call.option(0) >> axis & 1 else begin
            last = None if call.option(1) >> axis & 1 else end
            cuts.append((axis, *slice(first, last, step).indices(shape[axis])))
    if isinstance(value, Constant):
        index = [slice(start, stop if stop >= 0 else None, step) for _, start, stop, step in cuts]
        call.fold(value.values()[tuple(index)].squeeze(tuple(gone)))
        return
    part = call.cut(call.live(0), cuts)
    kept = tuple(e for i, e in enumerate(call.state.shape(part)) if i not in gone)
    call.answer(call.add("reshape", (part,), shape=kept) if gone else part)


def _split(call: TfliteCall) -> None:
    """SPLIT has its axis first, SPLIT_V its sizes second and its axis third."""
    position, chosen = (1, 0) if call.kind == "SPLIT" else (0, 2)
    shape = call.shape(position)
    given = call.live(position)
    axis = call.axis((call.whole(chosen) or [0])[0], len(shape))
    count = len(call.outputs)
    sizes = [shape[axis] // count] * count if call.kind == "SPLIT" else call.whole(1) or []
    rest = shape[axis] - sum(size for size in sizes if size > 0)
    call.split(given, axis, [rest if size < 0 else size for size in sizes])


def _unpack(call: TfliteCall) -> None:
    shape = call.shape(0)
    given = call.live(0)
    axis = call.axis(call.option(1), len(shape))
    if shape[axis] != len(call.outputs):
        raise ModelError(f"{call.source[:60]!r} unpacks {shape[axis]:,} values into {len(call.outputs)}.")
    rest = (*shape[:axis], *shape[axis + 1 :])
    parts = []
    for i in range(shape[axis]):
        part = call.add("slice", (given,), output=i, axis=axis, start=i, stop=i + 1)
        parts.append(call.add("reshape", (part,), output=i, shape=rest))
    call.answer(*parts)


def _pack(call: TfliteCall) -> None:
    values = [call.needed(i) for i in range(len(call.inputs))]
    axis = call.axis(call.option(1), len(call.shape(0)) + 1)
    constants = [value.values() for value in values if isinstance(value, Constant)]
    if len(constants) == len(values):
        call.fold(np.stack(constants, axis=axis))
        return
    shape = (*call.shape(0)[:axis], 1, *call.shape(0)[axis:])
    parts = [call.add("reshape", (call.live(i),), shape=shape) for i in range(len(values))]
    call.emit("concat", parts, axis=axis)


def _gather(call: TfliteCall) -> None:
    axis = call.axis(call.option(0), len(call.shape(0)))
    data = call.constant(0)
    indices = call.constant(1)
    if call.option(1):
        call.unknown("by batch")
    elif data is not None and indices is not None and data.is_small:
        call.fold(np.take(data.values(), indices.values(), axis=axis))
    elif data is not None and indices is None and axis == 0 and len(data.shape) == 2 and data.is_float:
        call.embed(data, 1)
    elif indices is not None and indices.size <= _SHOWN:
        call.emit("gather", (call.live(0),), axis=axis, indices=nested_tuples(indices.values().tolist()))
    else:
        call.emit("gather", (call.live(0), call.live(1)), axis=axis)


def _resize(mode: str, first: int) -> Callable[[TfliteCall], None]:
    """Translates a resize. `first` is the slot of the flag for aligned corners; the next slot is that for centred
    pixels."""

    def resize(call: TfliteCall) -> None:
        size = call.whole(1) or []
        shape = call.shape(0)
        if len(size) != 2 or len(shape) != 4:
            raise ModelError(f"{call.source[:60]!r} resizes {len(shape)} axes to {len(size)}.")
        axes = [resized_axis(before, after) for before, after in zip(shape[1:3], size, strict=True) if before != after]
        aligned = call.flag(first)
        centred = call.flag(first + 1)
        if mode == "linear":
            rule = smooth_rule(axes, "align_corners" if aligned else "half_pixel" if centred else "asymmetric")
        elif aligned:
            rule = nearest_rule(axes, "align_corners", "round_prefer_ceil")
        else:
            rule = nearest_rule(axes, "tf_half_pixel_for_nn" if centred else "asymmetric", "floor")
        target = (shape[0], *size, shape[3])
        call.emit("resize", (call.live(0),), shape=target, axes="NHWC", mode=mode, coordinates=rule)

    return resize


def _reduce(op: str) -> Callable[[TfliteCall], None]:
    def reduce(call: TfliteCall) -> None:
        rank = len(call.shape(0))
        value = call.given(0)
        axes = tuple(sorted({call.axis(axis, rank) for axis in call.whole(1) or []}))
        if isinstance(value, Constant) and op in ("prod", "sum", "max", "min"):
            call.fold(getattr(np, op)(value.values(), axis=axes, keepdims=call.flag(0)))
        else:
            call.emit(op, (call.live(0),), axes=axes, keep=call.flag(0) or None)

    return reduce


def _extreme(op: str) -> Callable[[TfliteCall], None]:
    def find(call: TfliteCall) -> None:
        axes = call.whole(1)
        if axes is None or len(axes) != 1:
            call.unknown("along an axis that is computed")
        else:
            call.emit(op, (call.live(0),), axes=(call.axis(axes[0], len(call.shape(0))),))

    return find


def _shape(call: TfliteCall) -> None:
    call.fold(np.asarray(call.shape(0), np.int32))


def _broadcast(call: TfliteCall) -> None:
    call.emit("expand", (call.live(0),), shape=broadcast([call.shape(0), tuple(call.whole(1) or ())]))


def _block(op: str, **settings: Any) -> Callable[[TfliteCall], None]:
    return lambda call: call.emit(op, (call.live(0),), axes="NHWC", block=call.option(0), **settings)


_ARITHMETIC: Final[dict[str, Callable[[Array, Array], Array]]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "FLOOR_DIV": np.floor_divide, "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
}  # fmt: skip


def folded(call: TfliteCall) -> bool:
    """Arithmetic on small whole numbers, as converters do with shapes."""
    values = [call.given(i) for i in range(len(call.inputs))]
    if call.kind == "CAST" and isinstance(values[0], Constant):
        call.answer(values[0])
        return True
    constants = [value for value in values if isinstance(value, Constant) and value.is_small and not value.is_float]
    if call.kind not in _ARITHMETIC or len(values) != 2 or len(constants) != 2:
        return False
    if prod(broadcast([constant.shape for constant in constants])) > 1 << 20:
        return False
    with np.errstate(all="ignore"):
        call.fold(_ARITHMETIC[call.kind](constants[0].values(), constants[1].values()))
    return True


ARRANGEMENT: Final[dict[str, Callable[[TfliteCall], None]]] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose,
    "PAD": _pad,
    "PADV2": _pad,
    "MIRROR_PAD": _pad,
    "CONCATENATION": _concat,
    "SLICE": _slice,
    "STRIDED_SLICE": _strided_slice,
    "SPLIT": _split,
    "SPLIT_V": _split,
    "PACK": _pack,
    "UNPACK": _unpack,
    "GATHER": _gather,
    "SHAPE": _shape,
    "BROADCAST_TO": _broadcast,
    "TILE": lambda call: call.emit("tile", (call.live(0),), repeats=tuple(call.whole(1) or ())),
    "RESIZE_BILINEAR": _resize("linear", 2),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest", 0),
    "SPACE_TO_DEPTH": _block("space_to_depth"),
    "DEPTH_TO_SPACE": _block("depth_to_space", mode="DCR"),
    "MEAN": _reduce("mean"),
    "SUM": _reduce("sum"),
    "REDUCE_MAX": _reduce("max"),
    "REDUCE_MIN": _reduce("min"),
    "REDUCE_PROD": _reduce("prod"),
    "ARG_MAX": _extreme("argmax"),
    "ARG_MIN": _extreme("argmin"),
}
