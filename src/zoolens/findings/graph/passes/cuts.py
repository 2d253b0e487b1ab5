"""Cuts in one form.

A gather of one run of places is a slice, one of every nth place for each first one is a turn of axes, and two parts put
together anew are a roll.
"""

from __future__ import annotations

from dataclasses import replace

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite


def unify_cuts(graph: Graph) -> Graph:
    return rewrite(graph, {"gather": _slice, "concat": _roll, "roll": _settled})


def _slice(node: Node, editor: Editor) -> Node | str:
    """One place, or places in a row; the axis of a single place is reshaped away."""
    indices = node.get("indices")
    axis = node.get("axis")
    if len(node.inputs) != 1:
        return node
    single = isinstance(indices, int)
    if _is_strided(indices, editor.maker(node.inputs[0]).shape[axis]):
        return _turned(node, editor)
    places = (indices,) if single else indices
    if not isinstance(places, tuple) or not places or not all(_is_place(place) for place in places):
        return node
    start = places[0]
    stop = places[-1] + 1
    if places != tuple(range(start, stop)):
        return node
    if not single:
        return replace(node, op="slice", attributes={"axis": axis, "start": start, "stop": stop})
    whole = editor.maker(node.inputs[0]).shape
    shape = (*whole[:axis], 1, *whole[axis + 1 :])
    part = editor.emit(
        "slice", node.inputs, shape, base=node.name, source=node.source, axis=axis, start=start, stop=stop
    )
    return replace(node, op="reshape", inputs=(part,), attributes={})


def _is_strided(indices: object, extent: int) -> bool:
    """Whether all places are taken, every nth one first, then those behind them: windows that do not overlap."""
    if not isinstance(indices, tuple) or not indices or not all(isinstance(row, tuple) for row in indices):
        return False
    step = len(indices)
    return extent % step == 0 and indices == tuple(tuple(range(first, extent, step)) for first in range(step))


def _turned(node: Node, editor: Editor) -> Node:
    axis = node.get("axis")
    shape = node.shape
    apart = (*shape[:axis], shape[axis + 1], shape[axis], *shape[axis + 2 :])
    split = editor.emit("reshape", node.inputs, apart, base=node.name, source=node.source)
    perm = (*range(axis), axis + 1, axis, *range(axis + 2, len(shape)))
    return replace(node, op="transpose", inputs=(split,), attributes={"perm": perm})


def _is_place(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _roll(node: Node, editor: Editor) -> Node | str:
    """The end of a value before its begin."""
    parts = [editor.made_by(name, "slice") for name in node.inputs]
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return node
    end = parts[0]
    begin = parts[1]
    axis = node.get("axis")
    extent = editor.maker(end.inputs[0]).shape[axis] if end.inputs == begin.inputs else 0
    along = end.get("axis") == begin.get("axis") == axis and end.get("step", 1) == begin.get("step", 1) == 1
    if not along or begin.get("start") != 0 or begin.get("stop") != end.get("start") or end.get("stop") != extent:
        return node
    rolled = {"axes": (axis,), "shifts": (-end.get("start"),)}
    return _settled(replace(node, op="roll", inputs=end.inputs, attributes=rolled), editor)


def _settled(node: Node, editor: Editor) -> Node | str:
    """Rolls in a row are one, over axes in order, by the shorter way round."""
    inner = editor.made_by(node.inputs[0], "roll")
    shifts: dict[int, int] = {}
    for roll in (node, inner):
        for axis, shift in zip(roll.get("axes"), roll.get("shifts"), strict=True) if roll is not None else ():
            shifts[axis] = shifts.get(axis, 0) + shift
    short = {axis: _shorter(shifts[axis], node.shape[axis]) for axis in sorted(shifts)}
    kept = {axis: shift for axis, shift in short.items() if shift}
    source = inner.inputs if inner is not None else node.inputs
    if not kept:
        return source[0]
    attributes = {"axes": tuple(kept), "shifts": tuple(kept.values())}
    if attributes == node.attributes and inner is None:
        return node
    return replace(node, inputs=source, attributes=attributes)


def _shorter(shift: int, extent: int) -> int:
    forward = shift % extent if extent else 0
    return forward - extent if 2 * forward > extent else forward
