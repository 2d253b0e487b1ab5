"""Convolutions over the parts of a value, whose outputs are put together, are one convolution with groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.order import settle_order

_CHANNELS: Final = 1


def join_grouped_convolutions(graph: Graph) -> Graph:
    """Works on canonical graphs. Only parts that are all of a value, in order, of one width and one setting are
    joined."""
    joined = rewrite(graph, {"concat": _joined})
    return joined if joined is graph else settle_order(joined)


def _joined(node: Node, editor: Editor) -> Node | str:
    layers = [editor.made_by(name, "conv") for name in node.inputs]
    convs = [layer for layer in layers if layer is not None and editor.only_use(layer.name)]
    if node.get("axis") != _CHANNELS or len(convs) < 2 or len(convs) != len(layers):
        return node
    source = _cut_value(convs, editor)
    if source is None or len({(layer.shape, _settings(layer)) for layer in convs}) != 1 or _share_weights(convs):
        return node
    first = convs[0]
    roles = [tensor.role for tensor in first.parameters]
    parameters = tuple(_together(role, convs, node.name, editor) for role in roles)
    groups = int(first.get("groups", 1)) * len(convs)
    grouped = replace(first, name=node.name, inputs=(source,), shape=node.shape, parameters=parameters)
    return grouped.with_attributes(groups=groups)


def _share_weights(layers: Sequence[Node]) -> bool:
    """Whether two have one kernel: no convolution with groups has the same weights in two of them by design."""
    kernels = [kernel.key for layer in layers if (kernel := layer.parameter("kernel")) and kernel.key]
    return len(set(kernels)) < len(kernels)


def _settings(layer: Node) -> tuple[object, ...]:
    tensors = [(tensor.role, tensor.shape) for tensor in layer.parameters]
    return tuple(sorted(layer.attributes.items())), tuple(tensors)


def _cut_value(convs: Sequence[Node], editor: Editor) -> str | None:
    """The value whose parts are given to the convolutions one after the other; None where that is not the case."""
    cuts = [editor.made_by(layer.inputs[0], "slice") for layer in convs]
    sources = {cut.inputs[0] if cut is not None and cut.get("axis") == _CHANNELS else None for cut in cuts}
    (source, *others) = sources
    if source is None or others:
        return None
    plain = [cut for cut in cuts if cut is not None and cut.get("step", 1) == 1]
    ends = [0, *(int(cut.get("stop")) for cut in plain)]
    in_order = [int(cut.get("start", 0)) for cut in plain] == ends[:-1]
    if in_order and ends[-1] == editor.maker(source).shape[_CHANNELS]:
        return source
    return None


def _together(role: str, layers: Sequence[Node], name: str, editor: Editor) -> Parameter:
    tensors = [tensor for layer in layers for tensor in layer.parameters if tensor.role == role]
    shape = (sum(tensor.shape[0] for tensor in tensors), *tensors[0].shape[1:])

    def joined(*values: Array) -> Array:
        pairs = zip(values, tensors, strict=True)
        return np.concatenate([array.reshape(tensor.shape) for array, tensor in pairs])

    key = editor.derived(f"{name}:{role}", joined, *(tensor.key for tensor in tensors))
    return Parameter(role, shape, key)
