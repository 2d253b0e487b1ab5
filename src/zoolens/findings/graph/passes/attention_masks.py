"""Masks of attention in one form: truth values that say what is seen, and a word for the causal one.

torch adds minus infinity where Keras has truth values; a causal mask is a setting of some and a constant of others.
Works on canonical graphs with weights. A row that is hidden as a whole may get other weights than before: what such a
row answers depends on how a framework writes its mask (minus infinity gives no number, a finite one some average).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.mask_values import CERTAINLY_HIDES, hidden_places, is_causal
from zoolens.findings.graph.ir.model import Array, Graph, Node, Shape
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
    conditions = _truths(mask, editor) or _addends(mask, editor)
    if conditions is None:
        return node
    causal = node.get("causal")
    kept: list[str] = []
    for condition in conditions:
        stored = _stored(condition, editor)
        if stored is None:
            kept.append(condition)
            continue
        seen = _seen(stored)
        assert seen is not None
        if _is_causal(seen, node, editor):
            causal = True
        elif seen.all():
            continue
        elif stored.dtype == np.bool_:
            kept.append(condition)
        else:
            # Numbers that are added to scores are no truth values, with which `minimum` could join them.
            return node
    changed = node.with_attributes(causal=causal or None)
    if not kept:
        return replace(changed, inputs=node.inputs[:3])
    return replace(changed, inputs=(*node.inputs[:3], _all_of(kept, node, editor)))


def _all_of(conditions: list[str], node: Node, editor: Editor) -> str:
    """A value that is true where all of these are."""
    total = conditions[0]
    for other in conditions[1:]:
        shape = np.broadcast_shapes(editor.maker(total).shape, editor.maker(other).shape)
        total = editor.emit("minimum", (total, other), shape, base=node.name)
    return total


def _is_causal(seen: Array, node: Node, editor: Editor) -> bool:
    rows = editor.maker(node.inputs[0]).shape[-2]
    columns = editor.maker(node.inputs[1]).shape[-2]
    # A mask that tells apart samples of a batch may be a triangle as well: (8, 1, 1, 8) of eight samples.
    return seen.shape[-2:] == (rows, columns) and is_causal(~seen)


def _stored(name: str, editor: Editor) -> Array | None:
    """The numbers of a constant, also behind views; None where it is none, or where they are not read. An axis along
    which they are only repeated has the extent 1."""
    node = editor.maker(name)
    if node.op == "expand":
        return _stored(node.inputs[0], editor)
    if node.op == "reshape":
        inner = _stored(node.inputs[0], editor)
        if inner is None or inner.size != prod(node.shape):
            return None
        return inner.reshape(node.shape)
    if node.op != "constant":
        return None
    shown = node.get("value")
    stored = editor.values(node.parameters[0].key) if shown is None and node.parameters else shown
    return None if stored is None else np.asarray(stored).reshape(node.shape)


def _seen(mask: Array) -> Array | None:
    """What a mask of these numbers lets be seen; None where they are of anything else."""
    if mask.dtype == np.bool_:
        return mask
    hidden = hidden_places(mask, CERTAINLY_HIDES)
    return None if hidden is None else ~hidden


def _truths(name: str, editor: Editor) -> list[str] | None:
    """The truth values that a truth value is made of: all of them must hold."""
    node = editor.maker(name)
    if node.op in _VIEWS:
        return _viewed(_truths(node.inputs[0], editor), node, editor)
    if node.op == "minimum" and len(node.inputs) == 2:
        return _both(_truths(node.inputs[0], editor), _truths(node.inputs[1], editor))
    if node.op == "constant":
        stored = _stored(name, editor)
        return [name] if stored is not None and stored.dtype == np.bool_ else None
    return [name] if node.op == "compare" else None


def _addends(name: str, editor: Editor) -> list[str] | None:
    """The truth values behind a mask that is added to scores, all of which must hold for a place to be seen; and
    constants of numbers that hide."""
    node = editor.maker(name)
    if node.op in _VIEWS:
        return _viewed(_addends(node.inputs[0], editor), node, editor)
    if node.op in ("minimum", "add") and len(node.inputs) == 2:
        return _both(_addends(node.inputs[0], editor), _addends(node.inputs[1], editor))
    if node.op == "constant":
        stored = _stored(name, editor)
        is_mask = stored is not None and stored.dtype != np.bool_ and _seen(stored) is not None
        return [name] if is_mask else None
    return _of_choice(node, editor) if node.op == "where" else None


def _both(some: list[str] | None, others: list[str] | None) -> list[str] | None:
    return None if some is None or others is None else [*some, *others]


def _viewed(conditions: list[str] | None, view: Node, editor: Editor) -> list[str] | None:
    """The conditions of a mask in another shape; None where one cannot have it."""
    if conditions is None or view.op == "expand":  # attention spreads a mask by itself
        return conditions
    viewed = []
    for condition in conditions:
        reshaped = _reshaped(condition, view, editor)
        if reshaped is None:
            return None
        viewed.append(reshaped)
    return viewed


def _reshaped(condition: str, view: Node, editor: Editor) -> str | None:
    shape = editor.maker(condition).shape
    whole = editor.maker(view.inputs[0]).shape
    if shape == whole:
        wanted = view.shape
    elif _without_ones(whole) == _without_ones(view.shape):
        aligned = (1,) * (len(whole) - len(shape)) + shape
        extents = (own for own, extent in zip(aligned, whole, strict=True) if extent != 1)
        wanted = tuple(1 if extent == 1 else next(extents) for extent in view.shape)
        if _without_leading_ones(wanted) == _without_leading_ones(shape):
            return condition
    else:
        return None  # it is spread over axes that the view joins or splits
    return condition if wanted == shape else editor.emit("reshape", (condition,), wanted, base=view.name)


def _without_ones(shape: Shape) -> Shape:
    return tuple(extent for extent in shape if extent != 1)


def _without_leading_ones(shape: Shape) -> Shape:
    first = next((axis for axis, extent in enumerate(shape) if extent != 1), len(shape))
    return shape[first:]


def _of_choice(node: Node, editor: Editor) -> list[str] | None:
    """Zeros where a condition holds and minus infinity elsewhere, or the other way round."""
    condition, *choices = node.inputs
    numbers = [_number(name, editor) for name in choices]
    if numbers[0] is None or numbers[1] is None:
        return None
    if numbers[0] == 0 and numbers[1] <= CERTAINLY_HIDES:
        return _truths(condition, editor)
    if numbers[1] == 0 and numbers[0] <= CERTAINLY_HIDES:
        return _negated(condition, editor)
    return None


def _number(name: str, editor: Editor) -> float | None:
    """The number that a constant has everywhere."""
    node = editor.maker(name)
    while node.op in _VIEWS:
        node = editor.maker(node.inputs[0])
    stored = _stored(node.name, editor)
    if stored is None or not stored.size or (stored != stored.flat[0]).any():
        return None
    return float(stored.flat[0])


def _negated(name: str, editor: Editor) -> list[str] | None:
    node = editor.maker(name)
    if node.op in _VIEWS:
        return _viewed(_negated(node.inputs[0], editor), node, editor)
    if node.op != "compare":
        return None
    kind = _OPPOSITE[str(node.get("kind"))]
    scalar = node.get("scalar")
    return [editor.emit("compare", node.inputs, node.shape, base=node.name, kind=kind, scalar=scalar)]
