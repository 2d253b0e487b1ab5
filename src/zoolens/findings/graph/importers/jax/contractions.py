"""Products of JAX: `dot_general` with a learned tensor is a dense layer, one of two values is a product of matrices.

Any axes may be contracted, in any order and on either side: Equinox multiplies its kernels from the left, and the
attention of Flax contracts heads and widths together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from zoolens.findings.graph.importers.jax.walk import JaxCall, Leaf, Operand, without_ones


def dot(call: JaxCall) -> Operand:
    (left, right), (batch_left, batch_right) = call.settings["dimension_numbers"]
    if not batch_left:
        for place, axes, other in ((1, right, left), (0, left, right)):
            kernel = call.operands[place]
            if isinstance(kernel, Leaf):
                return _dense(call, kernel, 1 - place, tuple(map(int, axes)), tuple(map(int, other)))
    return _matmul(call, (left, right), (batch_left, batch_right))


def biased(call: JaxCall) -> Operand | None:
    """A bias with as many axes as the kernel of a dense layer has outputs: it is added before they are spread."""
    for value, bias in (call.operands, call.operands[::-1]):
        if isinstance(value, Leaf) or not isinstance(bias, Leaf) or not bias.learned:
            continue
        made = call.walk.maker(value)
        layer = call.walk.maker(made.inputs[0]) if made.op == "reshape" else made
        if layer.op != "dense" or made is layer or made.shape != call.shape:
            continue
        outputs = made.shape[len(layer.shape) - 1 :]
        keeps_rows = made.shape[: len(layer.shape) - 1] == layer.shape[:-1]
        if keeps_rows and without_ones(bias.values.shape) == without_ones(outputs):
            flat = Leaf(bias.values.reshape(-1), bias.key, bias.learned)
            total = call.add("add", layer.name, call.walk.node(flat), shape=layer.shape)
            return call.add("reshape", total)
    return None


def _dense(call: JaxCall, kernel: Leaf, place: int, axes: tuple[int, ...], contracted: tuple[int, ...]) -> Operand:
    """`place`: which operand is the value; `axes` of the kernel are contracted with `contracted` of the value."""
    given = call.given[1 - place]
    outputs = tuple(axis for axis in range(len(given)) if axis not in axes)
    width = prod(given[axis] for axis in axes)
    values = kernel.full(given).transpose((*outputs, *axes)).reshape(-1, width)
    shape = call.given[place]
    free = tuple(axis for axis in range(len(shape)) if axis not in contracted)
    value = _turned(call, call.value(place), (*free, *contracted), shape)
    extents = tuple(shape[axis] for axis in free)
    value = _shaped(call, value, (*extents, width))
    parameter = call.walk.parameter("kernel", Leaf(values, kernel.key, kernel.learned))
    made = call.add("dense", value, parameters=[parameter], shape=(*extents, len(values)))
    spread = tuple(given[axis] for axis in outputs)
    made = _shaped(call, made, (*extents, *spread))
    if place == 0:
        return made
    first = range(len(extents), len(extents) + len(spread))  # the kernel stood left: its axes come first
    return _turned(call, made, (*first, *range(len(extents))), (*extents, *spread))


def _matmul(call: JaxCall, contracted: tuple[Sequence[int], ...], batched: tuple[Sequence[int], ...]) -> Operand:
    """Brings both operands into the form (batch, rows, columns), of which the columns are contracted."""
    names, rows, free = [], [], []
    batch = tuple(call.given[0][axis] for axis in batched[0])
    for place in (0, 1):
        shape = call.given[place]
        inner = tuple(contracted[place])
        outer = tuple(batched[place])
        others = tuple(axis for axis in range(len(shape)) if axis not in (*inner, *outer))
        turned = _turned(call, call.value(place), (*outer, *others, *inner), shape)
        free.append(tuple(shape[axis] for axis in others))
        rows.append(prod(free[-1]))
        names.append(_shaped(call, turned, (*batch, rows[-1], prod(shape[axis] for axis in inner))))
    if _is_softmax(call, names[1]):  # attention is written with its weights on the left
        made = _product(call, names[1], names[0], (*batch, rows[1], rows[0]))
        count = len(batch)
        made = _turned(call, made, (*range(count), count + 1, count), (*batch, rows[1], rows[0]))
    else:
        made = _product(call, names[0], names[1], (*batch, rows[0], rows[1]))
    return _shaped(call, made, (*batch, *free[0], *free[1]))


def _is_softmax(call: JaxCall, name: str) -> bool:
    node = call.walk.maker(name)
    return node.op == "softmax" and node.get("axis") == len(node.shape) - 1


def _product(call: JaxCall, left: str, right: str, shape: tuple[int, ...]) -> str:
    """Values are columns in the product of attention: what was turned for it stands there as it was before."""
    before = call.walk.maker(right)
    count = len(shape) - 2
    swapped = (*range(count), count + 1, count)
    if before.op == "transpose" and before.get("perm")[-2:] == swapped[-2:]:
        perm = (*before.get("perm")[:-2], before.get("perm")[-1], before.get("perm")[-2])
        source = call.walk.builder.shapes[before.inputs[0]]
        return call.add("matmul", left, _turned(call, before.inputs[0], perm, source), shape=shape)
    if _is_softmax(call, left):
        turned = _turned(call, right, swapped, call.walk.builder.shapes[right])
        return call.add("matmul", left, turned, shape=shape)
    return call.add("matmul", left, right, shape=shape, transpose_b=True)


def _turned(call: JaxCall, name: str, perm: tuple[int, ...], shape: Sequence[int]) -> str:
    """The value with its axes in another order; two turns in a row are one, and none where nothing turns."""
    before = call.walk.maker(name)
    if before.op == "transpose":
        perm = tuple(before.get("perm")[axis] for axis in perm)
        name = before.inputs[0]
        shape = call.walk.builder.shapes[name]
    if perm == tuple(range(len(perm))):
        return name
    return call.add("transpose", name, perm=perm, shape=tuple(shape[axis] for axis in perm))


def _shaped(call: JaxCall, name: str, shape: tuple[int, ...]) -> str:
    if call.walk.builder.shapes[name] == shape:
        return name
    return call.add("reshape", name, shape=shape)
