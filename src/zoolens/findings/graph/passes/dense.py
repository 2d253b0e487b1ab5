"""Products with a learned matrix are dense layers; the order of a flatten before one moves into its kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape
from zoolens.findings.graph.passes.constants import parameter_of, transposed_key
from zoolens.findings.graph.passes.editor import Editor, rewrite


def name_dense(graph: Graph) -> Graph:
    return rewrite(graph, {"matmul": _matmul, "dense": _unordered})


def unjoin_rows(graph: Graph) -> Graph:
    """Dense layers between reshapes that only join rows and part them again: ONNX Runtime writes a product of more than
    two axes as a Gemm."""
    return rewrite(graph, {"reshape": _parted})


def _parted(node: Node, editor: Editor) -> Node | str:
    """The layer on the rows as they are parted behind it: the order of the numbers is the same."""
    layer = editor.made_by(node.inputs[0], "dense")
    if layer is None or len(layer.shape) != 2 or layer.shape[0] == 1 or not editor.only_use(layer.name):
        return node
    joined = editor.maker(layer.inputs[0])
    if joined.op not in ("reshape", "flatten") or len(node.shape) < 3 or node.shape[-1] != layer.shape[-1]:
        return node
    shape = (*node.shape[:-1], joined.shape[-1])
    rows = editor.emit("reshape", joined.inputs, shape, base=joined.name, source=joined.source)
    return replace(layer, name=node.name, inputs=(rows,), shape=node.shape)


def _matmul(node: Node, editor: Editor) -> Node | str:
    matrix = parameter_of(editor.maker(node.inputs[1]))
    if matrix is None or len(matrix.shape) != 2 or node.get("transpose_a"):
        return node
    if not node.get("transpose_b"):
        shape = matrix.shape
        key = editor.derived(transposed_key(matrix.key), lambda values: values.reshape(shape).T, matrix.key)
        matrix = Parameter("kernel", shape[::-1], key)
    kernel = replace(matrix, role="kernel")
    return replace(node, op="dense", inputs=node.inputs[:1], attributes={}, parameters=(kernel,))


def _unordered(node: Node, editor: Editor) -> Node | str:
    flat = editor.made_by(node.inputs[0], "flatten")
    kernel = node.parameter("kernel")
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
    maps = kernel.reshape(-1, *extents).transpose(0, *back)
    return np.ascontiguousarray(maps).reshape(kernel.shape)
