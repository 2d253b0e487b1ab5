"""Scaled dot-product attention that a source wrote out: softmax(q·kᵀ·scale + bias)·v."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from zoolens.findings.graph.ir.model import Graph, Node, Shape
from zoolens.findings.graph.ir.rounded_numbers import as_bfloat16, as_float16, is_same_number
from zoolens.findings.graph.ir.shapes import broadcast
from zoolens.findings.graph.passes.arrangements import chain, emit_steps
from zoolens.findings.graph.passes.editor import Editor, rewrite


def name_attention(graph: Graph) -> Graph:
    return rewrite(graph, {"matmul": _attention, "attention": _settled})


def _attention(node: Node, editor: Editor) -> Node | str:
    weights = editor.made_by(_inside(node.inputs[0], editor), "softmax")
    if weights is None or len(weights.shape) < 4 or weights.get("axis") != len(weights.shape) - 1 or _flipped(node):
        return node
    scores, biases = _scores(weights.inputs[0], editor)
    scores, scale = _unscaled(_inside(scores, editor), 1.0, editor)
    product = editor.made_by(scores, "matmul")
    if product is None or product.get("transpose_a") or product.shape[-2:] != weights.shape[-2:]:
        return node
    q, scale = _unscaled(product.inputs[0], scale, editor)
    k, scale = _unscaled(product.inputs[1], scale, editor)
    k = k if product.get("transpose_b") else _turned(k, editor)
    heads = weights.shape[-3]
    values = tuple(_by_heads(name, heads, node.name, editor) for name in (q, k, node.inputs[1]))
    masks = [_as_mask(name, weights, node.name, editor) for name in biases]
    if any(mask is None for mask in masks):
        return node
    inputs = (*values, *_total([mask for mask in masks if mask is not None], node.name, editor))
    shape = (*editor.maker(values[0]).shape[:3], node.shape[-1])
    attributes: dict[str, Any] = {"heads": heads, "scale": scale}
    if shape == node.shape:
        return _settled(replace(node, op="attention", inputs=inputs, attributes=attributes), editor)
    made = editor.emit("attention", inputs, shape, base=node.name, source=node.source, **attributes)
    return replace(node, op="reshape", inputs=(made,), attributes={})


def _inside(name: str, editor: Editor) -> str:
    """The value before reshapes that leave its matrices, the last two axes, alone."""
    node = editor.maker(name)
    while node.op == "reshape" and editor.maker(node.inputs[0]).shape[-2:] == node.shape[-2:]:
        node = editor.maker(node.inputs[0])
    return node.name


def _by_heads(name: str, heads: int, base: str, editor: Editor) -> str:
    """The value as (N, heads, tokens, width), whatever axes the windows of a map were spread over."""
    *outer, tokens, width = editor.maker(name).shape
    shape = (prod(outer) // heads, heads, tokens, width)
    if editor.maker(name).shape == shape:
        return name
    return editor.emit("reshape", (name,), shape, base=base)


def _as_mask(name: str, weights: Node, base: str, editor: Editor) -> str | None:
    """A mask or bias as (1 or N, 1 or heads, tokens, tokens); None where it varies over only some windows."""
    mask: Shape = (1, 1, 1, 1, *editor.maker(name).shape)
    windows = prod(mask[:-3])
    heads = mask[-3]
    if windows not in (1, prod(weights.shape[:-3])) or heads not in (1, weights.shape[-3]):
        return None
    if len(editor.maker(name).shape) <= 4:
        return name
    return editor.emit("reshape", (name,), (windows, *mask[-3:]), base=base)


def _total(masks: list[str], base: str, editor: Editor) -> tuple[str, ...]:
    """One term for all that is added to the scores."""
    if len(masks) < 2:
        return tuple(masks)
    total = masks[0]
    for mask in masks[1:]:
        shape = broadcast([editor.maker(total).shape, editor.maker(mask).shape])
        total = editor.emit("add", (total, mask), shape, base=base)
    return (total,)


def _flipped(node: Node) -> bool:
    return bool(node.get("transpose_a") or node.get("transpose_b"))


def _unscaled(name: str, scale: float, editor: Editor) -> tuple[str, float]:
    """The value before multiplications with a scalar, also before it was arranged, and their product with `scale`."""
    arranged = chain(editor.maker(name), editor)
    node = editor.maker(arranged.source)
    if not _scales(node):
        return name, scale
    while _scales(node):
        scalar = float(node.get("scalar"))
        scale = scale * scalar if node.op == "mul" else scale / scalar
        node = editor.maker(node.inputs[0])
    return emit_steps(node.name, arranged.spelling, editor, base=name), scale


def _scales(node: Node) -> bool:
    return node.op in ("mul", "div") and node.get("scalar") is not None and not node.get("reverse")


def _scores(name: str, editor: Editor) -> tuple[str, tuple[str, ...]]:
    """The scores among the terms of a sum, and the other terms: masks and biases by position."""
    total = editor.made_by(_inside(name, editor), "add")
    if total is None or len(total.inputs) != 2:
        return name, ()
    for scores, bias in (total.inputs, total.inputs[::-1]):
        if editor.maker(scores).shape != total.shape:
            continue
        base, more = _scores(scores, editor)
        unscaled, _ = _unscaled(_inside(base, editor), 1.0, editor)
        if editor.maker(unscaled).op == "matmul":
            return base, (*more, bias)
    return name, ()


def _turned(name: str, editor: Editor) -> str:
    """The keys as rows, from the transposed ones that a plain product needs."""
    *outer, rows, columns = editor.maker(name).shape
    perm = (*range(len(outer)), len(outer) + 1, len(outer))
    return editor.emit("transpose", (name,), (*outer, columns, rows), base=name, perm=perm)


def _settled(node: Node, editor: Editor) -> Node | str:
    """The scale that is usual, one over the root of the width, is not said; the number of heads is."""
    query = editor.maker(node.inputs[0]).shape
    if len(query) > 4 and len(node.inputs) == 3:
        return _in_windows(node, query[-3], editor)
    scale = node.get("scale")
    usual = scale is None or _is_usual(scale, query[-1])
    heads = query[1] if len(query) == 4 else node.get("heads")
    if (scale is None or not usual) and heads == node.get("heads"):
        return node
    return node.with_attributes(heads=heads, scale=None if usual else scale)


def _is_usual(scale: float, width: int) -> bool:
    """Whether it is one over the root of the width; half of it may be in the queries and half in the keys."""
    usual = width**-0.5
    halves = width**-0.25
    rooted = as_float16(as_float16(usual) ** 0.5)  # torch's exporter writes the root of the scale as an operator
    spellings = (usual, rooted**2, as_float16(halves) ** 2, as_bfloat16(halves) ** 2, 1 / as_float16(width**0.5))
    return any(is_same_number(scale, spelling) for spelling in spellings)


def _in_windows(node: Node, heads: int, editor: Editor) -> Node:
    """Attention of windows that are spread over several axes, as one over (N, heads, tokens, width)."""
    inputs = tuple(_by_heads(name, heads, node.name, editor) for name in node.inputs)
    shape = (*editor.maker(inputs[0]).shape[:-1], node.shape[-1])
    attributes: dict[str, Any] = {**node.attributes, "heads": heads}
    made = editor.emit("attention", inputs, shape, base=node.name, source=node.source, **attributes)
    return replace(node, op="reshape", inputs=(made,), attributes={})
