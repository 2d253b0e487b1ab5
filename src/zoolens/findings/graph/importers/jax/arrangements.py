"""JAX's primitives that only put numbers elsewhere: reshapes, transposes, slices, concatenations, paddings."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from zoolens.findings.graph.importers.jax.normalisations import kept, split_group_norm
from zoolens.findings.graph.importers.jax.walk import JaxCall, Leaf, Operand
from zoolens.findings.graph.ir.model import Shape
from zoolens.findings.graph.ir.vocabulary import ARITHMETIC, FUNCTIONS


def reshape(call: JaxCall) -> Operand:
    leaf = _arranged(call, lambda values: values.reshape(call.shape))
    before = None if leaf is not None else call.walk.maker(str(call.operands[0]))
    if before is not None and before.op == "reshape" and call.walk.builder.shapes[before.inputs[0]] == call.shape:
        return before.inputs[0]
    named = leaf or kept(call, call.operands[0], call.shape) or split_group_norm(call)
    return named or call.add("reshape", call.value())


def transpose(call: JaxCall) -> Operand:
    perm = tuple(int(axis) for axis in call.settings["permutation"])
    leaf = _arranged(call, lambda values: values.transpose(perm))
    if leaf is not None:
        return leaf
    before = call.walk.maker(call.value())
    if before.op == "transpose" and tuple(before.get("perm")[axis] for axis in perm) == tuple(range(len(perm))):
        return before.inputs[0]
    return call.add("transpose", call.value(), perm=perm)


def reversed_(call: JaxCall) -> Operand:
    value = call.value()
    for axis in call.settings["dimensions"]:
        value = call.add("gather", value, axis=int(axis), indices=tuple(reversed(range(call.shape[axis]))))
    return value


def broadcast(call: JaxCall) -> Operand:
    """New axes of extent 1 first, then those that are spread."""
    given = call.given[0]
    places = call.settings["broadcast_dimensions"]
    extents = [1] * len(call.shape)
    operand = call.operands[0]
    short = isinstance(operand, Leaf) and len(operand.values.shape) == len(given)  # it may not be spread yet
    for axis, place in enumerate(places):
        extents[place] = operand.values.shape[axis] if short and isinstance(operand, Leaf) else given[axis]
    if isinstance(operand, Leaf) and operand.number is not None:
        return Leaf(np.broadcast_to(operand.values.reshape(extents), call.shape), operand.key, operand.learned)
    if tuple(extents) == call.shape:
        leading = len(extents) - len(given)
        if extents[leading:] == list(given) and (isinstance(operand, Leaf) or operand in call.walk.static):
            return operand  # along the last axes, where a short operand lies anyway
    if isinstance(operand, Leaf) and operand.learned and operand.values.size == prod(extents):
        return Leaf(operand.values.reshape(extents), operand.key, operand.learned)  # operators spread it by themselves
    whole = kept(call, operand, tuple(extents)) or _reshaped_early(call, operand, tuple(extents))
    value = whole or call.value()
    if whole is None and tuple(extents) != given:
        value = call.add("reshape", value, shape=tuple(extents))
    return value if tuple(extents) == call.shape else call.add("expand", value)


def _reshaped_early(call: JaxCall, operand: Operand, shape: Shape) -> str | None:
    """What is computed number by number from one learned tensor is computed from the reshaped tensor instead.

    So the statistics of a norm keep their form wherever the program turns them towards the channels.
    """
    if isinstance(operand, Leaf) or operand not in call.walk.static:
        return None
    made = call.walk.maker(operand)
    leaf = call.walk.leaves.get(operand)
    if leaf is not None:
        if leaf.learned:
            return call.walk.node(Leaf(leaf.values.reshape(shape), leaf.key, leaf.learned))
        return None
    if len(made.inputs) != 1 or made.op not in FUNCTIONS | ARITHMETIC:
        return None
    inner = _reshaped_early(call, made.inputs[0], shape)
    if inner is None:
        return None
    return call.add(made.op, inner, shape=shape, **made.attributes)


def _arranged(call: JaxCall, arrange: Any) -> Leaf | None:
    """A leaf stays one where its numbers are only put into another order."""
    operand = call.operands[0]
    if not isinstance(operand, Leaf):
        return None
    return Leaf(arrange(operand.full(call.given[0])), operand.key, operand.learned)


def concatenate(call: JaxCall) -> Operand:
    values = [call.value(place) for place in range(len(call.operands))]
    return call.add("concat", *values, axis=int(call.settings["dimension"]))


def slice_(call: JaxCall) -> Operand:
    starts = call.settings["start_indices"]
    stops = call.settings["limit_indices"]
    steps = call.settings["strides"] or (1,) * len(starts)
    cuts = tuple(slice(*each) for each in zip(starts, stops, steps, strict=True))
    leaf = _arranged(call, lambda values: values[cuts])
    if leaf is not None:
        return leaf
    value = call.value()
    shape = list(call.given[0])
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        extent = len(range(start, stop, step))
        if extent != shape[axis]:
            shape[axis] = extent
            cut = {"axis": axis, "start": start, "stop": stop, "step": step if step > 1 else None}
            value = call.add("slice", value, shape=tuple(shape), **cut)
    return value


def tile(call: JaxCall) -> Operand:
    return call.add("tile", call.value(), repeats=tuple(int(times) for times in call.settings["reps"]))


def pad(call: JaxCall) -> Operand:
    widths = call.settings["padding_config"]
    filling = call.operands[1]
    number = filling.number if isinstance(filling, Leaf) else None
    if number is None or any(inner or low < 0 or high < 0 for low, high, inner in widths):
        return call.unknown()
    pads = (*(low for low, _, _ in widths), *(high for _, high, _ in widths))
    return call.add("pad", call.value(), pads=tuple(map(int, pads)), value=number or None)
