"""From map to tokens and back in one way: places are joined or split while channels come first, then turned.

(N, C, H, W) → transpose → (N, H, W, C) → reshape → (N, H·W, C) is written (N, C, H, W) → (N, C, H·W) → (N, H·W, C).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from zoolens.graph.model import Graph, Node
from zoolens.graph.passes.editing import Editor, rewrite


def unify_tokens(graph: Graph) -> Graph:
    return rewrite(graph, {"reshape": _to_tokens, "transpose": _to_map})


def _to_tokens(node: Node, editor: Editor) -> Node | str:
    turn = editor.made_by(node.inputs[0], "transpose")
    if turn is None or tuple(turn.get("perm")) != (0, 2, 3, 1):
        return node
    batch, channels, *places = editor.maker(turn.inputs[0]).shape
    if node.shape != (batch, prod(places), channels):
        return node
    joined = editor.emit("reshape", turn.inputs, (batch, channels, prod(places)), base=node.name, source=node.source)
    return replace(node, op="transpose", inputs=(joined,), attributes={"perm": (0, 2, 1)})


def _to_map(node: Node, editor: Editor) -> Node | str:
    split = editor.made_by(node.inputs[0], "reshape")
    if split is None or tuple(node.get("perm")) != (0, 3, 1, 2):
        return node
    tokens = editor.maker(split.inputs[0]).shape
    batch, channels, *places = node.shape
    if tokens != (batch, prod(places), channels):
        return node
    shape = (batch, channels, prod(places))
    turned = editor.emit("transpose", split.inputs, shape, base=node.name, source=node.source, perm=(0, 2, 1))
    return replace(node, op="reshape", inputs=(turned,), attributes={})
