"""Norms that a JAX program writes out: variances in their several forms, and norms over groups of channels.

Flax computes a variance as mean(x²) - mean(x)², and the groups of a group norm by spreading their statistics over the
channels; Equinox splits the channels into groups. The statistics of layer norms then have one form, which a pass of
the graph knows; group norms get their name here, where the layout is still known.
"""

from __future__ import annotations

from typing import Final

from zoolens.findings.graph.importers.jax.walk import JaxCall, Leaf, Operand
from zoolens.findings.graph.ir.model import Node, Shape
from zoolens.findings.graph.ir.vocabulary import REDUCTIONS

_SPREADING: Final = ("reshape", "expand")


def kept(call: JaxCall, operand: Operand, shape: Shape) -> str | None:
    """A reduction whose axes come back with an extent of 1 keeps them; None where it is something else."""
    made = None if isinstance(operand, Leaf) else call.walk.maker(operand)
    if made is None or made.op not in REDUCTIONS or made.get("keep"):
        return None
    if shape != _kept_shape(call, made):
        return None
    return call.add(made.op, *made.inputs, axes=tuple(made.get("axes")), keep=True, shape=shape)


def _kept_shape(call: JaxCall, reduction: Node) -> Shape:
    before = call.walk.builder.shapes[reduction.inputs[0]]
    axes = reduction.get("axes")
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(before))


def variance(call: JaxCall, operand: Operand) -> str | None:
    """The variance in its one form, mean((x - mean(x))²), where the value is one; else None."""
    made = None if isinstance(operand, Leaf) else call.walk.maker(operand)
    if made is None:
        return None
    if made.op == "mean" and call.walk.maker(made.inputs[0]).op == "square":
        return made.name  # a maximum with 0 changes nothing of it
    if made.op != "sub" or len(made.inputs) != 2:
        return None
    squares, square = (call.walk.maker(name) for name in made.inputs)
    inner, mean = (call.walk.maker(node.inputs[0]) if node.inputs else node for node in (squares, square))
    fits = squares.op == "mean" and square.op == "square" and inner.op == "square" and mean.op == "mean"
    if not fits or inner.inputs != mean.inputs or squares.get("axes") != mean.get("axes"):
        return None
    (x,) = mean.inputs
    centre = call.add("mean", x, axes=tuple(mean.get("axes")), keep=True, shape=_kept_shape(call, mean))
    centred = call.add("sub", x, centre, shape=call.walk.builder.shapes[x])
    squared = call.add("square", centred, shape=call.walk.builder.shapes[x])
    return call.add("mean", squared, axes=tuple(squares.get("axes")), keep=squares.get("keep"), shape=made.shape)


def product(call: JaxCall) -> Operand | None:
    """A product that ends a norm: its scale is taken out of the factor, and a norm over groups gets its name."""
    left, right = call.operands
    if isinstance(left, Leaf) or isinstance(right, Leaf):
        return None
    for value, factor in ((left, right), (right, left)):
        scaled = _scaled_root(call, factor)
        root, scale = scaled if scaled is not None else (factor, None)
        norm = _spread_norm(call, value, root)
        if norm is None and scale is not None and call.walk.builder.shapes[value] == call.shape:
            norm = call.add("mul", value, root)
        if norm is not None:
            return call.add("mul", norm, scale) if scale is not None else norm
    return None


def _scaled_root(call: JaxCall, name: str) -> tuple[str, str] | None:
    """The inverse root of a value and the learned scale that it is multiplied with."""
    made = call.walk.maker(name)
    if made.op != "mul" or len(made.inputs) != 2 or name in call.walk.static:
        return None
    for root, scale in (made.inputs, made.inputs[::-1]):
        if scale in call.walk.static and call.walk.maker(root).op == "rsqrt":
            return root, scale
    return None


def _spread_norm(call: JaxCall, value: str, root: str) -> str | None:
    """(x - mean) / √(variance + ε) with the statistics of groups, spread over the channels, which come last."""
    centred = call.walk.maker(value)
    inverse = call.walk.maker(root)
    under = call.walk.maker(inverse.inputs[0]) if inverse.op == "rsqrt" else inverse
    if centred.op != "sub" or len(centred.inputs) != 2 or under.op != "add" or under.get("scalar") is None:
        return None
    x = centred.inputs[0]
    mean, spread = _before_spreading(call, centred.inputs[1])
    squares, spread_too = _before_spreading(call, under.inputs[0])
    if mean.op != "mean" or squares.op != "mean" or not spread or spread != spread_too:
        return None
    split = call.walk.maker(mean.inputs[0])
    axes = tuple(mean.get("axes"))
    shape = call.walk.builder.shapes[x]
    *outer, groups, size = split.shape
    if split.op != "reshape" or split.inputs != (x,) or (*outer, groups * size) != shape or len(shape) not in (3, 4, 5):
        return None
    by_group = axes == (*range(1, len(outer)), len(split.shape) - 1) and tuple(squares.get("axes")) == axes
    centre = call.walk.maker(squares.inputs[0])
    same = centre.op == "square" and _is_centred(call, centre.inputs[0], split.name, axes)
    if not by_group or not same or (spread != ((groups, size),) and size > 1):
        return None
    layout = {3: "NWC", 4: "NHWC", 5: "NDHWC"}[len(shape)]
    return call.add("group_norm", x, axes=layout, groups=groups, epsilon=float(under.get("scalar")), shape=shape)


def _before_spreading(call: JaxCall, name: str) -> tuple[Node, tuple[tuple[int, int], ...]]:
    """The value before it was reshaped and spread, and over which extents: (number, times) for each spreading."""
    node = call.walk.maker(name)
    spread = []
    while node.op in _SPREADING:
        inner = call.walk.maker(node.inputs[0])
        if node.op == "expand":
            spread.append((inner.shape[-2] if len(inner.shape) > 1 else 1, node.shape[-1]))
        node = inner
    return node, tuple(spread)


def _is_centred(call: JaxCall, name: str, x: str, axes: tuple[int, ...]) -> bool:
    node = call.walk.maker(name)
    if node.op != "sub" or len(node.inputs) != 2 or node.inputs[0] != x:
        return False
    mean = call.walk.maker(node.inputs[1])
    return mean.op == "mean" and mean.inputs == (x,) and tuple(mean.get("axes")) == axes


def split_group_norm(call: JaxCall) -> str | None:
    """A norm over groups that the channels were split into; `call` is the reshape that joins them again."""
    operand = call.operands[0]
    made = None if isinstance(operand, Leaf) else call.walk.maker(operand)
    if made is None or made.op != "mul" or len(made.inputs) != 2:
        return None
    for value, root in (made.inputs, made.inputs[::-1]):
        inverse = call.walk.maker(root)
        under = call.walk.maker(inverse.inputs[0]) if inverse.op == "rsqrt" else inverse
        centred = call.walk.maker(value)
        if under.op != "add" or under.get("scalar") is None or centred.op != "sub":
            continue
        split = call.walk.maker(centred.inputs[0])
        squares = call.walk.maker(under.inputs[0])
        axes = tuple(range(2, len(split.shape)))
        if split.op != "reshape" or squares.op != "mean" or not _is_centred(call, value, split.name, axes):
            continue
        square = call.walk.maker(squares.inputs[0])
        same = square.op == "square" and square.inputs == (value,) and tuple(squares.get("axes")) == axes
        before = call.walk.builder.shapes[split.inputs[0]]
        if same and before == call.shape and _splits_channels(before, split.shape):
            layout = {3: "NCW", 4: "NCHW", 5: "NCDHW"}[len(before)]
            return call.add(
                "group_norm", split.inputs[0], axes=layout, groups=split.shape[1], epsilon=float(under.get("scalar"))
            )
    return None


def _splits_channels(whole: Shape, split: Shape) -> bool:
    return (
        len(whole) in (3, 4, 5)
        and len(split) == len(whole) + 1
        and split[0] == whole[0]
        and split[1] * split[2] == whole[1]
        and split[3:] == whole[2:]
    )
