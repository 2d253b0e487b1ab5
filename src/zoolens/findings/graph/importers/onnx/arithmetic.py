"""ONNX's dense layers, arithmetic and activations."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.importers.binary_operators import combine, prelu
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.einsum import einsum
from zoolens.findings.graph.importers.onnx.translation import SPATIAL_AXES, OnnxCall
from zoolens.findings.graph.importers.translation import comparison, unary
from zoolens.findings.graph.ir.model import Shape
from zoolens.inventory.runtimes.onnx.onnx_value_types import DTYPES

_BROADCASTS_AS_NUMPY: Final = 7  # the opset from which the second operand no longer names the axis that it begins at


# --- dense layers


def dense(call: OnnxCall, kernel: Constant, bias: Constant | None) -> None:
    """Answers with a dense layer; `kernel` is (out, in)."""
    call.emit("dense", (call.live(0),), parameters=call.learned_layer(kernel, bias))


def _matmul(call: OnnxCall) -> None:
    kernel = call.constant(1)
    if kernel is not None and len(kernel.shape) == 2 and (isinstance(call.given(0), str) or _begins_loop(call)):
        dense(call, kernel.transposed((1, 0)), None)
    elif min(len(call.shape(0)), len(call.shape(1))) < 2:
        call.unknown("of vectors", vector_product(call.shape(0), call.shape(1)))
    else:
        call.emit("matmul", (call.live(0), call.live(1)))


def _begins_loop(call: OnnxCall) -> bool:
    """Whether the first step of a loop multiplies what it begins with: the layer is that of the other steps."""
    start = call.constant(0)
    return bool(call.state.scopes) and start is not None and not start.is_learned


def vector_product(left: Shape, right: Shape) -> Shape:
    """The shape of a product of which at least one side is a vector."""
    if len(right) < 2:
        return left[:-1]
    return (*right[:-2], right[-1])


def _gemm(call: OnnxCall) -> None:
    kernel = call.constant(1)
    alpha = call.get("alpha", 1.0)
    beta = call.get("beta", 1.0)
    if kernel is None or len(kernel.shape) != 2 or call.get("transA", 0) or isinstance(call.given(2), str):
        _gemm_of_values(call, alpha, beta)
        return
    kernel = kernel if call.get("transB", 0) else kernel.transposed((1, 0))
    bias = call.constant(2)
    if bias is not None and bias.size != kernel.shape[0]:
        bias = _repeated(bias, kernel.shape[0])
        if bias is None:
            _gemm_of_values(call, alpha, beta)
            return
    dense(call, scaled(kernel, alpha), None if bias is None else scaled(bias.reshaped((bias.size,)), beta))


def _repeated(bias: Constant, width: int) -> Constant | None:
    if bias.size != 1:
        return None
    return Constant((width,), bias.dtype, f"{bias.key}@{width}", lambda: np.broadcast_to(bias.load().ravel(), (width,)))


def scaled(constant: Constant, factor: float) -> Constant:
    if factor == 1:
        return constant
    return constant.changed(f"x{factor:g}", lambda values: values * factor)


def _gemm_of_values(call: OnnxCall, alpha: float, beta: float) -> None:
    a = bool(call.get("transA", 0)) or None
    b = bool(call.get("transB", 0)) or None
    product = call.add("matmul", (call.live(0), call.live(1)), transpose_a=a, transpose_b=b)
    if alpha != 1:
        product = call.add("mul", (product,), scalar=alpha)
    if call.given(2) is not None:
        added = call.live(2)
        added = added if beta == 1 else call.add("mul", (added,), scalar=beta)
        product = call.add("add", (product, added))
    call.answer(product)


def _binary(op: str) -> Callable[[OnnxCall], None]:
    def apply(call: OnnxCall) -> None:
        if call.opset < _BROADCASTS_AS_NUMPY and call.get("axis") is not None:
            call.unknown("along an axis", call.shape(0))
        else:
            combine(call, op)

    return apply


# --- one operand

_SELU: Final = (1.67326319, 1.05070102)


def activation(op: str, **attributes: float) -> Callable[[OnnxCall], None]:
    """Translates an operator on one value. `attributes` are those that it has under the same name, with ONNX's
    defaults."""

    def apply(call: OnnxCall) -> None:
        settings: dict[str, Any] = {name: call.get(name, default) for name, default in attributes.items()}
        call.emit(op, (call.live(0),), **settings)

    return apply


def _clip(call: OnnxCall) -> None:
    low = _limit(call, "min", 1)
    high = _limit(call, "max", 2)
    if (low, high) in ((0, 6), (0, None)):
        call.emit("relu6" if high else "relu", (call.live(0),))
    else:
        call.emit("clip", (call.live(0),), low=low, high=high)


def _limit(call: OnnxCall, name: str, position: int) -> float | None:
    """Returns the limit, None where there is none, or where it is the end of the type."""
    values = call.setting(position)
    limit = call.get(name) if values is None else float(values.reshape(()))
    return None if limit is None or abs(limit) > 1e38 else float(limit)


def _selu(call: OnnxCall) -> None:
    """Translates Selu; with other numbers than its own it is a scaled ELU."""
    alpha = call.get("alpha", _SELU[0])
    gamma = call.get("gamma", _SELU[1])
    if np.allclose((alpha, gamma), _SELU, rtol=1e-4):
        call.emit("selu", (call.live(0),))
    else:
        call.emit("mul", (call.add("elu", (call.live(0),), alpha=alpha),), scalar=gamma)


def _prelu(call: OnnxCall) -> None:
    prelu(call, 1, SPATIAL_AXES.get(len(call.shape(0)), ""))


def _gelu(call: OnnxCall) -> None:
    tanh = call.get("approximate", "none") == "tanh"
    call.emit("gelu", (call.live(0),), approximate="tanh" if tanh else None)


def _softmax(op: str) -> Callable[[OnnxCall], None]:
    def softmax(call: OnnxCall) -> None:
        shape = call.shape(0)
        given = call.live(0)
        rank = len(shape)
        axis = call.axis(call.get("axis", -1 if call.opset >= 13 else 1), rank)
        if call.opset >= 13 or prod(shape[axis + 1 :]) == 1:
            call.emit(op, (given,), axis=axis)
            return
        # Before opset 13 everything from the axis on is one vector.
        flat = call.add("reshape", (given,), shape=(prod(shape[:axis]), prod(shape[axis:])))
        call.emit("reshape", (call.add(op, (flat,), axis=1),), shape=shape)

    return softmax


def _cast(call: OnnxCall) -> None:
    """Translates a cast. A cast between real types changes nothing here; one that would cut off fractions stays
    unknown."""
    target = DTYPES.get(call.get("to", 1), "") if call.node.op == "Cast" else _dtype(call, 1)
    live = call.live(0)
    if target == "bool" and call.state.node(live).op != "compare":
        call.emit("compare", (live,), kind="!=", scalar=0)
    elif target.lstrip("u").startswith("int") and not _is_whole(call, live):
        call.unknown(f"to {target}", call.shape(0))
    else:
        call.emit("cast", (live,))


def _dtype(call: OnnxCall, position: int) -> str:
    value = call.constant(position)
    return value.dtype if value is not None else ""


def _is_whole(call: OnnxCall, live: str) -> bool:
    """Whether a value surely has no fractions: a comparison, a rounded number, a place, an input or a table of whole
    numbers."""
    node = call.state.node(live)
    while node.op in ("reshape", "flatten", "transpose", "slice", "expand", "cast", "identity", "gather"):
        node = call.state.node(node.inputs[0])
    if node.op not in ("input", "constant"):
        return node.op in ("compare", "floor", "ceil", "round", "argmax", "argmin")
    stored = call.state.values.get(node.source)
    given = stored if isinstance(stored, Constant) else call.state.specs.get(node.source)
    return given is not None and given.dtype.lstrip("u").startswith(("int", "bool"))


def _dropout(call: OnnxCall) -> None:
    ratio = call.constant(1)
    call.emit("dropout", (call.live(0),), rate=call.get("ratio") if ratio is None else ratio.values().item())


def _norm_over(call: OnnxCall) -> None:
    if call.get("p", 2) != 2:
        call.unknown("of another order than 2", call.shape(0))
    else:
        call.emit("l2_normalize", (call.live(0),), axes=(call.axis(call.get("axis", -1), len(call.shape(0))),))


ARITHMETIC: Final[dict[str, Callable[[OnnxCall], None]]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": einsum,
    **{op.capitalize(): _binary(op) for op in ("add", "sub", "mul", "div", "pow")},
    "Sum": _binary("add"),
    "Max": _binary("maximum"),
    "Min": _binary("minimum"),
    **{
        op.capitalize(): unary(op)
        for op in ("relu", "sigmoid", "tanh", "softplus", "mish", "abs", "neg", "exp", "log", "sqrt", "erf",
                   "sin", "cos", "floor", "ceil", "round", "reciprocal", "identity")
    },
    "Selu": _selu,
    "Cast": _cast,
    "CastLike": _cast,
    "HardSwish": activation("hard_swish"),
    "HardSigmoid": activation("hard_sigmoid", alpha=0.2, beta=0.5),
    "Elu": activation("elu", alpha=1.0),
    "LeakyRelu": activation("leaky_relu", alpha=0.01),
    "PRelu": _prelu,
    "Gelu": _gelu,
    "Clip": _clip,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "Dropout": _dropout,
    "LpNormalization": _norm_over,
    "Equal": comparison("=="),
    "Less": comparison("<"),
    "LessOrEqual": comparison("<="),
    "Greater": comparison(">"),
    "GreaterOrEqual": comparison(">="),
    "Where": lambda call: call.emit("where", [call.live(i) for i in range(3)]),
}  # fmt: skip
