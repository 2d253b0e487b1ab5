"""JAX's primitives as nodes of our vocabulary: `PRIMITIVES` has one small function for each kind."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from zoolens.findings.graph.importers.jax.arrangements import (
    broadcast,
    concatenate,
    pad,
    reshape,
    reversed_,
    slice_,
    tile,
    transpose,
)
from zoolens.findings.graph.importers.jax.contractions import biased, dot
from zoolens.findings.graph.importers.jax.lookups import gather
from zoolens.findings.graph.importers.jax.normalisations import product, variance
from zoolens.findings.graph.importers.jax.walk import Handler, JaxCall, Leaf, Operand
from zoolens.findings.graph.importers.jax.windows import conv, max_pool, sum_pool


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
                if named is not None:
                    return named
                return _scalar(call, op, other, value, place == 1 and ordered)
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
        if _about(terms, count):
            return call.add("mean", *made.inputs, axes=made.get("axes"), keep=keep)
        return None
    if made.op != "mul" or len(made.inputs) != 1:
        return None
    pool = call.walk.maker(made.inputs[0])
    if pool.op == "avg_pool" and _about(made.get("scalar"), count):
        return pool.name
    return None


def _about(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * abs(a)


def _is_softmax(call: JaxCall) -> bool:
    """Whether exp(x - max(x)) is divided by its own sum, over one axis."""
    return _softmax_of(call) is not None


def _softmax_of(call: JaxCall) -> tuple[str, int] | None:
    top, total = call.operands
    if isinstance(top, Leaf) or isinstance(total, Leaf):
        return None
    powers = call.walk.maker(top)
    summed = call.walk.maker(_through(call, total))
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
    if power == -1:
        return call.add("reciprocal", call.value())
    return call.add("pow", call.value(), scalar=float(power))


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
        if choice.values.reshape(-1)[0]:
            return call.operands[2]
        return call.operands[1]
    return call.add("where", call.value(0), call.value(2), call.value(1))


def _reduction(op: str) -> Handler:
    return lambda call: call.add(op, call.value(), axes=tuple(int(axis) for axis in call.settings["axes"]))


def _clamp(call: JaxCall) -> Operand:
    low, _, high = call.operands
    ends = [end.number if isinstance(end, Leaf) else None for end in (low, high)]
    if None in ends:
        return call.unknown()
    return call.add("clip", call.value(1), low=ends[0], high=ends[1])


def _logical(op: str) -> Handler:
    """Truth values; other whole numbers are combined bit by bit, which the vocabulary has no word for."""
    return lambda call: call.add(op, call.value(0), call.value(1)) if call.kinds == "bb" else call.unknown()


def _not(call: JaxCall) -> Operand:
    if call.kinds == "b":
        return call.add("compare", call.value(), kind="==", scalar=0.0)
    return call.unknown()


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
    "reshape": reshape, "squeeze": reshape, "expand_dims": reshape, "transpose": transpose,
    "broadcast_in_dim": broadcast, "concatenate": concatenate, "slice": slice_, "pad": pad, "tile": tile,
    "conv_general_dilated": conv, "dot_general": dot, "gather": gather,
    "rev": reversed_, "and": _logical("minimum"), "or": _logical("maximum"), "not": _not,
    "reduce_window_max": max_pool, "reduce_window_sum": sum_pool,
}  # fmt: skip
