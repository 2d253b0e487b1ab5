"""Masks of attention in one form: truth values that say what is seen, and a word for the causal one.

torch adds minus infinity where Keras has truth values; a causal mask is a setting of some and a constant of others.
Works on canonical graphs with weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.mask_values import HIDDEN, hidden_places, is_causal
from zoolens.findings.graph.ir.model import Array, Graph, Node
from zoolens.findings.graph.passes.editor import Editor, rewrite

_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_VIEWS: Final = ("reshape", "expand")


def unify_attention_masks(graph: Graph) -> Graph:
    return rewrite(graph, {"attention": _unified, "compare": _plain})


def _plain(node: Node, editor: Editor) -> Node | str:
    """What is not a comparison's truth is the opposite comparison."""
    inner = editor.maker(node.inputs[0])
    if len(node.inputs) != 1 or inner.op != "compare" or (node.get("kind"), node.get("scalar")) != ("==", 0):
        return node
    return replace(inner.with_attributes(kind=_OPPOSITE[str(inner.get("kind"))]), name=node.name)


def _unified(node: Node, editor: Editor) -> Node | str:
    if len(node.inputs) != 4:
        return node
    mask = node.inputs[3]
    seen = _constant(mask, editor)
    if seen is not None:
        return _of_constant(node, seen, editor)
    parts = _conditions(mask, editor)
    if parts is None:
        return node
    causal = node.get("causal")
    named: list[str] = []
    for part in parts:
        seen = _constant(part, editor)
        if seen is not None and _is_causal(seen, node, editor):
            causal = True
        else:
            named.append(part)
    changed = node.with_attributes(causal=causal or None)
    if not named:
        return replace(changed, inputs=node.inputs[:3])
    total = named[0]
    for other in named[1:]:
        shape = np.broadcast_shapes(editor.maker(total).shape, editor.maker(other).shape)
        total = editor.emit("minimum", (total, other), shape, base=node.name)
    return replace(changed, inputs=(*node.inputs[:3], total))


def _of_constant(node: Node, seen: Array, editor: Editor) -> Node:
    if _is_causal(seen, node, editor):
        return replace(node.with_attributes(causal=True), inputs=node.inputs[:3])
    if seen.all():
        return replace(node, inputs=node.inputs[:3])
    return node


def _is_causal(seen: Array, node: Node, editor: Editor) -> bool:
    rows = editor.maker(node.inputs[0]).shape[-2]
    columns = editor.maker(node.inputs[1]).shape[-2]
    if seen.shape[-2:] != (rows, columns):
        return False
    return is_causal(~seen)


def _stored(name: str, editor: Editor) -> Array | None:
    """The numbers of a constant, also behind views; None where it is none, or where they are not read."""
    node = editor.maker(name)
    while node.op in _VIEWS:
        node = editor.maker(node.inputs[0])
    if node.op != "constant":
        return None
    shown = node.get("value")
    stored = editor.values(node.parameters[0].key) if shown is None and node.parameters else shown
    return None if stored is None else np.asarray(stored).reshape(node.shape)


def _constant(name: str, editor: Editor) -> Array | None:
    """What a constant mask lets be seen; None where it is none, or adds other numbers."""
    values = _stored(name, editor)
    if values is None:
        return None
    if values.dtype.kind == "b":
        return values
    hidden = hidden_places(values)
    return None if hidden is None else ~hidden


def _conditions(name: str, editor: Editor) -> list[str] | None:
    """The truth values that a mask is made of, all of which must hold for a place to be seen."""
    node = editor.maker(name)
    if node.op in ("compare", "constant"):
        if node.op == "compare" or _constant(name, editor) is not None:
            return [name]
        return None
    if node.op in _VIEWS:
        inner = _conditions(node.inputs[0], editor)
        if inner is None:
            return None
        return [_viewed(each, node, editor) for each in inner]
    if node.op in ("minimum", "add") and len(node.inputs) == 2:
        both = [_conditions(given, editor) for given in node.inputs]
        if both[0] is None or both[1] is None:
            return None
        return [*both[0], *both[1]]
    return _of_choice(node, editor) if node.op == "where" else None


def _viewed(name: str, view: Node, editor: Editor) -> str:
    """A mask in another shape; one that is only spread stays as it is, for attention spreads it by itself."""
    made = editor.maker(name)
    if view.op == "expand" or made.shape == view.shape:
        return name
    extents = tuple(extent for extent in view.shape if extent != 1)
    if tuple(extent for extent in made.shape if extent != 1) != extents:
        return name
    return editor.emit("reshape", (name,), view.shape, base=view.name)


def _of_choice(node: Node, editor: Editor) -> list[str] | None:
    """Zeros where a condition holds and minus infinity elsewhere, or the other way round."""
    condition, *choices = node.inputs
    numbers = [_number(name, editor) for name in choices]
    if numbers[0] is None or numbers[1] is None:
        return None
    if numbers[0] == 0 and numbers[1] <= HIDDEN:
        return _conditions(condition, editor)
    if numbers[1] == 0 and numbers[0] <= HIDDEN:
        return _negated(condition, editor)
    return None


def _number(name: str, editor: Editor) -> float | None:
    """The number that a constant has everywhere."""
    stored = _stored(name, editor)
    if stored is None or not stored.size or (stored != stored.flat[0]).any():
        return None
    return float(stored.flat[0])


def _negated(name: str, editor: Editor) -> list[str] | None:
    node = editor.maker(name)
    if node.op in _VIEWS:
        inner = _negated(node.inputs[0], editor)
        if inner is None:
            return None
        return [_viewed(each, node, editor) for each in inner]
    if node.op != "compare":
        return None
    kind = _OPPOSITE[str(node.get("kind"))]
    scalar = node.get("scalar")
    return [editor.emit("compare", node.inputs, node.shape, base=node.name, kind=kind, scalar=scalar)]
