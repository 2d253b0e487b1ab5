"""Activations, arithmetic, products and attention as ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.onnx_writer.onnx_graph import Kind, NodeWriter

Rule = Callable[[NodeWriter], str]


def _one(op: str, **attributes: Any) -> Rule:
    """One operator on one value; `attributes` are the node's, with defaults."""

    def write(call: NodeWriter) -> str:
        chosen: dict[str, Any] = {name: float(call.get(name, value)) for name, value in attributes.items()}
        return call.emit(op, call.x, **chosen)

    return write


def _along_axis(op: str) -> Rule:
    return lambda call: call.emit(op, call.x, axis=int(call.get("axis", len(call.shape) - 1)))


def _gated(call: NodeWriter, gate: str) -> str:
    return call.emit("Mul", call.x, gate)


def _mish(call: NodeWriter) -> str:
    return _gated(call, call.emit("Tanh", call.emit("Softplus", call.x)))


def _gelu(call: NodeWriter) -> str:
    x = call.x
    kind = call.get("approximate")
    if kind == "quick":
        return _gated(call, call.emit("Sigmoid", call.emit("Mul", x, call.number(1.702))))
    if kind == "tanh":
        cube = call.emit("Mul", call.emit("Mul", call.emit("Mul", x, x), x), call.number(0.044715))
        inner = call.emit("Mul", call.emit("Add", x, cube), call.number(math.sqrt(2 / math.pi)))
        curve = call.emit("Tanh", inner)
    else:
        curve = call.emit("Erf", call.emit("Mul", x, call.number(math.sqrt(0.5))))
    half = call.emit("Mul", call.x, call.number(0.5))
    return call.emit("Mul", half, call.emit("Add", curve, call.number(1.0)))


def _clip(call: NodeWriter) -> str:
    return _clipped(call, call.get("low"), call.get("high"))


def _clipped(call: NodeWriter, low: float | None, high: float | None) -> str:
    given = [call.x, "" if low is None else call.number(low), "" if high is None else call.number(high)]
    return call.emit("Clip", *given)


def _prelu(call: NodeWriter) -> str:
    alpha = call.values("alpha")
    assert alpha is not None  # it is what the layer learns
    along_channels = [-1, *(1,) * (len(call.shape) - 2)] if alpha.ndim < 2 else None
    return call.emit("PRelu", call.x, call.weight("alpha", along_channels) or "")


# --- two values, or one and a number


def _two(op: str) -> Rule:
    def write(call: NodeWriter) -> str:
        scalar = call.get("scalar")
        if scalar is not None:
            sides = (call.number(scalar), call.x) if call.get("reverse") else (call.x, call.number(scalar))
            return call.emit(op, *sides)
        total, *others = call.inputs
        for other in others:
            total = call.emit(op, total, other)
        return total if others else call.emit("Identity", total)

    return write


def _compare(call: NodeWriter) -> str:
    scalar = call.get("scalar")
    sides = call.inputs if scalar is None else [call.x, call.number(scalar)]
    sides = sides[::-1] if call.get("reverse") else sides
    if call.get("kind") == "!=":
        return call.emit("Not", call.emit("Equal", *sides, kind="bool"), kind="bool")
    return call.emit(_COMPARISONS[call.get("kind")], *sides, kind="bool")


def _where(call: NodeWriter) -> str:
    return call.emit("Where", call.input(0, "bool"), call.input(1), call.input(2))


def _rsqrt(call: NodeWriter) -> str:
    return call.emit("Reciprocal", call.emit("Sqrt", call.x))


def _l2_normalize(call: NodeWriter) -> str:
    norm = call.emit("ReduceL2", call.x, axes=[int(axis) for axis in call.get("axes")], keepdims=1)
    return call.emit("Div", call.x, call.emit("Max", norm, call.number(call.get("epsilon", 1e-12))))


# --- products


def _turned(call: NodeWriter, value: str, rank: int) -> str:
    """The value with its matrices transposed."""
    return call.emit("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


def _matmul(call: NodeWriter) -> str:
    sides = []
    for place, flag in enumerate(("transpose_a", "transpose_b")):
        value = call.input(place)
        sides.append(_turned(call, value, len(call.given(place))) if call.get(flag) else value)
    return call.emit("MatMul", *sides)


def _attention(call: NodeWriter) -> str:
    width = call.given()[-1]
    q = call.emit("Mul", call.x, call.number(call.get("scale") or 1 / math.sqrt(width)))
    scores = call.emit("MatMul", q, _turned(call, call.input(1), len(call.given(1))))
    if len(call.node.inputs) > 3:
        scores = _masked(call, scores, call.draft.kinds[call.draft.values[call.node.inputs[3]]])
    if call.get("causal"):
        seen = call.tensor(np.tri(call.given()[-2], call.given(1)[-2], dtype=bool), "causal", "bool")
        scores = call.emit("Where", seen, scores, call.number(-np.inf))
    weights = call.emit("Softmax", scores, axis=len(call.shape) - 1)
    return call.emit("MatMul", weights, call.input(2))


def _masked(call: NodeWriter, scores: str, kind: Kind) -> str:
    if kind == "bool":
        return call.emit("Where", call.input(3, "bool"), scores, call.number(-np.inf))
    return call.emit("Add", scores, call.input(3))


_COMPARISONS: Final = {
    "==": "Equal", "<": "Less", "<=": "LessOrEqual", ">": "Greater", ">=": "GreaterOrEqual",
}  # fmt: skip

ARITHMETIC: Final[dict[str, Rule]] = {
    "relu": _one("Relu"), "relu6": lambda call: _clipped(call, 0.0, 6.0), "sigmoid": _one("Sigmoid"),
    "silu": lambda call: _gated(call, call.emit("Sigmoid", call.x)),
    "hard_sigmoid": _one("HardSigmoid", alpha=1 / 6, beta=0.5), "hard_swish": _one("HardSwish"), "tanh": _one("Tanh"),
    "elu": _one("Elu", alpha=1.0), "selu": _one("Selu"), "softplus": _one("Softplus"), "mish": _mish,
    "leaky_relu": _one("LeakyRelu", alpha=0.01), "prelu": _prelu, "gelu": _gelu, "clip": _clip,
    "softmax": _along_axis("Softmax"), "log_softmax": _along_axis("LogSoftmax"),
    "add": _two("Add"), "sub": _two("Sub"), "mul": _two("Mul"), "div": _two("Div"), "pow": _two("Pow"),
    "maximum": _two("Max"), "minimum": _two("Min"), "abs": _one("Abs"), "neg": _one("Neg"), "exp": _one("Exp"),
    "log": _one("Log"), "sqrt": _one("Sqrt"), "rsqrt": _rsqrt, "square": lambda call: _gated(call, call.x),
    "erf": _one("Erf"), "sin": _one("Sin"), "cos": _one("Cos"), "floor": _one("Floor"), "ceil": _one("Ceil"),
    "round": _one("Round"), "reciprocal": _one("Reciprocal"), "l2_normalize": _l2_normalize,
    "compare": _compare, "where": _where, "matmul": _matmul, "attention": _attention,
}  # fmt: skip
