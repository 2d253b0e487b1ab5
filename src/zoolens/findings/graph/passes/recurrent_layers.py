"""Recurrent layers in one form: one node for each layer and direction, which has each gate's own tensors.

torch packs all layers, directions and gates of a network into one operator; Keras and Flax have a layer for each. A
layer that is fed a reversed sequence is one that runs from the end. Works on raw graphs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Shape, Value
from zoolens.findings.graph.ir.recurrent_gates import GATES, role
from zoolens.findings.graph.passes.editor import Editor, rewrite

_STEPS: Final = 1  # the axis of the steps
_TURN: Final = (1, 0, 2)  # exchanges steps and batch
_ACTIVATIONS: Final = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid"}


@dataclass(frozen=True)
class _Direction:
    """One layer in one direction: the value of its states, and what it was made of."""

    states: str
    node: Node


def split_recurrent_layers(graph: Graph) -> Graph:
    """Only nodes whose tensors lie as torch packs them are split; others stay as they are."""
    splitting = _Splitting()
    split = rewrite(graph, {"recurrent": splitting.layers, "output_of": splitting.final})
    return rewrite(split, {"recurrent_layer": _from_the_end, "gather": _once, "slice": _cut, "reshape": _shaped})


class _Splitting:
    def __init__(self) -> None:
        self._made: dict[str, tuple[Node, list[_Direction]]] = {}  # by the value that stands for the packed node

    def layers(self, node: Node, editor: Editor) -> Node | str:
        sequence = editor.maker(node.inputs[0])
        known = node.get("activations") is None or node.get("kind") == "rnn"
        projected = any(tensor.role == "projection" for tensor in node.parameters)
        if node.get("packing") != "torch" or len(sequence.shape) != 3 or projected or not known:
            return node
        value = sequence.name if node.get("batch_first") else _turned(sequence.name, node, editor)
        directions: list[_Direction] = []
        for layer in range(node.get("layers", 1)):
            made = list(_directions(node, layer, value, editor))
            directions += made
            value = _concat([each.states for each in made], 2, node, editor)
        result = value if node.get("batch_first") else _turned(value, node, editor)
        self._made[result] = (node, directions)
        return result

    def final(self, node: Node, editor: Editor) -> Node | str:
        """The states after the last step, of all layers and directions, or the cells."""
        if node.inputs[0] not in self._made:
            return node
        packed, directions = self._made[node.inputs[0]]
        ends = []
        for each in directions:
            values = each.states if node.get("index") == 1 else _emitted(each.node, editor, gives="cell")
            place = 0 if each.node.get("reverse") else each.node.shape[_STEPS] - 1
            end = _sliced(values, _STEPS, place, place + 1, packed, editor)
            ends.append(_turned(end, packed, editor))
        return _concat(ends, 0, packed, editor)


def _directions(node: Node, layer: int, value: str, editor: Editor) -> Iterator[_Direction]:
    count = 2 if node.get("bidirectional") else 1
    each = len(node.parameters) // (count * node.get("layers", 1))
    shape = (*editor.maker(value).shape[:2], node.get("hidden"))
    for way in range(count):
        cell = layer * count + way
        states = [_state(name, cell, node, editor) for name in node.inputs[1:]]
        attributes = {
            "kind": node.get("kind"),
            "hidden": node.get("hidden"),
            "reverse": True if way else None,
            "activation": _ACTIVATIONS[node.get("activations")[0]] if node.get("activations") else None,
            "given": node.get("given"),
        }
        known = {key: setting for key, setting in attributes.items() if setting is not None}
        parameters = tuple(_gates(node.get("kind"), node.parameters[cell * each : (cell + 1) * each], editor))
        made = replace(
            node, op="recurrent_layer", inputs=(value, *states), shape=shape, attributes=known, parameters=parameters,
            source=_source(node, layer, way),
        )  # fmt: skip
        yield _Direction(_emitted(made, editor), made)


def _emitted(node: Node, editor: Editor, **attributes: Value) -> str:
    """The node under a name of its own."""
    return editor.emit(
        node.op, node.inputs, node.shape, base=node.name, source=node.source, parameters=node.parameters,
        **{**node.attributes, **attributes},
    )  # fmt: skip


def _concat(parts: list[str], axis: int, node: Node, editor: Editor) -> str:
    if len(parts) == 1:
        return parts[0]
    shapes = [editor.maker(part).shape for part in parts]
    shape = (*shapes[0][:axis], sum(each[axis] for each in shapes), *shapes[0][axis + 1 :])
    return editor.emit("concat", parts, shape, base=node.name, source=node.source, axis=axis)


def _cut(node: Node, editor: Editor) -> Node | str:
    """A cut of states that were put together is one of its parts, or the cuts of all of them."""
    made = editor.maker(node.inputs[0])
    axis, start, stop = (node.get(name) for name in ("axis", "start", "stop"))
    if node.get("step", 1) != 1:
        return node
    if _is_flip(made) and made.get("axis") == axis and stop - start == 1:
        extent = made.shape[axis]
        return replace(node.with_attributes(start=extent - stop, stop=extent - start), inputs=made.inputs)
    if not _joins_states(made, editor):
        return node
    if made.get("axis") != axis:
        parts = [_sliced(name, axis, start, stop, node, editor) for name in made.inputs]
        return _concat(parts, made.get("axis"), node, editor)
    begin = 0
    for name in made.inputs:
        end = begin + editor.maker(name).shape[axis]
        if begin <= start and stop <= end:
            whole = (start, stop) == (begin, end)
            if whole:
                return name
            return _sliced(name, axis, start - begin, stop - begin, node, editor)
        begin = end
    return node


def _shaped(node: Node, editor: Editor) -> Node | str:
    """An axis of extent 1 is dropped in all states that were put together."""
    made = editor.maker(node.inputs[0])
    if not _joins_states(made, editor) or len(made.shape) != len(node.shape) + 1:
        return node
    axis = made.get("axis")
    dropped = [each for each in range(len(made.shape)) if each != axis and made.shape[each] == 1]
    fitting = next((each for each in dropped if _without(made.shape, each) == node.shape), None)
    if fitting is None:
        return node
    parts = [
        editor.emit("reshape", (name,), _without(editor.maker(name).shape, fitting), base=node.name)
        for name in made.inputs
    ]
    return _concat(parts, axis - (fitting < axis), node, editor)


def _joins_states(node: Node, editor: Editor) -> bool:
    return node.op == "concat" and all(_is_of_states(editor.maker(name), editor) for name in node.inputs)


def _is_of_states(node: Node, editor: Editor) -> bool:
    while node.op in ("slice", "reshape", "transpose"):
        node = editor.maker(node.inputs[0])
    return node.op == "recurrent_layer"


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _source(node: Node, layer: int, way: int) -> str:
    parts = [f"layer {layer}"] if node.get("layers", 1) > 1 else []
    parts += [("forward", "backward")[way]] if node.get("bidirectional") else []
    return f"{node.source} ({', '.join(parts)})" if parts else node.source


def _gates(kind: str, tensors: tuple[Parameter, ...], editor: Editor) -> Iterator[Parameter]:
    """The rows of each gate in each packed tensor."""
    for tensor in tensors:
        count = len(GATES[kind])
        rows = tensor.shape[0] // count
        for number, gate in enumerate(GATES[kind]):
            take = partial(_rows, shape=tensor.shape, start=number * rows, stop=(number + 1) * rows)
            key = editor.derived(f"{tensor.key}[{gate}]", take, tensor.key)
            yield Parameter(role(gate, tensor.role), (rows, *tensor.shape[1:]), key)


def _rows(values: Array, *, shape: Shape, start: int, stop: int) -> Array:
    return values.reshape(shape)[start:stop]


def _state(name: str, cell: int, node: Node, editor: Editor) -> str:
    """One cell's part of the states to begin with, which torch keeps in one tensor."""
    _, count, width = editor.maker(name).shape
    part = name if editor.maker(name).shape[0] == 1 else _sliced(name, 0, cell, cell + 1, node, editor)
    return editor.emit("reshape", (part,), (count, width), base=node.name)


def _sliced(name: str, axis: int, start: int, stop: int, node: Node, editor: Editor) -> str:
    shape = editor.maker(name).shape
    extents = (*shape[:axis], stop - start, *shape[axis + 1 :])
    return editor.emit("slice", (name,), extents, base=node.name, axis=axis, start=start, stop=stop)


def _turned(name: str, node: Node, editor: Editor) -> str:
    """Batch and steps change places."""
    made = editor.maker(name)
    if made.op == "transpose" and made.get("perm") == _TURN:
        return made.inputs[0]
    steps, count, width = made.shape
    return editor.emit("transpose", (name,), (count, steps, width), base=node.name, perm=_TURN)


def _is_flip(node: Node) -> bool:
    if node.op != "gather":
        return False
    extent = node.shape[node.get("axis")]
    return bool(node.get("indices") == tuple(reversed(range(extent))))


def _once(node: Node, editor: Editor) -> Node | str:
    """What is reversed twice is as before."""
    inner = editor.maker(node.inputs[0])
    twice = _is_flip(node) and _is_flip(inner) and inner.get("axis") == node.get("axis")
    return inner.inputs[0] if twice else node


def _from_the_end(node: Node, editor: Editor) -> Node | str:
    """A layer that is fed a reversed sequence runs the other way; its states are then the reversed ones."""
    fed = editor.maker(node.inputs[0])
    if not _is_flip(fed) or fed.get("axis") != _STEPS or "mask" in node.get("given", ()):
        return node
    turned = replace(
        node.with_attributes(reverse=None if node.get("reverse") else True), inputs=(fed.inputs[0], *node.inputs[1:])
    )
    places = tuple(reversed(range(node.shape[_STEPS])))
    attributes: dict[str, Value] = {"axis": _STEPS, "indices": places}
    return replace(node, op="gather", inputs=(_emitted(turned, editor),), parameters=(), attributes=attributes)
