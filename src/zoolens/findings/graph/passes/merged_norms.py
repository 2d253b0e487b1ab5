"""Norms and per-channel arithmetic: constants become `affine`, affines join, and all merge into the layer before."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter
from zoolens.findings.graph.ir.shapes import aligned
from zoolens.findings.graph.ir.vocabulary import FIXED
from zoolens.findings.graph.passes.constants import parameter_of
from zoolens.findings.graph.passes.editor import Editor, rewrite

_LAYERS: Final = ("conv", "dense")


def name_affines(graph: Graph) -> Graph:
    """Arithmetic with a learned or constant tensor along one axis is `affine`."""
    if not any(node.op in FIXED for node in graph.nodes):
        return graph
    return rewrite(graph, dict.fromkeys(("add", "sub", "mul", "div"), _affine))


def merge_norms(graph: Graph) -> Graph:
    return rewrite(graph, {"affine": _merge_affine, "batch_norm": _merge_batch_norm})


def _affine(node: Node, editor: Editor) -> Node | str:
    for place, name in enumerate(node.inputs):
        tensor = parameter_of(editor.maker(name))
        if tensor is None or len(node.inputs) != 2 or (place == 0 and node.op in ("sub", "div")):
            continue
        x = node.inputs[1 - place]
        real = [axis for axis, extent in enumerate(aligned(tensor.shape, len(node.shape))) if extent != 1]
        if editor.maker(x).shape == node.shape and editor.maker(x).op not in FIXED and len(real) <= 1:
            role = "scale" if node.op in ("mul", "div") else "shift"
            learned = _with_sign(node.op, replace(tensor, role=role, shape=(tensor.size,)), editor)
            attributes = {"axis": real[0]} if real else {}
            return replace(node, op="affine", inputs=(x,), attributes=attributes, parameters=(learned,))
    return node


def _with_sign(op: str, tensor: Parameter, editor: Editor) -> Parameter:
    if op == "sub":
        return replace(tensor, key=editor.derived(f"{tensor.key}:negated", np.negative, tensor.key))
    if op == "div":
        return replace(tensor, key=editor.derived(f"{tensor.key}:inverse", np.reciprocal, tensor.key))
    return tensor


def _merge_affine(node: Node, editor: Editor) -> Node | str:
    before = editor.maker(node.inputs[0])
    if not editor.only_use(before.name):
        return node
    rule = _AFTER.get(before.op)
    return rule(before, node, editor) if rule is not None else node


def _after_affine(before: Node, node: Node, editor: Editor) -> Node | str:
    """Joins two affines along one axis that have a scale or a shift each; joining more would lose a learned tensor."""
    if before.get("axis") != node.get("axis") or len(before.parameters) != 1 or len(node.parameters) != 1:
        return node
    first = before.parameters[0]
    second = node.parameters[0]
    if first.role == second.role:
        return node
    if first.role == "scale":
        return editor.absorb(replace(before, parameters=(first, second)))
    key = editor.derived(f"{first.key}·{second.key}", _product, first.key, second.key)
    return editor.absorb(replace(before, parameters=(second, replace(first, key=key))))


def _product(a: Array, b: Array) -> Array:
    return np.asarray(a.reshape(-1) * b.reshape(-1))


def _linear(shift: Array, by: Array, plus: Array) -> Array:
    return np.asarray(shift.reshape(-1) * by.reshape(-1) + plus.reshape(-1))


def _after_batch_norm(before: Node, node: Node, editor: Editor) -> Node | str:
    """The scale that follows a norm without one is the norm's own."""
    if node.get("axis") != min(1, len(node.shape) - 1):
        return node
    return _taken(before, node, "", editor)


def _taken(before: Node, node: Node, prefix: str, editor: Editor) -> Node | str:
    """A norm takes the scale and shift that follow it for its own where it has none; a scale comes before a shift."""
    has = {role for role in ("scale", "shift") if before.parameter(prefix + role) is not None}
    given = {tensor.role for tensor in node.parameters}
    if has & given or (given == {"scale"} and has):
        return _scaled_twice(before, node, prefix, editor)
    taken = tuple(replace(tensor, role=prefix + tensor.role) for tensor in node.parameters)
    return editor.absorb(replace(before, parameters=before.parameters + taken))


def _scaled_twice(before: Node, node: Node, prefix: str, editor: Editor) -> Node | str:
    """Caffe's Scale layer after a norm that got a scale and shift too on its way: only their product means anything."""
    scale = before.parameter(f"{prefix}scale")
    shift = before.parameter(f"{prefix}shift")
    by = node.parameter("scale")
    plus = node.parameter("shift")
    if scale is None or shift is None or by is None or plus is None:
        return node
    product = editor.derived(f"{scale.key}·{by.key}", _product, scale.key, by.key)
    total = editor.derived(f"{shift.key}·{by.key}+{plus.key}", _linear, shift.key, by.key, plus.key)
    changed = {scale.role: replace(scale, key=product), shift.role: replace(shift, key=total)}
    return editor.absorb(before.with_parameters(**changed))


def _after_layer_norm(before: Node, node: Node, editor: Editor) -> Node | str:
    if tuple(before.get("axes", ())) != (node.get("axis"),) or len(before.parameters) + len(node.parameters) > 2:
        return node
    return _taken(before, node, "", editor)


def _after_layer(before: Node, node: Node, editor: Editor) -> Node | str:
    if node.get("axis") != _channel_axis(before):
        return node
    if before.get("norm") is not None:
        return _taken(before, node, "norm_", editor)
    only_shift = [tensor.role for tensor in node.parameters] == ["shift"]
    if only_shift and before.parameter("bias") is None:
        bias = replace(node.parameters[0], role="bias")
        return editor.absorb(replace(before, parameters=(*before.parameters, bias)))
    return editor.absorb(_merged(before.with_attributes(norm="affine"), node))


def _merge_batch_norm(node: Node, editor: Editor) -> Node | str:
    before = editor.maker(node.inputs[0])
    fits = before.op in _LAYERS and before.get("norm") is None and editor.only_use(before.name)
    if not fits or _channel_axis(before) != min(1, len(node.shape) - 1):
        return node
    return editor.absorb(_merged(before.with_attributes(norm="batch", epsilon=node.get("epsilon", 0.0)), node))


def _merged(layer: Node, norm: Node) -> Node:
    taken = tuple(replace(tensor, role=f"norm_{tensor.role}") for tensor in norm.parameters)
    return replace(layer, parameters=layer.parameters + taken)


def _channel_axis(layer: Node) -> int:
    return 1 if layer.op == "conv" else len(layer.shape) - 1


def _after_reshape(before: Node, node: Node, editor: Editor) -> Node | str:
    """A scale or shift behind a reshape that leaves the last axis alone comes before it, so that it meets its layer."""
    layer = editor.maker(before.inputs[0])
    last = len(node.shape) - 1
    fits = layer.op == "dense" and editor.only_use(layer.name) and layer.shape[-1] == node.shape[-1]
    if not fits or node.get("axis") != last:
        return node
    scaled = replace(node, name=layer.name, inputs=(layer.name,), shape=layer.shape).with_attributes(
        axis=len(layer.shape) - 1
    )
    merged = _after_layer(layer, scaled, editor)
    return before.name if merged == layer.name else node


_AFTER: Final = {
    "reshape": _after_reshape,
    "affine": _after_affine,
    "batch_norm": _after_batch_norm,
    "group_norm": _after_batch_norm,
    "layer_norm": _after_layer_norm,
    "rms_norm": _after_layer_norm,
    "conv": _after_layer,
    "dense": _after_layer,
}
