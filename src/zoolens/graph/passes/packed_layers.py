"""Layers whose outputs are cut into parts become one layer for each part, as other sources write them.

Queries, keys and values of an attention are one layer in some libraries and three in others; both compute the same.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from zoolens.graph.model import Array, Graph, Node, Parameter
from zoolens.graph.passes.editor import Editor, rewrite
from zoolens.graph.passes.order import settle_order

Cut = tuple[int, int]


def split_packed_layers(graph: Graph) -> Graph:
    """Works on canonical graphs. Only layers that are cut as a whole, without gaps and overlaps, are split."""
    packed = {node.name for node in graph.nodes if node.op in ("dense", "conv") and _is_packed(node, graph)}
    if not packed:
        return graph

    def part(node: Node, editor: Editor) -> Node | str:
        return _part(node, editor) if node.inputs[0] in packed else node

    return settle_order(rewrite(graph, {"slice": part}))


def _is_packed(node: Node, graph: Graph) -> bool:
    users = graph.consumers[node.name]
    if node.name in graph.outputs or node.get("norm") is not None or node.get("groups", 1) != 1 or len(users) < 2:
        return False
    axis = 1 if node.op == "conv" else len(node.shape) - 1
    plain = all(user.op == "slice" and user.get("axis") == axis and user.get("step", 1) == 1 for user in users)
    cuts = sorted({_cut(user) for user in users}) if plain else []
    ends = [0, *(stop for _, stop in cuts)]
    return bool(cuts) and [start for start, _ in cuts] == ends[:-1] and ends[-1] == node.shape[axis]


def _cut(node: Node) -> Cut:
    return int(node.get("start", 0)), int(node.get("stop"))


def _part(node: Node, editor: Editor) -> Node:
    layer, cut = editor.maker(node.inputs[0]), _cut(node)
    parameters = tuple(_rows(tensor, cut, editor) for tensor in layer.parameters)
    source = f"{layer.source}[{cut[0]}:{cut[1]}]" if layer.source else ""
    return replace(
        node, op=layer.op, inputs=layer.inputs, attributes=layer.attributes, parameters=parameters, source=source
    )


def _rows(tensor: Parameter, cut: Cut, editor: Editor) -> Parameter:
    """The rows of a kernel or a bias that give one part of the output."""
    shape = (cut[1] - cut[0], *tensor.shape[1:])
    key = editor.derived(f"{tensor.key}[{cut[0]}:{cut[1]}]", partial(_taken, shape=tensor.shape, cut=cut), tensor.key)
    return replace(tensor, shape=shape, key=key)


def _taken(values: Array, *, shape: tuple[int, ...], cut: Cut) -> Array:
    return values.reshape(shape)[cut[0] : cut[1]]
