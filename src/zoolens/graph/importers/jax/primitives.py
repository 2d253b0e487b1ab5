"""JAX's primitives as nodes of our vocabulary: `PRIMITIVES` has one small function for each kind."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.graph.importers.jax.contractions import biased, dot
from zoolens.graph.importers.jax.lookups import gather
from zoolens.graph.importers.jax.normalisations import kept, product, split_group_norm, variance
from zoolens.graph.importers.jax.walk import Handler, JaxCall, Leaf, Operand
from zoolens.graph.model import Shape
from zoolens.graph.vocabulary import ARITHMETIC, FUNCTIONS

_SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}


def _same(call: JaxCall) -> Operand:
    return call.operands[0]


def _converted(call: JaxCall) -> Operand:
    """A conversion between real types changes nothing here; one that would cut off fractions stays unknown."""
    kind = np.dtype(call.settings["new_dtype"]).kind
    if kind == "b" and call.kinds[0] != "b":
        return call.add("compare", call.value(), kind="!=", scalar=0.0)
    cuts = kind in "iu" and call.kinds[0] not in "iub" and not _is_rounded(call)
    return call.unknown() if cuts else call.operands[0]


def _is_rounded(call: JaxCall) -> bool:
    operand = call.operands[0]
    return not isinstance(operand, Leaf) and call.walk.maker(operand).op in ("compare", "floor", "ceil")


def _divided(call: JaxCall) -> Operand:
    """Whole numbers lose their fractions, which the division of the vocabulary does not do."""
    return _QUOTIENT(call) if call.kinds[0] not in "iu" else call.unknown()


def _one(op: str) -> Handler:
    return lambda call: call.add(op, call.value())


def _two(op: str, *, ordered: bool = False) -> Handler:
    def handle(call: JaxCall) -> Operand:
        left, right = call.operands
        for place, (number, other) in enumerate(((right, left), (left, right))):
            value = number.number if isinstance(number, Leaf) else None
            if value is not None and (not isinstance(other, Leaf) or other.learned) and call.given[place] == call.shape:
                named = _named(call, op, other, value, reverse=place == 1 and ordered)
                return named if named is not None else _scalar(call, op, other, value, place == 1 and ordered)
        if op == "div" and _is_softmax(call):
            return _softmax(call)
        named_layer = {"add": biased, "mul": product}.get(op, lambda _: None)(call)
        if named_layer is not None:
            return named_layer
        values = [call.walk.node(operand) for operand in call.operands]  # operators spread short operands by themselves
        known = [call.walk.builder.shapes[value] for value in values]
        return call.add(op, *values, shape=np.broadcast_shapes(*known))

    return handle


def _maximum(call: JaxCall) -> Operand:
    """A variance is never below 0, so that a maximum with 0 leaves it as it is."""
    for number, other in (call.operands, call.operands[::-1]):
        if isinstance(number, Leaf) and number.number == 0:
            value = variance(call, other)
            if value is not None:
                return value
    return _two("maximum")(call)


def _scalar(call: JaxCall, op: str, other: Operand, value: float, reverse: bool) -> Operand:
    """Learned numbers times 1 or divided by it stay leaves: so Equinox debiases a norm that never saw a batch."""
    if isinstance(other, Leaf) and value == 1 and op in ("mul", "div") and not reverse:
        return other
    return call.add(op, call.walk.node(other), scalar=value, reverse=reverse or None)


def _named(call: JaxCall, op: str, other: Operand, value: float, *, reverse: bool) -> str | None:
    """A sum that is divided by the number of its terms is a mean, or an average pool."""
    if op not in ("div", "mul") or reverse or isinstance(other, Leaf):
        return None
    count = value if op == "div" else 1 / value if value else 0.0
    made = call.walk.maker(other)
    if made.op == "sum":
        before = call.walk.builder.shapes[made.inputs[0]]
        terms = prod(before[axis] for axis in made.get("axes"))
        keep = made.get("keep")
        return call.add("mean", *made.inputs, axes=made.get("axes"), keep=keep) if _about(terms, count) else None
    if made.op != "mul" or len(made.inputs) != 1:
        return None
    pool = call.walk.maker(made.inputs[0])
    return pool.name if pool.op == "avg_pool" and _about(made.get("scalar"), count) else None


def _about(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * abs(a)


def _is_softmax(call: JaxCall) -> bool:
    """Whether exp(x - max(x)) is divided by its own sum, over one axis."""
    return _softmax_of(call) is not None


def _softmax_of(call: JaxCall) -> tuple[str, int] | None:
    top, total = call.operands
    if isinstance(top, Leaf) or isinstance(total, Leaf):
        return None
    powers, summed = call.walk.maker(top), call.walk.maker(_through(call, total))
    if powers.op != "exp" or summed.op != "sum" or summed.inputs != (top,) or len(summed.get("axes")) != 1:
        return None
    centred = call.walk.maker(powers.inputs[0])
    if centred.op != "sub" or len(centred.inputs) != 2:
        return None
    x, largest = centred.inputs
    most = call.walk.maker(_through(call, largest))
    fits = most.op == "max" and most.inputs == (x,) and most.get("axes") == summed.get("axes")
    return (x, int(summed.get("axes")[0])) if fits else None


def _through(call: JaxCall, name: str) -> str:
    """The value before reshapes, and before a maximum with minus infinity, which changes nothing."""
    while True:
        node = call.walk.maker(name)
        idle = node.op == "maximum" and node.get("scalar") is not None and node.get("scalar") == -np.inf
        if node.op not in ("reshape", "expand", "identity") and not idle:
            return name
        name = node.inputs[0]


def _softmax(call: JaxCall) -> str:
    operand = _softmax_of(call)
    assert operand is not None
    return call.add("softmax", operand[0], axis=operand[1])


def _integer_power(call: JaxCall) -> str:
    power = int(call.settings["y"])
    if power == 2:
        return call.add("square", call.value())
    return call.add("reciprocal", call.value()) if power == -1 else call.add("pow", call.value(), scalar=float(power))


def _erfc(call: JaxCall) -> str:
    inner = call.add("erf", call.value())
    return call.add("sub", inner, scalar=1.0, reverse=True)


def _log1p(call: JaxCall) -> str:
    return call.add("log", call.add("add", call.value(), scalar=1.0))


def _expm1(call: JaxCall) -> str:
    return call.add("sub", call.add("exp", call.value()), scalar=1.0)


def _compare(kind: str) -> Handler:
    def handle(call: JaxCall) -> Operand:
        right = call.operands[1]
        number = right.number if isinstance(right, Leaf) else None
        if number is not None:
            return call.add("compare", call.value(0), kind=kind, scalar=number)
        return call.add("compare", call.value(0), call.value(1), kind=kind)

    return handle


def _select(call: JaxCall) -> Operand:
    """JAX names the case of False first."""
    if len(call.operands) != 3:
        return call.unknown()
    choice = call.operands[0]
    if isinstance(choice, Leaf) and not choice.learned and len(np.unique(choice.values)) == 1:
        return call.operands[2] if choice.values.reshape(-1)[0] else call.operands[1]
    return call.add("where", call.value(0), call.value(2), call.value(1))


def _reduction(op: str) -> Handler:
    return lambda call: call.add(op, call.value(), axes=tuple(int(axis) for axis in call.settings["axes"]))


def _clamp(call: JaxCall) -> Operand:
    low, _, high = call.operands
    ends = [end.number if isinstance(end, Leaf) else None for end in (low, high)]
    if None in ends:
        return call.unknown()
    return call.add("clip", call.value(1), low=ends[0], high=ends[1])


def _reshape(call: JaxCall) -> Operand:
    leaf = _arranged(call, lambda values: values.reshape(call.shape))
    before = None if leaf is not None else call.walk.maker(str(call.operands[0]))
    if before is not None and before.op == "reshape" and call.walk.builder.shapes[before.inputs[0]] == call.shape:
        return before.inputs[0]
    named = leaf or kept(call, call.operands[0], call.shape) or split_group_norm(call)
    return named or call.add("reshape", call.value())


def _transpose(call: JaxCall) -> Operand:
    perm = tuple(int(axis) for axis in call.settings["permutation"])
    leaf = _arranged(call, lambda values: values.transpose(perm))
    if leaf is not None:
        return leaf
    before = call.walk.maker(call.value())
    if before.op == "transpose" and tuple(before.get("perm")[axis] for axis in perm) == tuple(range(len(perm))):
        return before.inputs[0]
    return call.add("transpose", call.value(), perm=perm)


def _reversed(call: JaxCall) -> Operand:
    value = call.value()
    for axis in call.settings["dimensions"]:
        value = call.add("gather", value, axis=int(axis), indices=tuple(reversed(range(call.shape[axis]))))
    return value


def _logical(op: str) -> Handler:
    """Truth values; other whole numbers are combined bit by bit, which the vocabulary has no word for."""
    return lambda call: call.add(op, call.value(0), call.value(1)) if call.kinds == "bb" else call.unknown()


def _not(call: JaxCall) -> Operand:
    return call.add("compare", call.value(), kind="==", scalar=0.0) if call.kinds == "b" else call.unknown()


def _broadcast(call: JaxCall) -> Operand:
    """New axes of extent 1 first, then those that are spread."""
    given, places = call.given[0], call.settings["broadcast_dimensions"]
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
    made, leaf = call.walk.maker(operand), call.walk.leaves.get(operand)
    if leaf is not None:
        return call.walk.node(Leaf(leaf.values.reshape(shape), leaf.key, leaf.learned)) if leaf.learned else None
    if len(made.inputs) != 1 or made.op not in FUNCTIONS | ARITHMETIC:
        return None
    inner = _reshaped_early(call, made.inputs[0], shape)
    return None if inner is None else call.add(made.op, inner, shape=shape, **made.attributes)


def _arranged(call: JaxCall, arrange: Any) -> Leaf | None:
    """A leaf stays one where its numbers are only put into another order."""
    operand = call.operands[0]
    if not isinstance(operand, Leaf):
        return None
    return Leaf(arrange(operand.full(call.given[0])), operand.key, operand.learned)


def _concatenate(call: JaxCall) -> Operand:
    values = [call.value(place) for place in range(len(call.operands))]
    return call.add("concat", *values, axis=int(call.settings["dimension"]))


def _slice(call: JaxCall) -> Operand:
    starts, stops = call.settings["start_indices"], call.settings["limit_indices"]
    steps = call.settings["strides"] or (1,) * len(starts)
    cuts = tuple(slice(*each) for each in zip(starts, stops, steps, strict=True))
    leaf = _arranged(call, lambda values: values[cuts])
    if leaf is not None:
        return leaf
    value, shape = call.value(), list(call.given[0])
    for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
        extent = len(range(start, stop, step))
        if extent != shape[axis]:
            shape[axis] = extent
            cut = {"axis": axis, "start": start, "stop": stop, "step": step if step > 1 else None}
            value = call.add("slice", value, shape=tuple(shape), **cut)
    return value


def _tile(call: JaxCall) -> Operand:
    return call.add("tile", call.value(), repeats=tuple(int(times) for times in call.settings["reps"]))


def _pad(call: JaxCall) -> Operand:
    widths = call.settings["padding_config"]
    filling = call.operands[1]
    number = filling.number if isinstance(filling, Leaf) else None
    if number is None or any(inner or low < 0 or high < 0 for low, high, inner in widths):
        return call.unknown()
    pads = (*(low for low, _, _ in widths), *(high for _, high, _ in widths))
    return call.add("pad", call.value(), pads=tuple(map(int, pads)), value=number or None)


def _axes_name(rank: int, features: int) -> str:
    spatial = _SPATIAL.get(rank - 2, "")
    if not spatial:
        return ""
    return f"NC{spatial}" if features == 1 else f"N{spatial}C" if features == rank - 1 else ""


def _conv(call: JaxCall) -> Operand:
    kernel, numbers = call.operands[1], call.settings["dimension_numbers"]
    rank, spec = len(call.shape), numbers.rhs_spec
    same = numbers.lhs_spec == numbers.out_spec and numbers.out_spec[0] == 0
    axes = _axes_name(rank, numbers.out_spec[1]) if same else ""
    plain = set(call.settings["lhs_dilation"]) <= {1} and call.settings.get("batch_group_count", 1) == 1
    if not isinstance(kernel, Leaf) or not axes or not plain:
        return call.unknown()
    pads = call.settings["padding"]
    turned = call.walk.parameter("kernel", kernel, spec)  # of as many axes as the map
    return call.add(
        "conv", call.value(), axes=axes, parameters=[turned], kernel=turned.shape[2:],
        stride=tuple(call.settings["window_strides"]), dilation=tuple(call.settings["rhs_dilation"]),
        pads=(*(int(low) for low, _ in pads), *(int(high) for _, high in pads)),
        groups=int(call.settings["feature_group_count"]),
    )  # fmt: skip


def _window(call: JaxCall) -> tuple[Shape, dict[str, Any], str] | None:
    window = tuple(call.settings["window_dimensions"])
    features = 1 if window[1] == 1 and window[-1] != 1 else len(window) - 1
    spatial = [axis for axis in range(1, len(window)) if axis != features]
    plain = set(call.settings.get("base_dilation") or (1,)) <= {1} and window[0] == window[features] == 1
    axes = _axes_name(len(window), features)
    if not plain or not axes:
        return None
    pads, strides = call.settings["padding"], call.settings["window_strides"]
    spread = call.settings.get("window_dilation") or (1,) * len(window)
    described = {
        "kernel": tuple(window[axis] for axis in spatial),
        "stride": tuple(int(strides[axis]) for axis in spatial),
        "dilation": tuple(int(spread[axis]) for axis in spatial),
        "pads": (*(int(pads[axis][0]) for axis in spatial), *(int(pads[axis][1]) for axis in spatial)),
    }
    return window, described, axes


def _without_second_axis(call: JaxCall, pool: Handler) -> Operand | None:
    """Equinox puts an axis of extent 1 behind the batch, which the window leaves alone."""
    window = tuple(call.settings["window_dimensions"])
    if len(window) != 5 or window[1] != 1 or call.given[0][1] != 1:
        return None
    settings = {
        key: (value[0], *value[2:]) if isinstance(value, tuple) and len(value) == len(window) else value
        for key, value in call.settings.items()
    }
    (given, shape), rest = ((each[0], *each[2:]) for each in (call.given[0], call.shape)), call.given[1:]
    value = call.add("reshape", call.value(), shape=given)
    inner = replace(
        call, operands=(value, *call.operands[1:]), settings=settings, given=(given, *rest), shapes=(shape,)
    )
    return call.add("reshape", call.walk.node(pool(inner)))


def _max_pool(call: JaxCall) -> Operand:
    within = _without_second_axis(call, _max_pool)
    if within is not None:
        return within
    window = _window(call)
    return call.unknown() if window is None else call.add("max_pool", call.value(), axes=window[2], **window[1])


def _sum_pool(call: JaxCall) -> Operand:
    """The sum over windows: an average that counts its padding, times the number of places."""
    within = _without_second_axis(call, _sum_pool)
    if within is not None:
        return within
    window = _window(call)
    if window is None or set(window[1].pop("dilation")) != {1}:
        return call.unknown()
    pool = call.add("avg_pool", call.value(), axes=window[2], count_pad=True, **window[1])
    return call.add("mul", pool, scalar=float(prod(window[1]["kernel"])))


_QUOTIENT: Final = _two("div", ordered=True)

PRIMITIVES: Final[dict[str, Handler]] = {
    "convert_element_type": _converted,
    **dict.fromkeys(("copy", "copy_p", "stop_gradient", "reduce_precision"), _same),
    "add": _two("add"), "add_any": _two("add"), "sub": _two("sub", ordered=True), "mul": _two("mul"),
    "div": _divided, "max": _maximum, "min": _two("minimum"), "pow": _two("pow", ordered=True),
    "integer_pow": _integer_power, "erfc": _erfc, "log1p": _log1p, "expm1": _expm1, "clamp": _clamp,
    **{name: _one(op) for name, op in (
        ("neg", "neg"), ("exp", "exp"), ("log", "log"), ("tanh", "tanh"), ("logistic", "sigmoid"), ("erf", "erf"),
        ("rsqrt", "rsqrt"), ("sqrt", "sqrt"), ("abs", "abs"), ("sin", "sin"), ("cos", "cos"), ("floor", "floor"),
        ("ceil", "ceil"), ("square", "square"),
    )},
    **{name: _compare(kind) for name, kind in (
        ("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="),
    )},
    "select_n": _select,
    "reduce_sum": _reduction("sum"), "reduce_max": _reduction("max"), "reduce_min": _reduction("min"),
    "reshape": _reshape, "squeeze": _reshape, "expand_dims": _reshape, "transpose": _transpose,
    "broadcast_in_dim": _broadcast, "concatenate": _concatenate, "slice": _slice, "pad": _pad, "tile": _tile,
    "conv_general_dilated": _conv, "dot_general": dot, "gather": gather,
    "rev": _reversed, "and": _logical("minimum"), "or": _logical("maximum"), "not": _not,
    "reduce_window_max": _max_pool, "reduce_window_sum": _sum_pool,
}  # fmt: skip
