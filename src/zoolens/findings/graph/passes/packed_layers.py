"""Layers whose outputs are cut into parts become one layer for each part, as other sources write them.

Queries, keys and values of an attention are one layer in some libraries and three in others; both compute the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape
from zoolens.findings.graph.passes.editor import Editor, rewrite
from zoolens.findings.graph.passes.order import settle_order
from zoolens.findings.graph.passes.tokens import unify_tokens


@dataclass(frozen=True)
class _Part:
    """What one slice takes: features of a layer, in the shape in which they were cut, with its axes in this order."""

    layer: str
    features: tuple[int, ...]
    shape: Shape
    perm: tuple[int, ...]


def split_packed_layers(graph: Graph) -> Graph:
    """Works on canonical graphs. Only layers that are cut as a whole, without gaps and overlaps, are split."""
    parts = _parts(graph)
    if not parts:
        return graph

    def part(node: Node, editor: Editor) -> Node | str:
        if node.name in parts:
            return _separate(node, parts[node.name], editor)
        return node

    return settle_order(unify_tokens(rewrite(graph, {"slice": part})))


def packed_layers(graph: Graph) -> int:
    """How many layers `split_packed_layers` would split."""
    return len({part.layer for part in _parts(graph).values()})


def _parts(graph: Graph) -> Mapping[str, _Part]:
    layers = (node for node in graph.nodes if node.op in ("dense", "conv"))
    return {name: part for node in layers for name, part in _cuts(node, graph).items()}


def _cuts(layer: Node, graph: Graph) -> dict[str, _Part]:
    """The parts by the slices that take them; none where slices leave a gap, overlap, or are not all that is used."""
    if layer.name in graph.outputs or layer.get("norm") is not None or layer.get("groups", 1) != 1:
        return {}
    shape, perm, last = _view(layer, graph)
    users = graph.consumers[last]
    if len(users) < 2 or last in graph.outputs or any(user.op != "slice" or user.get("step", 1) != 1 for user in users):
        return {}
    parts = {user.name: _part(layer, user, shape, perm) for user in users}
    found = {name: part for name, part in parts.items() if part is not None}
    taken = sorted(chain.from_iterable({part.features for part in found.values()}))
    whole = taken == list(range(layer.shape[_axis(layer)]))
    return found if whole and len(found) == len(users) else {}


def _view(layer: Node, graph: Graph) -> tuple[Shape, tuple[int, ...], str]:
    """The shape in which the output of a layer is cut, the order of its axes, and the value that is cut. Parts may lie
    beside each other for every head: (tokens, heads, 3, width)."""
    shape = layer.shape
    last = layer.name
    user = graph.sole_consumer(layer.name)
    if layer.op == "dense" and user is not None and user.op == "reshape" and user.shape[: len(shape) - 1] == shape[:-1]:
        shape = user.shape
        last = user.name
        user = graph.sole_consumer(user.name)
    if layer.op == "dense" and user is not None and user.op == "transpose":
        return shape, tuple(user.get("perm")), user.name
    return shape, tuple(range(len(shape))), last


def _axis(layer: Node) -> int:
    return 1 if layer.op == "conv" else len(layer.shape) - 1


def _part(layer: Node, cut: Node, shape: Shape, perm: tuple[int, ...]) -> _Part | None:
    axis = perm[int(cut.get("axis"))]
    first = _axis(layer)
    if axis < first or (layer.op == "conv" and axis > first):
        return None
    start = int(cut.get("start", 0))
    stop = int(cut.get("stop"))
    outer = shape[:first]
    inner = shape[first:] if layer.op == "dense" else shape[first : first + 1]
    numbered = np.arange(layer.shape[first]).reshape(inner)
    taken = numbered.take(range(start, stop), axis=axis - first)
    behind = shape[first + 1 :] if layer.op == "conv" else ()
    features = tuple(int(number) for number in taken.reshape(-1))
    return _Part(layer.name, features, (*outer, *taken.shape, *behind), perm)


def _separate(node: Node, part: _Part, editor: Editor) -> Node:
    layer = editor.maker(part.layer)
    parameters = tuple(_rows(tensor, part.features, editor) for tensor in layer.parameters)
    axis = _axis(layer)
    name = f"[{part.features[0]}:{part.features[-1] + 1}]"
    shape = (*layer.shape[:axis], len(part.features), *layer.shape[axis + 1 :])
    source = f"{layer.source}{name}" if layer.source else ""
    own = replace(
        node,
        op=layer.op,
        inputs=layer.inputs,
        shape=shape,
        attributes=layer.attributes,
        parameters=parameters,
        source=source,
    )
    in_order = part.perm == tuple(range(len(part.perm)))
    if part.shape == shape and in_order:
        return own
    value = editor.emit(
        own.op, own.inputs, shape, base=node.name, source=source, parameters=parameters, **layer.attributes
    )
    arranged = editor.emit("reshape", (value,), part.shape, base=node.name) if part.shape != shape else value
    if in_order:
        return replace(node, op="reshape", inputs=(value,), attributes={})
    return replace(node, op="transpose", inputs=(arranged,), attributes={"perm": part.perm})


def _rows(tensor: Parameter, features: tuple[int, ...], editor: Editor) -> Parameter:
    """The rows of a kernel or a bias that give one part of the output."""
    shape = (len(features), *tensor.shape[1:])
    start = features[0]
    stop = features[-1] + 1
    spread = f"/{len(features)}" if stop - start != len(features) else ""
    taken = partial(_taken, shape=tensor.shape, features=features)
    return replace(tensor, shape=shape, key=editor.derived(f"{tensor.key}[{start}:{stop}{spread}]", taken, tensor.key))


def _taken(values: Array, *, shape: tuple[int, ...], features: tuple[int, ...]) -> Array:
    return values.reshape(shape)[list(features)]
