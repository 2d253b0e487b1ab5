"""Scaled dot-product attention that a source wrote out: softmax(q·kᵀ·scale + bias)·v."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from typing import Final

from zoolens.graph.model import Graph, Node
from zoolens.graph.passes.editing import Editor, rewrite

_CLOSE: Final = 1e-5


def name_attention(graph: Graph) -> Graph:
    return rewrite(graph, {"matmul": _attention, "attention": _settled})


def _attention(node: Node, editor: Editor) -> Node | str:
    weights = editor.made_by(node.inputs[0], "softmax")
    if weights is None or len(node.shape) != 4 or weights.get("axis") != 3 or _flipped(node):
        return node
    total = editor.made_by(weights.inputs[0], "add")
    scores, biases = _scores(total, editor) if total is not None else (weights.inputs[0], ())
    scores, scale = _unscaled(scores, 1.0, editor)
    product = editor.made_by(scores, "matmul")
    if product is None or product.get("transpose_a") or len(product.shape) != 4:
        return node
    q, scale = _unscaled(product.inputs[0], scale, editor)
    k, scale = _unscaled(product.inputs[1], scale, editor)
    k = k if product.get("transpose_b") else _turned(k, editor)
    fused = replace(node, op="attention", inputs=(q, k, node.inputs[1], *biases))
    return _settled(replace(fused, attributes={"heads": node.shape[1], "scale": scale}), editor)


def _flipped(node: Node) -> bool:
    return bool(node.get("transpose_a") or node.get("transpose_b"))


def _unscaled(name: str, scale: float, editor: Editor) -> tuple[str, float]:
    """The value before multiplications with a scalar, and their product with `scale`."""
    node = editor.maker(name)
    while node.op in ("mul", "div") and node.get("scalar") is not None and not node.get("reverse"):
        scalar = float(node.get("scalar"))
        scale = scale * scalar if node.op == "mul" else scale / scalar
        node = editor.maker(node.inputs[0])
    return node.name, scale


def _scores(total: Node, editor: Editor) -> tuple[str, tuple[str, ...]]:
    """The scores among the terms of a sum, and the other term: a mask or a bias by position."""
    for scores, *biases in (total.inputs, total.inputs[::-1]):
        base, _ = _unscaled(scores, 1.0, editor)
        if biases and editor.maker(base).op == "matmul" and editor.maker(scores).shape == total.shape:
            return scores, tuple(biases)
    return total.name, ()


def _turned(name: str, editor: Editor) -> str:
    """The keys as (N, heads, tokens, width), from the transposed ones a plain product needs."""
    node = editor.maker(name)
    *outer, rows, columns = node.shape
    shape = (*outer, columns, rows)
    if node.op == "transpose":
        *kept, a, b = node.get("perm")
        if (*kept, b, a) == (0, 1, 2, 3):
            return node.inputs[0]
        return editor.emit("transpose", node.inputs, shape, base=name, source=node.source, perm=(*kept, b, a))
    return editor.emit("transpose", (name,), shape, base=name, source=node.source, perm=(0, 1, 3, 2))


def _settled(node: Node, editor: Editor) -> Node | str:
    """The scale that is usual, one over the root of the width, is not said; the number of heads is."""
    query = editor.maker(node.inputs[0]).shape
    scale = node.get("scale")
    usual = scale is None or isclose(scale, query[-1] ** -0.5, rel_tol=_CLOSE)
    heads = query[1] if len(query) == 4 else node.get("heads")
    if (scale is None or not usual) and heads == node.get("heads"):
        return node
    return node.with_attributes(heads=heads, scale=None if usual else scale)
