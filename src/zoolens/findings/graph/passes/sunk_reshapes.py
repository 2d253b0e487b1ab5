"""Reshapes behind the layers that they do not concern: a dense layer over rows is one over tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.ir.vocabulary import ACTIVATIONS, ARITHMETIC
from zoolens.findings.graph.passes.editor import Editor, Rule, rewrite
from zoolens.findings.graph.passes.noise import remove_noise
from zoolens.findings.graph.passes.order import settle_order

_NUMBERWISE: Final = (ACTIVATIONS - {"prelu"}) | ARITHMETIC


def sink_reshapes(graph: Graph) -> Graph:
    """Works on canonical graphs. A reshape that leaves the last axis alone moves behind what works along this axis, and
    any reshape behind what works on each number."""
    sunk = rewrite(graph, _RULES)
    return sunk if sunk is graph else settle_order(remove_noise(sunk))


def _along_last_axis(node: Node, editor: Editor) -> Node | str:
    reshape = _only_reshape(node, editor)
    if reshape is None or len(reshape.shape) < 2:
        return node
    before = editor.maker(reshape.inputs[0]).shape
    if len(before) < 2 or before[-1] != reshape.shape[-1]:
        return node
    axes = node.get("axes")
    axis = node.get("axis")
    if tuple(axes or (len(reshape.shape) - 1,)) != (len(reshape.shape) - 1,) or axis not in (None, len(node.shape) - 1):
        return node
    last = len(before) - 1
    settings: dict[str, Any] = {
        **node.attributes,
        **({"axes": (last,)} if axes else {}),
        **({"axis": last} if axis else {}),
    }
    made = editor.emit(
        node.op,
        reshape.inputs,
        (*before[:-1], node.shape[-1]),
        base=node.name,
        source=node.source,
        parameters=node.parameters,
        **settings,
    )
    return replace(node, op="reshape", inputs=(made,), attributes={}, parameters=())


def _on_each_number(node: Node, editor: Editor) -> Node | str:
    reshape = _only_reshape(node, editor)
    if reshape is None:
        return node
    before = editor.maker(reshape.inputs[0]).shape
    settings: dict[str, Any] = dict(node.attributes)
    made = editor.emit(node.op, reshape.inputs, before, base=node.name, source=node.source, **settings)
    return replace(node, op="reshape", inputs=(made,), attributes={})


def _only_reshape(node: Node, editor: Editor) -> Node | None:
    """The reshape that makes the only input, and whose value nothing else uses."""
    reshape = editor.made_by(node.inputs[0], "reshape") if len(node.inputs) == 1 else None
    return reshape if reshape is not None and editor.only_use(reshape.name) else None


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("dense", "layer_norm", "rms_norm", "affine"), _along_last_axis),
    **dict.fromkeys(_NUMBERWISE, _on_each_number),
}
