"""Keras operations (`keras.ops`, `x + y`, `x[:, 0]`) as nodes: `OPERATIONS`, by the name of the operation's class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from zoolens.findings.graph.importers.keras.attention import dot_product_attention, einsum
from zoolens.findings.graph.importers.keras.keras_activations import activation, known, plain_name
from zoolens.findings.graph.importers.keras.walk import (
    Handler,
    KerasCall,
    KerasWalk,
    Ref,
    concatenate,
    plain,
    positive,
    scalar_of,
)


def operation(name: str) -> Handler | None:
    """The handler of an operation, or None where it is not known."""
    handler = OPERATIONS.get(name)
    if handler is None and known(plain_name(name)):
        return lambda walk, call: activation(walk, call, call.value, plain_name(name), call.target)
    return handler


def _binary(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        left = call.argument(0, "x1")
        right = call.argument(1, "x2")
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


def _transpose(walk: KerasWalk, call: KerasCall) -> str:
    rank = len(call.shape)
    given = call.target.axes
    perm = tuple(reversed(range(rank))) if given is None else tuple(positive(axis, rank) for axis in given)
    return walk.add("transpose", call, perm=perm)


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
    if tuple(shape) == call.shape:
        return value
    return walk.add("reshape", call, inputs=[value])


def _bounds(part: Any, extent: int) -> tuple[int, int, int]:
    if isinstance(part, int):
        start = positive(part, extent)
        return start, start + 1, 1
    return slice(*(part.start, part.stop, part.step)).indices(extent)


def _compared(kind: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        left = call.argument(0, "x1")
        right = call.argument(1, "x2")
        if isinstance(left, Ref) and isinstance(right, Ref):
            return walk.add("compare", call, inputs=[left.name, right.name], kind=kind)
        number = scalar_of(right)
        if not isinstance(left, Ref) or number is None:
            return walk.unknown(call)
        return walk.add("compare", call, inputs=[left.name], kind=kind, scalar=number)

    return handle


def _not(walk: KerasWalk, call: KerasCall) -> str:
    return walk.add("compare", call, kind="==", scalar=0.0)


def _cast(walk: KerasWalk, call: KerasCall) -> str:
    """Numbers become truth values by a comparison; other conversions change nothing here."""
    node = walk.builder.node(call.value)
    while node.op in ("reshape", "expand", "cast"):
        node = walk.builder.node(node.inputs[0])
    if str(call.target.dtype) == "bool" and node.op not in ("compare", "minimum", "maximum"):
        return walk.add("compare", call, kind="!=", scalar=0.0)
    return walk.add("cast", call)


def _where(walk: KerasWalk, call: KerasCall) -> str:
    names = []
    for place, name in enumerate(("condition", "x1", "x2")):
        given = call.argument(place, name)
        number = None if isinstance(given, Ref) else scalar_of(given)
        if number is None and not isinstance(given, Ref):
            return walk.unknown(call)
        names.append(given.name if isinstance(given, Ref) else walk.number(call, number or 0.0))
    return walk.add("where", call, inputs=names)


def _flip(walk: KerasWalk, call: KerasCall) -> str:
    rank = len(call.shape)
    value = call.value
    given = call.target.axis
    axes = range(rank) if given is None else [given] if isinstance(given, int) else given
    for axis in (positive(each, rank) for each in axes):
        places = tuple(reversed(range(call.shape[axis])))
        value = walk.add("gather", call, inputs=[value], axis=axis, indices=places)
    return value


def _repeat(walk: KerasWalk, call: KerasCall) -> str:
    times = call.target.repeats
    axis = call.target.axis
    if not isinstance(times, int) or axis is None:
        return walk.unknown(call)
    shape = walk.shape(call.value)
    axis = positive(axis, len(shape))
    apart = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    value = walk.add("reshape", call, shape=apart)
    value = walk.add("expand", call, inputs=[value], shape=(*shape[: axis + 1], times, *shape[axis + 1 :]))
    return walk.add("reshape", call, inputs=[value])


def _take(walk: KerasWalk, call: KerasCall) -> str:
    """Rows of a learned table are an embedding; places that are known are a gather."""
    table = call.argument(0, "x")
    places = call.argument(1, "indices")
    axis = call.target.axis
    if isinstance(table, Ref) and isinstance(places, int) and axis is not None:
        return walk.add("gather", call, inputs=[table.name], axis=positive(axis, len(walk.shape(table.name))),
                        indices=places)  # fmt: skip
    if not isinstance(table, Ref) or not isinstance(places, Ref):
        return walk.unknown(call)
    learned = walk.builder.node(table.name)
    if learned.op == "parameter" and len(learned.shape) == 2 and axis == 0:
        tensor = replace(learned.parameters[0], role="table")
        return walk.add("embedding", call, inputs=[places.name], parameters=[tensor])
    return walk.add("gather", call, inputs=[table.name, places.name], axis=positive(axis or 0, len(learned.shape)))


def _swapped(walk: KerasWalk, call: KerasCall) -> str:
    rank = len(call.shape)
    perm = list(range(rank))
    a = positive(call.target.axis1, rank)
    b = positive(call.target.axis2, rank)
    perm[a], perm[b] = b, a
    return walk.add("transpose", call, perm=tuple(perm))


def _stack(walk: KerasWalk, call: KerasCall) -> str:
    axis = positive(call.target.axis, len(call.shape))
    shape = (*call.shape[:axis], 1, *call.shape[axis + 1 :])
    parts = [walk.add("reshape", call, inputs=[value], shape=shape) for value in call.values]
    if len(parts) > 1:
        return walk.add("concat", call, inputs=parts, axis=axis)
    return parts[0]


def _roll(walk: KerasWalk, call: KerasCall) -> str:
    shift = call.target.shift
    axis = call.target.axis
    if not isinstance(shift, int) or not isinstance(axis, int):
        return walk.unknown(call)
    return walk.add("roll", call, axes=(positive(axis, len(call.shape)),), shifts=(shift,))


def split(walk: KerasWalk, call: KerasCall) -> list[str]:
    """Cuts along one axis, as the shapes of the results say."""
    axis = positive(call.target.axis, len(call.shape))
    start, parts = 0, []
    for shape in call.shapes:
        stop = start + shape[axis]
        parts.append(walk.add("slice", call, shape=shape, axis=axis, start=start, stop=stop))
        start = stop
    return parts


def unstack(walk: KerasWalk, call: KerasCall) -> list[str]:
    """One part for each place of an axis, without that axis."""
    whole = walk.shape(call.value)
    axis = positive(call.target.axis, len(whole))
    parts = []
    for place, shape in enumerate(call.shapes):
        extents = (*whole[:axis], 1, *whole[axis + 1 :])
        cut = walk.add("slice", call, shape=extents, axis=axis, start=place, stop=place + 1)
        parts.append(walk.add("reshape", call, inputs=[cut], shape=shape))
    return parts


# Operations with several results, by the name of their class.
SEVERAL: Final = {"Split": split, "ArraySplit": split, "Unstack": unstack}

OPERATIONS: Final[dict[str, Handler]] = {
    "Add": _binary("add"),
    "Subtract": _binary("sub"),
    "Multiply": _binary("mul"),
    "Divide": _binary("div"),
    "TrueDivide": _binary("div"),
    "Power": _binary("pow"),
    "Maximum": _binary("maximum"),
    "Minimum": _binary("minimum"),
    "Matmul": plain("matmul"),
    "Mean": _reduction("mean"),
    "Sum": _reduction("sum"),
    "Max": _reduction("max"),
    "Min": _reduction("min"),
    "Any": _reduction("max"),
    "All": _reduction("min"),
    **{name: plain(op) for name, op in (
        ("Absolute", "abs"), ("Abs", "abs"), ("Negative", "neg"), ("Exp", "exp"), ("Log", "log"), ("Sqrt", "sqrt"),
        ("Rsqrt", "rsqrt"), ("Square", "square"), ("Erf", "erf"), ("Sin", "sin"), ("Cos", "cos"),
        ("Reciprocal", "reciprocal"), ("Reshape", "reshape"), ("Squeeze", "reshape"), ("ExpandDims", "reshape"),
        ("BroadcastTo", "expand"), ("StopGradient", "identity"), ("Copy", "identity"),
    )},
    "Transpose": _transpose,
    "Concatenate": concatenate,
    "Pad": _pad,
    "GetItem": _get_item,
    **{name: _compared(kind) for name, kind in (
        ("Equal", "=="), ("NotEqual", "!="), ("Less", "<"), ("LessEqual", "<="), ("Greater", ">"),
        ("GreaterEqual", ">="),
    )},
    **dict.fromkeys(("LogicalAnd", "BitwiseAnd"), _binary("minimum")),
    **dict.fromkeys(("LogicalOr", "BitwiseOr"), _binary("maximum")),
    "LogicalNot": _not,
    "Cast": _cast,
    "Where": _where,
    "Flip": _flip,
    "Repeat": _repeat,
    "Take": _take,
    "Swapaxes": _swapped,
    "Stack": _stack,
    "Roll": _roll,
    "Einsum": einsum,
    "DotProductAttention": dot_product_attention,
}  # fmt: skip
