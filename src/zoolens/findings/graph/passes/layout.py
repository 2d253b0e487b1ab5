"""Every value whose axes are known is rewritten to (N, C, *spatial), with all that refers to its axes.

Nothing is deleted on suspicion: each value has a permutation from the source's order to ours, and a transpose becomes
whatever remains between its two sides, mostly nothing. Operators that need the source's order (reshape, matmul) get
it back through an explicit transpose, unless only axes of extent 1 would move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from zoolens.findings.graph.ir.model import Graph, Node, Parameter, Shape, nested_tuples
from zoolens.findings.graph.ir.vocabulary import FIXED, REDUCTIONS
from zoolens.findings.graph.passes.axis_labels import CANONICAL, KEEPING, Labels, canonical_order, labels
from zoolens.findings.graph.passes.editor import Editor

Order = tuple[int, ...]


def unify_layout(graph: Graph) -> Graph:
    known = labels(graph)
    if not known:
        return graph
    return _Layout(graph, known).rewritten()


class _Layout:
    def __init__(self, graph: Graph, known: Labels) -> None:
        self.graph = graph
        self.known = known
        self.editor = Editor(graph)

    def rewritten(self) -> Graph:
        for node in self.graph.nodes:
            result = self._rewrite(node)
            if isinstance(result, Node) and result.axes:
                result = replace(result, axes="")
            self.editor.accept(self.editor.renewed(node), result)
        return self.editor.finished()

    def order(self, name: str) -> Order:
        """The axis of the source at each place in our order of a value."""
        axes = self.known.get(name)
        if axes:
            return canonical_order(axes)
        return _unmoved(len(self.graph.by_name[name].shape))

    def _rewrite(self, node: Node) -> Node | str:
        if not node.inputs:
            return self._leaf(node)
        if node.op == "transpose":
            return self._transpose(node)
        if node.op in KEEPING:
            return self._keeping(node)
        if node.op in REDUCTIONS:
            return self._reducing(node)
        if node.op == "dense" and len(node.shape) > 2 and self.known.get(node.name, "").endswith("C"):
            return self._dense_on_map(node)
        if node.op == "unknown":
            return replace(node, shape=arranged(node.shape, self.order(node.name)), inputs=self._current(node))
        if node.op in ("reshape", "flatten"):
            return self._reshape(node)
        return self._in_source_order(node)

    def _current(self, node: Node) -> tuple[str, ...]:
        return tuple(self.editor.current(name) for name in node.inputs)

    def _leaf(self, node: Node) -> Node:
        order = self.order(node.name)
        shape = arranged(node.shape, order)
        if node.op in FIXED and moves(node.shape, order):
            node = self._arranged_leaf(node, order)
        value = node.parameter("value")
        node = node if value is None else node.with_parameters(value=replace(value, shape=shape))
        return replace(node, shape=shape)

    def _arranged_leaf(self, node: Node, order: Order) -> Node:
        value = node.get("value")
        if value is not None:
            return node.with_attributes(value=nested_tuples(np.reshape(value, node.shape).transpose(order).tolist()))
        keys = (self._turned_key(tensor, node.shape, order) for tensor in node.parameters)
        turned = (replace(tensor, key=key) for tensor, key in zip(node.parameters, keys, strict=True))
        return replace(node, parameters=tuple(turned))

    def _transpose(self, node: Node) -> Node | str:
        before = self.order(node.inputs[0])
        after = self.order(node.name)
        perm = node.get("perm")
        return self._turned(node, tuple(before.index(perm[axis]) for axis in after))

    def _turned(self, node: Node, perm: Order) -> Node | str:
        (source,) = self._current(node)
        shape = self.editor.maker(source).shape
        if perm == tuple(range(len(perm))):
            return source
        if not moves(shape, perm):
            return replace(node, op="reshape", inputs=(source,), shape=arranged(shape, perm), attributes={})
        return replace(node.with_attributes(perm=perm), inputs=(source,), shape=arranged(shape, perm))

    def _keeping(self, node: Node) -> Node:
        order = self.order(node.name)
        wanted = canonical_order(node.axes) if node.axes and len(node.axes) != len(node.shape) else order
        inputs = tuple([self._in_order(name, wanted, node.name) for name in node.inputs])
        shape = arranged(node.shape, order)
        same = inputs == node.inputs and shape == node.shape
        changed = node if same else replace(node, inputs=inputs, shape=shape)
        return self._with_axes(changed, order)

    def _in_order(self, name: str, wanted: Order, base: str) -> str:
        """The value as it takes part in an operator whose axes have this order; short ones are aligned at the end."""
        current = self.editor.current(name)
        shape = self.graph.by_name[name].shape
        have = self.order(name)
        missing = len(wanted) - len(shape)
        if missing > 0 and shape and wanted != tuple(range(len(wanted))):
            current = self._as_source(name, base)
            full = (1,) * missing + shape
            return self._move(self._shaped(current, full, base), wanted, base)
        if missing or have == wanted:
            return current
        return self._move(current, tuple(have.index(axis) for axis in wanted), base)

    def _as_source(self, name: str, base: str) -> str:
        """The value in the source's own order."""
        have = self.order(name)
        return self._move(self.editor.current(name), tuple(have.index(axis) for axis in range(len(have))), base)

    def _move(self, current: str, perm: Order, base: str) -> str:
        shape = self.editor.maker(current).shape
        if perm == tuple(range(len(perm))):
            return current
        if not moves(shape, perm):
            return self._shaped(current, arranged(shape, perm), base)
        return self.editor.emit("transpose", (current,), arranged(shape, perm), base=base, perm=perm)

    def _shaped(self, current: str, shape: Shape, base: str) -> str:
        if self.editor.maker(current).shape == shape:
            return current
        return self.editor.emit("reshape", (current,), shape, base=base)

    def _with_axes(self, node: Node, order: Order) -> Node:
        changes: dict[str, Any] = {}
        axes = node.get("axes")
        if order == _unmoved(len(order)) and (axes is None or node.op == "roll" or list(axes) == sorted(axes)):
            return node
        if node.get("axis") is not None:
            changes["axis"] = order.index(node.get("axis"))
        if node.get("axes") is not None:
            moved = [order.index(axis) for axis in node.get("axes")]
            changes["axes"] = tuple(moved) if node.op == "roll" else tuple(sorted(moved))
        if node.op == "pad":
            pads = node.get("pads")
            rank = len(order)
            changes["pads"] = (*(pads[axis] for axis in order), *(pads[rank + axis] for axis in order))
        if node.op == "tile":
            changes["repeats"] = arranged(node.get("repeats"), order)
        node = node.with_attributes(**changes) if changes else node
        return self._with_parameters(node, order)

    def _with_parameters(self, node: Node, order: Order) -> Node:
        """Parameters that lie along several axes follow them."""
        if node.op == "prelu" or (node.op in ("layer_norm", "rms_norm") and len(node.get("axes", ())) > 1):
            changed = tuple(self._turned_parameter(tensor, node, order) for tensor in node.parameters)
            return replace(node, parameters=changed)
        return node

    def _turned_parameter(self, tensor: Parameter, node: Node, order: Order) -> Parameter:
        rank = len(tensor.shape)
        tail = [axis - (len(order) - rank) for axis in order if axis >= len(order) - rank]
        if rank < 2 or not moves(tensor.shape, tail):
            return replace(tensor, shape=arranged(tensor.shape, tail)) if rank > 1 else tensor
        return replace(tensor, key=self._turned_key(tensor, tensor.shape, tail), shape=arranged(tensor.shape, tail))

    def _turned_key(self, tensor: Parameter, shape: Shape, order: Sequence[int]) -> str:
        """The key of a tensor's values in this shape with their axes in another order."""
        suffix = "".join(map(str, order))
        return self.editor.derived(
            f"{tensor.key}@{suffix}", lambda values: np.asarray(values).reshape(shape).transpose(order), tensor.key
        )

    def _reducing(self, node: Node) -> Node | str:
        before = self.order(node.inputs[0])
        axes = tuple(sorted(before.index(axis) for axis in node.get("axes")))
        changed = replace(node, inputs=self._current(node)).with_attributes(axes=axes)
        if node.get("keep", False):
            return self._settled(changed, before)
        gone = set(node.get("axes"))
        left = [axis for axis in range(len(before)) if axis not in gone]
        return self._settled(changed, tuple(left.index(axis) for axis in before if axis not in gone))

    def _settled(self, node: Node, natural: Order) -> Node | str:
        """The node, whose result has the order `natural`, followed by what brings it to the order its value has."""
        wanted = self.order(node.name)
        shape = arranged(node.shape, natural)
        if natural == wanted:
            return replace(node, shape=shape)
        made = self.editor.emit(
            node.op, node.inputs, shape, base=node.name, source=node.source, parameters=node.parameters,
            **node.attributes,
        )  # fmt: skip
        return self._move(made, tuple(natural.index(axis) for axis in wanted), node.name)

    def _dense_on_map(self, node: Node) -> Node:
        order = self.order(node.name)
        ones = (1,) * (len(node.shape) - 2)
        source = self._in_order(node.inputs[0], order, node.name)
        kernel = node.parameter("kernel")
        assert kernel is not None  # a dense layer has one
        wide = node.with_parameters(kernel=replace(kernel, shape=(*kernel.shape, *ones)))
        shape = arranged(node.shape, order)
        return replace(wide, op="conv", inputs=(source,), shape=shape, attributes={"kernel": ones})

    def _reshape(self, node: Node) -> Node | str:
        source = node.inputs[0]
        axes = self.known.get(source, "")
        shape = self.graph.by_name[source].shape
        flat = len(node.shape) == 2 and node.shape[0] == shape[0] and len(shape) > 2
        if flat and axes.startswith("N") and set(axes) == set("NC" + CANONICAL[-(len(axes) - 2) :]):
            order = axes if moves(shape, self.order(source)) else None
            flattened = replace(node, op="flatten", inputs=self._current(node), attributes={})
            return flattened.with_attributes(order=order)
        return self._in_source_order(node)

    def _in_source_order(self, node: Node) -> Node | str:
        inputs = tuple(self._as_source(name, node.name) for name in node.inputs)
        changed = replace(node, inputs=inputs)
        order = self.order(node.name)
        if node.op in ("reshape", "expand") and not moves(node.shape, order):
            return replace(changed, shape=arranged(node.shape, order))
        return self._settled(changed, tuple(range(len(order))))


@cache
def _unmoved(rank: int) -> Order:
    return tuple(range(rank))


def arranged(values: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    return tuple(values[axis] for axis in order)


def moves(shape: Sequence[int], perm: Sequence[int]) -> bool:
    """Whether a permutation changes the order of elements, and not only the place of axes of extent 1."""
    real = [axis for axis in perm if shape[axis] != 1]
    return real != sorted(real)
