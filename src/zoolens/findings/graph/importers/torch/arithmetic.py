"""aten operators that are arithmetic: elementwise, with constants, reductions, matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from zoolens.findings.graph.importers.torch.trace import Lowering, TorchCall
from zoolens.findings.graph.ir.vocabulary import FUNCTIONS


def _pair(call: TorchCall) -> tuple[Any, Any]:
    return call["self"], call.get("other", call.get("exponent"))


def binary(op: str, *, reverse: bool = False) -> Lowering:
    """Lowers x op y, where either may be a number, and y a learned or constant scale or shift per channel."""

    def lower(call: TorchCall) -> str:
        left, right = _pair(call)
        if reverse:
            left, right = right, left
        factor = call.get("alpha", 1)
        if factor != 1:
            right = _scaled(call, right, factor)
            return call.add(op, _name(call, left), right)
        return arithmetic(call, op, left, right)

    return lower


def _scaled(call: TorchCall, operand: Any, factor: float) -> str:
    number = call.trace.number(operand)
    if number is not None:
        return call.add("constant", shape=(), value=number * factor)
    return call.add("mul", call.trace.value(operand), shape=tuple(operand.shape), scalar=factor)


def _name(call: TorchCall, operand: Any) -> str:
    if isinstance(operand, bool | int | float):
        return call.add("constant", shape=(), value=operand)
    return call.trace.value(operand)


def arithmetic(call: TorchCall, op: str, left: Any, right: Any) -> str:
    numbers = call.trace.number(left), call.trace.number(right)
    if numbers[1] is not None and tuple(left.shape) == call.shape:
        return call.add(op, call.trace.value(left), scalar=numbers[1])
    if numbers[0] is not None and tuple(right.shape) == call.shape:
        return call.add(op, call.trace.value(right), scalar=numbers[0], reverse=True)
    if op in ("add", "mul"):
        for value, other in ((left, right), (right, left)):
            if _is_per_channel(call, value, other):
                return _affine(call, op, value, other)
    return call.add(op, _name(call, left), _name(call, right))


def _is_per_channel(call: TorchCall, value: Any, other: Any) -> bool:
    trace = call.trace
    if not trace.depends_on_input(value) or trace.depends_on_input(other) or tuple(value.shape) != call.shape:
        return False
    lies_along_one_axis = sum(extent != 1 for extent in other.shape) <= 1 and other.dim() <= value.dim()
    return lies_along_one_axis and bool(other.is_floating_point())


def _affine(call: TorchCall, op: str, value: Any, other: Any) -> str:
    role = "scale" if op == "mul" else "shift"
    offset = value.dim() - other.dim()
    axis = next((offset + index for index, extent in enumerate(other.shape) if extent != 1), None)
    shape = () if axis is None else (other.numel(),)
    return call.add(
        "affine", call.trace.value(value), axis=axis, parameters=(call.trace.parameter(role, other, shape),)
    )


def addcmul(call: TorchCall) -> str:
    """Lowers self + value · tensor1 · tensor2."""
    product = call.add("mul", call.value("tensor1"), call.value("tensor2"))
    if call["value"] != 1:
        product = call.add("mul", product, scalar=call["value"])
    return call.add("add", call.value("self"), product)


def power(call: TorchCall) -> str:
    base, exponent = _pair(call)
    if call.trace.number(exponent) == 2 and not isinstance(base, int | float):
        return call.add("square", call.trace.value(base))
    return arithmetic(call, "pow", base, exponent)


def divide(call: TorchCall) -> str:
    if call.get("rounding_mode") is not None:
        return call.unknown(" with rounding")
    return arithmetic(call, "div", *_pair(call))


def unary(op: str) -> Lowering:
    return lambda call: call.add(op, call.value("self"))


def compare(kind: str) -> Lowering:
    def lower(call: TorchCall) -> str:
        left, right = _pair(call)
        number = call.trace.number(right)
        if number is not None:
            return call.add("compare", call.trace.value(left), kind=kind, scalar=number)
        return call.add("compare", call.trace.value(left), call.trace.value(right), kind=kind)

    return lower


def where(call: TorchCall) -> str:
    return call.add("where", call.value("condition"), _name(call, call["self"]), _name(call, call["other"]))


def logical(op: str) -> Lowering:
    """Truth values; other whole numbers are combined bit by bit, which the vocabulary has no word for."""

    def lower(call: TorchCall) -> str:
        left, right = _pair(call)
        if not all(str(getattr(each, "dtype", "")) == "torch.bool" for each in (left, right)):
            return call.unknown()
        return call.add(op, call.trace.value(left), call.trace.value(right))

    return lower


def negation(call: TorchCall) -> str:
    if str(call["self"].dtype) != "torch.bool":
        return call.unknown()
    return call.add("compare", call.value("self"), kind="==", scalar=0)


def gated_linear_unit(call: TorchCall) -> str:
    """Lowers glu: the first half of an axis times the sigmoid of the second."""
    axis = call["dim"] % call["self"].dim()
    x = call.value("self")
    half = call.shape[axis]
    parts = [call.add("slice", x, axis=axis, start=start, stop=start + half) for start in (0, half)]
    return call.add("mul", parts[0], call.add("sigmoid", parts[1]))


def masked_fill(call: TorchCall) -> str:
    return call.add("where", call.value("mask"), _name(call, call["value"]), call.value("self"))


# reductions


def axes_of(call: TorchCall, rank: int) -> tuple[int, ...]:
    given = call.get("dim")
    if given is None or (not isinstance(given, int) and len(given) == 0):
        return tuple(range(rank))
    listed = [given] if isinstance(given, int) else given
    return tuple(sorted(axis % max(rank, 1) for axis in listed))


def reduction(op: str) -> Lowering:
    def lower(call: TorchCall) -> Any:
        if isinstance(call.result, tuple):  # values and their places: the places are made only if somebody uses them
            value = call.add(op, call.value("self"), shape=call.result[0].shape, **_reduced(call))
            return [value, call.add(f"arg{op}", call.value("self"), shape=call.result[1].shape, **_reduced(call))]
        return call.add(op, call.value("self"), **_reduced(call))

    return lower


def _reduced(call: TorchCall) -> dict[str, Any]:
    return {"axes": axes_of(call, call["self"].dim()), "keep": True if call.get("keepdim") else None}


def extreme(op: str) -> Lowering:
    """Lowers torch.argmax and torch.argmin; without an axis they count places of the flattened tensor."""

    def lower(call: TorchCall) -> Any:
        if call.get("dim") is None:
            return call.unknown(" of all numbers")
        return call.add(op, call.value("self"), **_reduced(call))

    return lower


def max_or_min(op: str, elementwise: str) -> Lowering:
    """Lowers torch.max and torch.min, which reduce one tensor or take the larger or smaller of two."""

    def lower(call: TorchCall) -> Any:
        return binary(elementwise)(call) if "other" in call.arguments else reduction(op)(call)

    return lower


def vector_norm(call: TorchCall) -> str:
    if call["ord"] != 2:
        return call.unknown(f" of order {call['ord']}")
    x = call["self"]
    squares = call.add("square", call.trace.value(x), shape=tuple(x.shape))
    total = call.add("sum", squares, **_reduced(call))
    return call.add("sqrt", total)


def norm(call: TorchCall) -> str:
    if call["p"] not in (2, None):
        return call.unknown(f" of order {call['p']}")
    call.arguments = {**call.arguments, "ord": 2}
    return vector_norm(call)


def variance(call: TorchCall) -> str:
    return _variance(call, call.shape)


def _variance(call: TorchCall, shape: Sequence[int]) -> str:
    """The mean of squared distances from the mean, times n / (n - correction)."""
    x = call["self"]
    axes = axes_of(call, x.dim())
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    centre = call.add("mean", call.trace.value(x), shape=kept, axes=axes, keep=True)
    centred = call.add("sub", call.trace.value(x), centre, shape=tuple(x.shape))
    squares = call.add("square", centred, shape=tuple(x.shape))
    average = call.add("mean", squares, shape=shape, **_reduced(call))
    count = x.numel() // max(1, prod(kept))
    correction = call.get("correction")
    correction = (1 if call.get("unbiased", True) else 0) if correction is None else correction
    if not correction:
        return average
    return call.add("mul", average, shape=shape, scalar=count / (count - correction))


def variance_and_mean(call: TorchCall) -> list[str]:
    first, second = call.result
    spread = _variance(call, tuple(first.shape))
    return [spread, call.add("mean", call.value("self"), shape=tuple(second.shape), **_reduced(call))]


def deviation(call: TorchCall) -> str:
    return call.add("sqrt", _variance(call, call.shape))


def deviation_and_mean(call: TorchCall) -> list[str]:
    spread, centre = variance_and_mean(call)
    return [call.add("sqrt", spread, shape=tuple(call.result[0].shape)), centre]


# matrix products


def matmul(call: TorchCall) -> str:
    """Lowers a product of matrices; with a learned matrix on the right it is a dense layer."""
    left = call["self"]
    right = call.get("other", call.get("mat2"))
    trace = call.trace
    if trace.is_static(right) and right.dim() == 2 and trace.depends_on_input(left):
        return call.add("dense", trace.value(left), parameters=(trace.parameter("kernel", right, swap=True),))
    if left.dim() < 2 or right.dim() < 2:
        return call.unknown(" with a vector")
    return call.add("matmul", trace.value(left), trace.value(right))


def addmm(call: TorchCall) -> str:
    trace = call.trace
    kernel = call["mat2"]
    bias = call["self"]
    if call["beta"] != 1 or call["alpha"] != 1:
        return call.unknown(" with factors")
    if trace.is_static(kernel) and not trace.depends_on_input(bias) and bias.dim() == 1:
        parameters = (trace.parameter("kernel", kernel, swap=True), trace.parameter("bias", bias))
        return call.add("dense", call.value("mat1"), parameters=parameters)
    product = call.add("matmul", call.value("mat1"), trace.value(kernel))
    return call.add("add", product, trace.value(bias))


def baddbmm(call: TorchCall) -> str:
    product = call.add("matmul", call.value("batch1"), call.value("batch2"))
    if call["alpha"] != 1:
        product = call.add("mul", product, scalar=call["alpha"])
    if call["beta"] == 0:
        return product
    if call["beta"] != 1:
        return call.unknown(" with a factor")
    return call.add("add", call.value("self"), product)


ARITHMETIC: Final[dict[str, Lowering]] = {
    "add": binary("add"),
    "sub": binary("sub"),
    "rsub": binary("sub", reverse=True),
    "mul": binary("mul"),
    "div": divide,
    "pow": power,
    "maximum": binary("maximum"),
    "minimum": binary("minimum"),
    "addcmul": addcmul,
    **{op: unary(op) for op in FUNCTIONS},
    "eq": compare("=="),
    "ne": compare("!="),
    "lt": compare("<"),
    "le": compare("<="),
    "gt": compare(">"),
    "ge": compare(">="),
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), logical("minimum")),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), logical("maximum")),
    **dict.fromkeys(("logical_not", "bitwise_not"), negation),
    "glu": gated_linear_unit,
    "where": where,
    "masked_fill": masked_fill,
    "mean": reduction("mean"),
    "sum": reduction("sum"),
    "prod": reduction("prod"),
    "argmax": extreme("argmax"),
    "argmin": extreme("argmin"),
    "amax": reduction("max"),
    "amin": reduction("min"),
    "max": max_or_min("max", "maximum"),
    "min": max_or_min("min", "minimum"),
    "linalg_vector_norm": vector_norm,
    "norm": norm,
    "var": variance,
    "var_mean": variance_and_mean,
    "std": deviation,
    "std_mean": deviation_and_mean,
    **dict.fromkeys(("matmul", "mm", "bmm"), matmul),
    "addmm": addmm,
    "baddbmm": baddbmm,
}
