"""Batch norms that a source wrote out in arithmetic are put together again, while their statistics are still apart.

Known forms, with m = scale / sqrt(variance + epsilon) in any form: x·m + (shift - mean·m), and (x - mean)·m.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.ir.shapes import aligned
from zoolens.findings.graph.passes.constants import parameter_of
from zoolens.findings.graph.passes.editor import Editor, rewrite

# Rank and channel axis of what is normalised, and what its axes then are. Raw graphs are read here, in either layout.
_LAYOUTS: Final = {(2, 1): "NC", (3, 1): "NCW", (4, 1): "NCHW", (4, 3): "NHWC", (5, 1): "NCDHW", (5, 4): "NDHWC"}


@dataclass(frozen=True)
class _Deviation:
    """The factor 1 / sqrt(variance + epsilon), times a scale if there is one."""

    variance: Parameter
    epsilon: float
    scale: Parameter | None = None


def restore_batch_norms(graph: Graph) -> Graph:
    return rewrite(graph, {"add": _linear, "mul": _centred, "div": _centred})


def _linear(node: Node, editor: Editor) -> Node | str:
    """Restores x·m + (shift - mean·m)."""
    for product_name, rest_name in _pairs(node):
        product = editor.made_by(product_name, "mul")
        rest = editor.made_by(rest_name, "sub")
        if product is None or rest is None or len(rest.inputs) != 2:
            continue
        shift = _tensor(rest.inputs[0], editor)
        inner = editor.made_by(rest.inputs[1], "mul")
        for x, factor in _pairs(product):
            deviation = _deviation(factor, editor)
            if deviation is None or inner is None or factor not in inner.inputs or shift is None:
                continue
            mean = next((_tensor(name, editor) for name in inner.inputs if name != factor), None)
            if mean is not None and editor.maker(x).shape == node.shape:
                return _batch_norm(node, x, mean, deviation, shift)
    return node


def _centred(node: Node, editor: Editor) -> Node | str:
    """Restores (x - mean)·m, or the same divided by the square root."""
    pairs = _pairs(node) if node.op == "mul" else [node.inputs] if len(node.inputs) == 2 else []
    for left, right in pairs:
        centred = editor.made_by(left, "sub")
        deviation = _deviation(right, editor) if node.op == "mul" else _root(right, editor)
        if centred is None or deviation is None or len(centred.inputs) != 2:
            continue
        mean = _tensor(centred.inputs[1], editor)
        if mean is not None and editor.maker(centred.inputs[0]).shape == node.shape:
            return _batch_norm(node, centred.inputs[0], mean, deviation, None)
    return node


def _batch_norm(node: Node, x: str, mean: Parameter, deviation: _Deviation, shift: Parameter | None) -> Node | str:
    axis = next((i for i, extent in enumerate(aligned(deviation.variance.shape, len(node.shape))) if extent != 1), 1)
    axes = _LAYOUTS.get((len(node.shape), axis))
    if axes is None:
        return node
    roles = {"scale": deviation.scale, "shift": shift, "mean": mean, "variance": deviation.variance}
    flat = tuple(Parameter(role, (tensor.size,), tensor.key) for role, tensor in roles.items() if tensor is not None)
    attributes = {"epsilon": deviation.epsilon}
    return replace(node, op="batch_norm", inputs=(x,), attributes=attributes, parameters=flat, axes=axes)


def _pairs(node: Node) -> list[tuple[str, ...]]:
    if len(node.inputs) == 2:
        return [node.inputs, node.inputs[::-1]]
    return []


def _tensor(name: str, editor: Editor) -> Parameter | None:
    return parameter_of(editor.maker(name))


def _deviation(name: str, editor: Editor) -> _Deviation | None:
    node = editor.maker(name)
    if node.op == "rsqrt":
        return _variance(node.inputs[0], editor)
    if node.op == "reciprocal" or (node.op == "div" and node.get("reverse") and node.get("scalar") == 1):
        return _root(node.inputs[0], editor)
    if node.op == "pow" and node.get("scalar") == -0.5:
        return _variance(node.inputs[0], editor)
    if node.op == "mul":
        for factor, scale in _pairs(node):
            deviation = _deviation(factor, editor)
            learned = _tensor(scale, editor)
            if deviation is not None and learned is not None and deviation.scale is None:
                return replace(deviation, scale=learned)
    if node.op == "div" and len(node.inputs) == 2:
        deviation = _root(node.inputs[1], editor)
        learned = _tensor(node.inputs[0], editor)
        return replace(deviation, scale=learned) if deviation is not None and learned is not None else None
    return None


def _root(name: str, editor: Editor) -> _Deviation | None:
    node = editor.maker(name)
    is_root = node.op == "sqrt" or (node.op == "pow" and node.get("scalar") == 0.5)
    return _variance(node.inputs[0], editor) if is_root else None


def _variance(name: str, editor: Editor) -> _Deviation | None:
    node = editor.maker(name)
    variance = _tensor(node.inputs[0], editor) if node.op == "add" and node.get("scalar") is not None else None
    return _Deviation(variance, float(node.get("scalar"))) if variance is not None else None
