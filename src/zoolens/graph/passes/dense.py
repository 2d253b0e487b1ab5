"""Products with a learned matrix are dense layers; the order of a flatten before one moves into its kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zoolens.graph.model import Array, Graph, Node, Parameter, Shape
from zoolens.graph.passes.constants import parameter_of
from zoolens.graph.passes.editor import Editor, rewrite


def name_dense(graph: Graph) -> Graph:
    return rewrite(graph, {"matmul": _matmul, "dense": _unordered})


def _matmul(node: Node, editor: Editor) -> Node | str:
    matrix = parameter_of(editor.maker(node.inputs[1]))
    if matrix is None or len(matrix.shape) != 2 or node.get("transpose_a"):
        return node
    if not node.get("transpose_b"):
        shape = matrix.shape
        key = editor.derived(f"{matrix.key}:transposed", lambda values: values.reshape(shape).T, matrix.key)
        matrix = Parameter("kernel", shape[::-1], key)
    kernel = replace(matrix, role="kernel")
    return replace(node, op="dense", inputs=node.inputs[:1], attributes={}, parameters=(kernel,))


def _unordered(node: Node, editor: Editor) -> Node | str:
    flat, kernel = editor.made_by(node.inputs[0], "flatten"), node.parameter("kernel")
    order = flat.get("order") if flat is not None else None
    if flat is None or kernel is None or order is None:
        return node
    shape = editor.maker(flat.inputs[0]).shape

    def moved(values: Array) -> Array:
        return reordered(values.reshape(kernel.shape), shape, order)

    key = editor.derived(f"{kernel.key}@{order}", moved, kernel.key)
    plain = editor.emit("flatten", flat.inputs, flat.shape, base=flat.name, source=flat.source)
    return replace(node.with_parameters(kernel=replace(kernel, key=key)), inputs=(plain,))


def reordered(kernel: Array, shape: Shape, order: str) -> Array:
    """The kernel's columns, from those of a map flattened in `order` to those of (C, *spatial)."""
    names = "NC" + "DHW"[-(len(shape) - 2) :]
    extents = [shape[names.index(name)] for name in order[1:]]
    back = [1 + order[1:].index(name) for name in names[1:]]
    return np.ascontiguousarray(kernel.reshape(-1, *extents).transpose(0, *back)).reshape(kernel.shape)
