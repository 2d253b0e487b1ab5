"""Arithmetic on two operands: a constant one becomes the bias of the layer before, an affine or a scalar."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.translation import OperatorCall
from zoolens.findings.graph.ir.model import Array, Shape
from zoolens.findings.graph.ir.shapes import aligned, broadcast


def combine(call: OperatorCall, op: str) -> None:
    """All inputs of the call, by an operator that works element by element."""
    values = [call.needed(i) for i in range(len(call.inputs))]
    if len(values) == 2:
        left, right = values
        if isinstance(left, str) and isinstance(right, Constant):
            done = _with_constant(call, op, left, right, reverse=False)
        elif isinstance(left, Constant) and isinstance(right, str):
            done = _with_constant(call, op, right, left, reverse=True)
        else:
            done = False
        if done:
            return
    _chain(call, op, len(values))


def _chain(call: OperatorCall, op: str, count: int) -> None:
    """Sum, Max and Min take any number of values."""
    total = call.live(0)
    for position in range(1, count):
        total = call.add(op, (total, call.live(position)))
    call.answer(total)


def _with_constant(call: OperatorCall, op: str, live: str, constant: Constant, *, reverse: bool) -> bool:
    shape = call.state.shape(live)
    if broadcast([shape, constant.shape]) != shape:
        return False
    number = _only_number(constant, op)
    if number is not None:
        call.emit(op, (live,), scalar=number, reverse=(reverse and op in ("sub", "div", "pow")) or None)
        return True
    axis = only_axis(shape, constant.shape)
    if axis is None or op not in ("add", "sub", "mul", "div") or not constant.is_float:
        return False
    _affine(call, op, live, constant.reshaped((constant.size,)), axis, reverse=reverse)
    return True


def _only_number(constant: Constant, op: str) -> float | None:
    """A constant that is one number, or a limit or power that is the same everywhere."""
    if constant.size == 1:
        return constant.values().item()  # type: ignore[no-any-return]
    if op not in ("maximum", "minimum", "pow") or not constant.is_small or not constant.size:
        return None
    values = constant.values().ravel()
    return values[0].item() if (values == values[0]).all() else None


def only_axis(shape: Shape, constant: Shape) -> int | None:
    """The one axis along which a constant differs."""
    extents = aligned(constant, len(shape))
    axes = [axis for axis, extent in enumerate(extents) if extent > 1]
    if len(axes) == 1 and shape[axes[0]] == extents[axes[0]]:
        return axes[0]
    return None


def _affine(call: OperatorCall, op: str, live: str, constant: Constant, axis: int, *, reverse: bool) -> None:
    if reverse and op in ("sub", "div"):  # c - x = -x + c, c / x = 1/x · c
        live = call.add("neg" if op == "sub" else "reciprocal", (live,))
        op = {"sub": "add", "div": "mul"}[op]
    if op == "add" and _became_bias(call, live, constant, axis):
        return
    if op in ("sub", "div"):
        change: Callable[[Array], Array] = np.negative if op == "sub" else np.reciprocal
        constant = constant.changed("negated" if op == "sub" else "inverse", change)
    role = "shift" if op in ("add", "sub") else "scale"
    call.emit("affine", (live,), parameters=(call.state.parameter(role, constant),), axis=axis)


def _became_bias(call: OperatorCall, live: str, constant: Constant, axis: int) -> bool:
    """Whether the addition is the bias of the layer before it, whose only user this is."""
    node = call.state.node(live)
    fits = axis == (len(node.shape) - 1 if node.op == "dense" else node.axes.find("C"))
    used_once = all(
        call.state.uses[name] == 1 for name in call.inputs if call.state.values.get(name) == live
    )  # a layer used twice keeps its own value
    if (
        node.op not in ("dense", "conv", "conv_transpose")
        or node.parameter("bias") is not None
        or not fits
        or not used_once
    ):
        return False
    parameters = (*node.parameters, call.state.parameter("bias", constant))
    call.state.builder.amend(live, parameters=parameters)
    call.answer(live)
    return True


def prelu(call: OperatorCall, channel: int, axes: str) -> None:
    """A slope for every channel (a vector), one for all, or one for each number of a shape that is broadcast; `axes`
    where it lies along the `channel` axis."""
    slope = call.constant(1)
    if slope is None:
        call.unknown("with a computed slope")
        return
    shape = call.shape(0)
    axis = only_axis(shape, slope.shape)
    if axis == channel or slope.size == 1:
        slope = slope.reshaped((slope.size,))
    else:  # a vector would be taken for the channels'
        slope = slope.reshaped(((1,) * len(shape) + slope.shape)[-max(len(shape) - 1, 2) :])
    parameters = (call.state.parameter("alpha", slope),)
    call.emit("prelu", (call.live(0),), parameters=parameters, axes=axes if axis == channel else "")
