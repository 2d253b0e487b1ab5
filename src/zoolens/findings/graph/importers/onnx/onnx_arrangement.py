"""ONNX operators that move numbers about or reduce them along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.constants import MOST, Constant
from zoolens.findings.graph.importers.onnx.constant_folding import SHAPE_CHANGES, permutation, slices
from zoolens.findings.graph.importers.onnx.translation import SPATIAL_AXES, OnnxCall
from zoolens.findings.graph.importers.resize_rules import ResizedAxis, nearest_rule, resized_axis, smooth_rule
from zoolens.findings.graph.ir.model import Shape, Value, nested_tuples
from zoolens.findings.graph.ir.shapes import broadcast

_SHOWN: Final = 64  # indices that an attribute may hold


def _reshape(call: OnnxCall) -> None:
    call.rearrange(SHAPE_CHANGES[call.node.op](call, call.shape(0)))


def _transpose(call: OnnxCall) -> None:
    call.emit("transpose", (call.live(0),), perm=tuple(permutation(call, len(call.shape(0)))))


def _concat(call: OnnxCall) -> None:
    axis = call.axis(call.get("axis", 1), len(call.shape(0)))
    places = range(len(call.node.inputs))
    # What has no extent there, as keys of no earlier tokens, adds nothing.
    filled = [place for place in places if call.shape(place)[axis]] or places[:1]
    if len(filled) == 1:
        call.answer(call.state.values[call.node.inputs[filled[0]]])
        return
    call.emit("concat", [call.live(place) for place in filled], axis=axis)


def _slice(call: OnnxCall) -> None:
    cuts = slices(call, call.shape(0))
    if any(step < 0 and len(range(start, stop, step)) > MOST for _, start, stop, step in cuts):
        call.unknown(f"backwards over more than {MOST:,} places")
        return
    call.answer(call.cut(call.live(0), cuts))


def _split(call: OnnxCall) -> None:
    given = call.live(0)
    axis = call.axis(call.get("axis", 0), len(call.shape(0)))
    extent = call.shape(0)[axis]
    count = len(call.node.outputs)
    call.split(given, axis, call.integers("split") or call.whole(1) or _even(extent, call.get("num_outputs", count)))


def _even(extent: int, count: int) -> list[int]:
    size = -(-extent // max(count, 1))
    return [min(size, extent - size * i) for i in range(min(count, extent + 1))]


def _pad(call: OnnxCall) -> None:
    rank = len(call.shape(0))
    pads = call.integers("pads") or call.integers("paddings") or call.whole(1) or []
    axes = [call.axis(axis, rank) for axis in call.whole(3) or range(rank)]
    mode = call.get("mode", "constant")
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{call.source[:60]!r} pads {len(axes)} axes with {len(pads)} numbers.")
    if min(pads, default=0) < 0 or mode not in ("constant", "reflect", "edge"):
        call.unknown(f"in the mode {mode[:20]}")
        return
    full = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
    settings: dict[str, Value] = {"pads": tuple(full), "value": _pad_value(call) or None}
    if mode != "constant":
        settings["mode"] = mode
    call.emit("pad", (call.live(0),), **settings)


def _pad_value(call: OnnxCall) -> float:
    values = call.setting(2)
    if values is not None and values.size and values.ravel()[0] == call.state.zero_points.get(call.live(0)):
        return 0.0
    return float(call.get("value", 0.0) if values is None or not values.size else values.reshape(-1)[0])


def _gather(call: OnnxCall) -> None:
    rank = len(call.shape(0))
    axis = call.axis(call.get("axis", 0), rank)
    table = call.constant(0)
    indices = call.constant(1)
    if table is not None and indices is None and axis == 0 and rank == 2 and table.is_float:
        call.embed(table, 1)
    elif indices is not None and (run := _run(indices, call.shape(0)[axis])) is not None:
        _take_run(call, axis, run, indices.shape)
    elif indices is not None and indices.size <= _SHOWN:
        chosen = np.where(indices.values() < 0, indices.values() + call.shape(0)[axis], indices.values())
        call.emit("gather", (call.live(0),), axis=axis, indices=nested_tuples(chosen.tolist()))
    else:
        call.emit("gather", (call.live(0), call.live(1)), axis=axis)


def _run(indices: Constant, extent: int) -> tuple[int, int] | None:
    """Start and stop, where places are taken one after the other, as torch's exporter writes a stride that is none."""
    if not 0 < indices.size <= MOST or indices.is_float:
        return None
    places = np.asarray(indices.load()).ravel().astype(np.int64)
    places = np.where(places < 0, places + extent, places)
    start = int(places[0])
    stop = start + indices.size
    if start >= 0 and stop <= extent and (places == np.arange(start, stop)).all():
        return (start, stop)
    return None


def _take_run(call: OnnxCall, axis: int, run: tuple[int, int], places: Shape) -> None:
    shape = call.shape(0)
    value = call.live(0)
    if run != (0, shape[axis]):
        value = call.add("slice", (value,), axis=axis, start=run[0], stop=run[1])
    wanted = (*shape[:axis], *places, *shape[axis + 1 :])
    call.answer(value if call.state.shape(value) == wanted else call.add("reshape", (value,), shape=wanted))


def _expand(call: OnnxCall) -> None:
    shape = broadcast([call.shape(0), tuple(call.whole(1) or ())])
    if shape == call.shape(0):
        call.answer(call.live(0))
    else:
        call.emit("expand", (call.live(0),), shape=shape)


def _tile(call: OnnxCall) -> None:
    call.emit("tile", (call.live(0),), repeats=tuple(call.whole(1) or ()))


def _depth_to_space(call: OnnxCall) -> None:
    block = call.get("blocksize", 1)
    mode = call.get("mode", "DCR")
    call.emit("depth_to_space", (call.live(0),), axes="NCHW", block=block, mode=mode[:3])


def _space_to_depth(call: OnnxCall) -> None:
    call.emit("space_to_depth", (call.live(0),), axes="NCHW", block=call.get("blocksize", 1))


def _resize(call: OnnxCall) -> None:
    shape = call.shape(0)
    axes = _resized_axes(call, shape)
    mode = {"bilinear": "linear"}.get(call.get("mode", "nearest"), call.get("mode", "nearest"))
    if len(axes) != len(shape) or mode not in ("nearest", "linear", "cubic"):
        raise ModelError(f"{call.source[:60]!r} resizes {len(shape)} axes to {len(axes)}.")
    if call.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        call.unknown("that keeps the aspect ratio")
        return
    call.emit(
        "resize",
        (call.live(0),),
        shape=tuple(axis.after for axis in axes),
        axes=SPATIAL_AXES.get(len(shape), ""),
        mode=mode,
        coordinates=_rule(call, mode, axes),
    )


def _is_old(call: OnnxCall) -> bool:
    """Whether a resize is one from before opset 11, where the factors come second and there is one rule."""
    return call.node.op == "Upsample" or call.opset < 11


def _rule(call: OnnxCall, mode: str, axes: Sequence[ResizedAxis]) -> str | None:
    moved = [axis for axis in axes if axis.before != axis.after]
    rule = "asymmetric" if _is_old(call) else call.get("coordinate_transformation_mode", "half_pixel")[:40]
    if any(axis.before != axis.after for axis in axes[:2]):
        return f"{rule}, along channels"
    if mode == "nearest":
        rounding = "floor" if _is_old(call) else call.get("nearest_mode", "round_prefer_floor")[:40]
        return nearest_rule(moved, rule, rounding)
    if call.get("antialias", 0) or call.get("exclude_outside", 0) or call.get("cubic_coeff_a", -0.75) != -0.75:
        return f"{rule}, with other weights"
    return smooth_rule(moved, rule)


def _resized_axes(call: OnnxCall, shape: Shape) -> list[ResizedAxis]:
    """The axes of a resize, from sizes or factors that are given for all of them or for some."""
    factors = call.attributes.get("scales")
    values = call.setting(1 if _is_old(call) else 2) if factors is None else np.asarray(factors)
    sizes = None if _is_old(call) else call.whole(3)
    chosen = [call.axis(axis, len(shape)) for axis in call.integers("axes") or range(len(shape))]
    given = sizes or ([] if values is None else values.tolist())
    if len(given) != len(chosen):
        return []
    axes = [resized_axis(extent, extent) for extent in shape]
    for axis, value in zip(chosen, given, strict=True):
        extent = shape[axis]
        after = int(value) if sizes else int(np.floor(min(extent * value, 2.0**40)))
        axes[axis] = resized_axis(extent, after, None if sizes else float(value))
    return axes


def _reduce(op: str, before: str = "", after: str = "") -> Callable[[OnnxCall], None]:
    """A reduction, of what another step makes of each number, and a step on its result."""

    def reduce(call: OnnxCall) -> None:
        rank = len(call.shape(0))
        given = call.integers("axes") or call.whole(1)
        if not given and call.get("noop_with_empty_axes", 0):
            call.answer(call.live(0))
            return
        axes = tuple(sorted({call.axis(axis, rank) for axis in given or range(rank)}))
        value = call.add(before, (call.live(0),)) if before else call.live(0)
        value = call.add(op, (value,), axes=axes, keep=bool(call.get("keepdims", 1)) or None)
        call.answer(call.add(after, (value,)) if after else value)

    return reduce


def _extreme(op: str) -> Callable[[OnnxCall], None]:
    def find(call: OnnxCall) -> None:
        if call.get("select_last_index", 0):
            call.unknown("of the last of equal numbers")
            return
        axis = call.axis(call.get("axis", 0), len(call.shape(0)))
        call.emit(op, (call.live(0),), axes=(axis,), keep=bool(call.get("keepdims", 1)) or None)

    return find


ARRANGEMENT: Final[dict[str, Callable[[OnnxCall], None]]] = {
    **dict.fromkeys(SHAPE_CHANGES, _reshape),
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Gather": _gather,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Resize": _resize,
    "Upsample": _resize,
    "ReduceMean": _reduce("mean"),
    "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ArgMax": _extreme("argmax"),
    "ArgMin": _extreme("argmin"),
    "ReduceL1": _reduce("sum", before="abs"),
    "ReduceL2": _reduce("sum", before="square", after="sqrt"),
    "ReduceSumSquare": _reduce("sum", before="square"),
    "ReduceLogSum": _reduce("sum", after="log"),
    "ReduceLogSumExp": _reduce("sum", before="exp", after="log"),
}
