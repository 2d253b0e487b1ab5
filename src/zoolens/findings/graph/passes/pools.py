"""The many forms of one pool: means over all places are `global_avg_pool`, even adaptive cells are `avg_pool`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite

_GLOBAL: Final = {
    "mean": "global_avg_pool", "avg_pool": "global_avg_pool", "adaptive_avg_pool": "global_avg_pool",
    "global_avg_pool": "global_avg_pool", "max": "global_max_pool", "max_pool": "global_max_pool",
    "adaptive_max_pool": "global_max_pool", "global_max_pool": "global_max_pool",
}  # fmt: skip


def unify_pools(graph: Graph) -> Graph:
    return rewrite(graph, _RULES)


def _reduction(node: Node, editor: Editor) -> Node | str:
    source = editor.maker(node.inputs[0])
    axes = tuple(node.get("axes"))
    if len(source.shape) >= 4 and axes == tuple(range(2, len(source.shape))):
        return _globally(node, source.name, source.shape, editor)
    joined = editor.made_by(source.name, "reshape") if axes == (2,) and len(source.shape) == 3 else None
    whole = editor.maker(joined.inputs[0]) if joined is not None else None
    if whole is not None and len(whole.shape) == 4 and whole.shape[:2] == source.shape[:2]:
        return _globally(node, whole.name, whole.shape, editor)
    return node


def _window(node: Node, editor: Editor) -> Node | str:
    source = editor.maker(node.inputs[0])
    if tuple(node.get("kernel")) == source.shape[2:] and not any(node.get("pads") or ()) and set(node.shape[2:]) == {1}:
        return _globally(node, source.name, source.shape, editor)
    return node


def _adaptive(node: Node, editor: Editor) -> Node | str:
    source = editor.maker(node.inputs[0])
    places = source.shape[2:]
    cells = node.shape[2:]
    if set(cells) == {1}:
        return _globally(node, source.name, source.shape, editor)
    if places == cells:
        return source.name
    if any(extent % count for extent, count in zip(places, cells, strict=True)):
        return node
    window = tuple(extent // count for extent, count in zip(places, cells, strict=True))
    return replace(node, op=node.op.removeprefix("adaptive_"), attributes={"kernel": window, "stride": window})


def _whole(node: Node, editor: Editor) -> Node | str:
    if len(node.shape) == 2:
        return node
    source = editor.maker(node.inputs[0])
    return _globally(node, source.name, source.shape, editor)


def _globally(node: Node, source: str, shape: Shape, editor: Editor) -> Node | str:
    """The pool to (N, C), and where axes of extent 1 were kept, the reshape that gives them back."""
    vector = shape[:2]
    op = _GLOBAL[node.op]
    if node.shape == vector:
        return replace(node, op=op, inputs=(source,), attributes={})
    pooled = editor.emit(op, (source,), vector, base=node.name, source=node.source)
    return replace(node, op="reshape", inputs=(pooled,), attributes={})


_RULES: Final[dict[str, Rule]] = {
    "mean": _reduction, "max": _reduction, "avg_pool": _window, "max_pool": _window, "adaptive_avg_pool": _adaptive,
    "adaptive_max_pool": _adaptive, "global_avg_pool": _whole, "global_max_pool": _whole,
}  # fmt: skip
