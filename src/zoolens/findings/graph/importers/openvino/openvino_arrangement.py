"""Layers of an IR that move numbers and change none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zoolens.findings.graph.importers.openvino.writing import LayerWriting, Untranslatable

_ALL: Final = (1 << 31) - 1  # the end of an axis of any extent


def _reshape(layer: LayerWriting) -> None:
    given, shape = layer.layer.inputs
    layer.last("Reshape", given, shape, allowzero=None if layer.flag("special_zero") else 1)


def _transpose(layer: LayerWriting) -> None:
    given, order = layer.layer.inputs
    chosen = layer.graph.whole_numbers(order) or list(reversed(range(layer.rank(given))))
    layer.last("Transpose", given, perm=chosen)


def _squeezing(op: str) -> Callable[[LayerWriting], None]:
    def write(layer: LayerWriting) -> None:
        given, *axes = layer.layer.inputs
        layer.last(op, given, *(layer.constant(layer.graph.whole_numbers(name)) for name in axes))

    return write


def _concat(layer: LayerWriting) -> None:
    layer.last("Concat", *layer.layer.inputs, axis=layer.whole("axis"))


def _split(layer: LayerWriting) -> None:
    given, axis, *lengths = layer.layer.inputs
    (place,) = layer.graph.whole_numbers(axis)
    outputs = [port.name for port in layer.layer.outputs]
    if lengths:
        parts = layer.graph.whole_numbers(lengths[0])
        if -1 in parts:
            parts[parts.index(-1)] = layer.extents(given)[place] - sum(parts) - 1
    else:
        parts = [layer.extents(given)[place] // len(outputs)] * len(outputs)
    layer.graph.add("Split", (given, layer.constant(parts)), outputs, layer.layer.name, {"axis": place})


def _strided_slice(layer: LayerWriting) -> None:
    given, begin, end, *strides = layer.layer.inputs
    starts = layer.graph.whole_numbers(begin)
    ends = layer.graph.whole_numbers(end)
    steps = layer.graph.whole_numbers(strides[0]) if strides else [1] * len(starts)
    masks = {
        key: [*layer.list(f"{key}_mask"), *([0] * len(starts))][: len(starts)]
        for key in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    if any(masks["ellipsis"]) or any(masks["new_axis"]) or min(steps, default=1) < 1:
        raise Untranslatable
    single = [axis for axis, shrinks in enumerate(masks["shrink_axis"]) if shrinks]
    for axis in range(len(starts)):
        if axis in single:
            ends[axis] = starts[axis] + 1 if starts[axis] != -1 else _ALL
            continue
        if masks["begin"][axis]:
            starts[axis] = 0
        if masks["end"][axis]:
            ends[axis] = _ALL
    places = [layer.constant(numbers) for numbers in (starts, ends, range(len(starts)), steps)]
    if not single:
        layer.last("Slice", given, *places)
        return
    layer.last("Squeeze", layer.add("Slice", given, *places), layer.constant(single))


def _slice(layer: LayerWriting) -> None:
    given, start, stop, step, *axes = layer.layer.inputs
    chosen = axes[0] if axes else layer.constant(range(len(layer.graph.whole_numbers(start))))
    layer.last("Slice", given, start, stop, chosen, step)


def _gather(layer: LayerWriting) -> None:
    given, places, axis = layer.layer.inputs
    if layer.whole("batch_dims", 0):
        raise Untranslatable
    layer.last("Gather", given, places, axis=layer.graph.whole_numbers(axis)[0])


def _gather_elements(layer: LayerWriting) -> None:
    layer.last("GatherElements", *layer.layer.inputs, axis=layer.whole("axis"))


def _shape_of(layer: LayerWriting) -> None:
    layer.last("Shape", *layer.layer.inputs)


def _broadcast(layer: LayerWriting) -> None:
    given, shape, *_ = layer.layer.inputs
    if layer.text("mode", "numpy") not in ("numpy", "bidirectional"):
        raise Untranslatable
    layer.last("Expand", given, shape)


def _pad(layer: LayerWriting) -> None:
    given, before, after, *value = layer.layer.inputs
    mode = layer.text("pad_mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise Untranslatable
    pads = [*layer.graph.whole_numbers(before), *layer.graph.whole_numbers(after)]
    layer.last("Pad", given, layer.constant(pads), *(value if mode == "constant" else ()), mode=mode)


def _cumulative_sum(layer: LayerWriting) -> None:
    settings = {key: int(layer.flag(key)) for key in ("exclusive", "reverse")}
    layer.last("CumSum", *layer.layer.inputs, **settings)


def _top(layer: LayerWriting) -> None:
    given, count = layer.layer.inputs
    if layer.text("sort", "value") != "value":
        raise Untranslatable  # ONNX sorts by value, or not at all
    settings = {"axis": layer.whole("axis"), "largest": int(layer.text("mode", "max") == "max")}
    outputs = [port.name for port in layer.layer.outputs]
    layer.graph.add(
        "TopK", (given, layer.constant(layer.graph.whole_numbers(count))), outputs, layer.layer.name, settings
    )


def _tile(layer: LayerWriting) -> None:
    given, repeats = layer.layer.inputs
    counts = layer.graph.whole_numbers(repeats)
    if len(counts) != layer.rank(given):
        raise Untranslatable
    layer.last("Tile", given, layer.constant(counts))


ARRANGEMENT: Final[dict[str, Callable[[LayerWriting], None]]] = {
    "Reshape": _reshape, "Transpose": _transpose, "Squeeze": _squeezing("Squeeze"),
    "Unsqueeze": _squeezing("Unsqueeze"), "Concat": _concat, "Split": _split, "VariadicSplit": _split,
    "StridedSlice": _strided_slice, "Slice": _slice, "Gather": _gather, "GatherElements": _gather_elements,
    "ShapeOf": _shape_of, "Broadcast": _broadcast, "Pad": _pad, "CumSum": _cumulative_sum, "Tile": _tile,
    "TopK": _top,
}  # fmt: skip
