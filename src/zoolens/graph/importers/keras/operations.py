"""Keras operations (`keras.ops`, `x + y`, `x[:, 0]`) as nodes: `OPERATIONS`, by the name of the operation's class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from zoolens.graph.importers.keras.activations import activation, known, plain_name
from zoolens.graph.importers.keras.walk import KerasCall, KerasWalk, Ref, positive, scalar_of

Handler = Callable[[KerasWalk, KerasCall], str]


def operation(name: str) -> Handler | None:
    """The handler of an operation, or None where it is not known."""
    handler = OPERATIONS.get(name)
    if handler is None and known(plain_name(name)):
        return lambda walk, call: activation(walk, call, call.value, plain_name(name), call.target)
    return handler


def _binary(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        left, right = call.argument(0, "x1"), call.argument(1, "x2")
        if isinstance(left, Ref) and isinstance(right, Ref):
            return walk.add(op, call, inputs=[left.name, right.name])
        number = scalar_of(right if isinstance(left, Ref) else left)
        if number is None:
            return walk.unknown(call)
        reverse = True if not isinstance(left, Ref) and op in ("sub", "div", "pow") else None
        return walk.add(op, call, scalar=number, reverse=reverse)

    return handle


def _reduction(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        rank = len(walk.shape(call.value))
        given = call.target.axis
        every = range(rank) if given is None else [given] if isinstance(given, int) else given
        reduced = tuple(sorted(positive(axis, rank) for axis in every))
        return walk.add(op, call, axes=reduced, keep=bool(call.target.keepdims))

    return handle


def _plain(op: str) -> Handler:
    return lambda walk, call: walk.add(op, call)


def _transpose(walk: KerasWalk, call: KerasCall) -> str:
    rank = len(call.shape)
    given = call.target.axes
    perm = tuple(reversed(range(rank))) if given is None else tuple(positive(axis, rank) for axis in given)
    return walk.add("transpose", call, perm=perm)


def _concatenate(walk: KerasWalk, call: KerasCall) -> str:
    return walk.add("concat", call, axis=positive(call.target.axis, len(call.shape)))


def _pad(walk: KerasWalk, call: KerasCall) -> str:
    """Translates `np.pad`, which has one pair of widths for each axis."""
    target = call.target
    mode = {"constant": "constant", "reflect": "reflect", "edge": "edge"}.get(getattr(target, "mode", "constant"))
    widths = getattr(target, "pad_width", None)
    if mode is None or widths is None:
        return walk.unknown(call)
    every = widths * len(call.shape) if len(widths) == 1 else widths
    begins, ends = zip(*every, strict=True)
    value = scalar_of(call.argument(1, "constant_values", 0.0)) or 0.0
    return walk.add("pad", call, pads=tuple(map(int, (*begins, *ends))), mode=mode, value=value)


def _get_item(walk: KerasWalk, call: KerasCall) -> str:
    """Basic indexing: numbers and slices with positive steps; the rest is unknown."""
    key = call.argument(1, "key")
    parts = list(key) if isinstance(key, list | tuple) else [key]
    shape = list(walk.shape(call.value))
    value = call.value
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - len(parts) + 1)
    if not all(isinstance(part, int | slice) for part in parts):
        return walk.unknown(call)
    for axis, part in enumerate(parts):
        start, stop, step = _bounds(part, shape[axis])
        if step < 1:
            return walk.unknown(call)
        extent = len(range(start, stop, step))
        if extent != shape[axis]:
            shape[axis] = extent
            cut = {"axis": axis, "start": start, "stop": stop, "step": step if step > 1 else None}
            value = walk.add("slice", call, inputs=[value], shape=shape, **cut)
    return value if tuple(shape) == call.shape else walk.add("reshape", call, inputs=[value])


def _bounds(part: Any, extent: int) -> tuple[int, int, int]:
    if isinstance(part, int):
        start = positive(part, extent)
        return start, start + 1, 1
    return slice(*(part.start, part.stop, part.step)).indices(extent)


OPERATIONS: Final[dict[str, Handler]] = {
    "Add": _binary("add"),
    "Subtract": _binary("sub"),
    "Multiply": _binary("mul"),
    "Divide": _binary("div"),
    "TrueDivide": _binary("div"),
    "Power": _binary("pow"),
    "Maximum": _binary("maximum"),
    "Minimum": _binary("minimum"),
    "Matmul": _plain("matmul"),
    "Mean": _reduction("mean"),
    "Sum": _reduction("sum"),
    "Max": _reduction("max"),
    "Min": _reduction("min"),
    **{name: _plain(op) for name, op in (
        ("Absolute", "abs"), ("Abs", "abs"), ("Negative", "neg"), ("Exp", "exp"), ("Log", "log"), ("Sqrt", "sqrt"),
        ("Rsqrt", "rsqrt"), ("Square", "square"), ("Erf", "erf"), ("Sin", "sin"), ("Cos", "cos"),
        ("Reciprocal", "reciprocal"), ("Reshape", "reshape"), ("Squeeze", "reshape"), ("ExpandDims", "reshape"),
        ("BroadcastTo", "expand"), ("Cast", "cast"), ("StopGradient", "identity"), ("Copy", "identity"),
    )},
    "Transpose": _transpose,
    "Concatenate": _concatenate,
    "Pad": _pad,
    "GetItem": _get_item,
}  # fmt: skip
