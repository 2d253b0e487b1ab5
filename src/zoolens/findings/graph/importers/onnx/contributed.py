"""Operators that ONNX Runtime's optimiser puts in place of several of ONNX's (domain com.microsoft).

Each is written out as what it stands for, so that an optimised copy of a network is read as the network.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Final

from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.arithmetic import ARITHMETIC, dense, scaled
from zoolens.findings.graph.importers.onnx.onnx_layers import LAYERS, learned_parameters
from zoolens.findings.graph.importers.onnx.translation import OnnxCall

Rule = Callable[[OnnxCall], None]

_QUICK: Final = 1.702  # the slope of the sigmoid with which x·sigmoid(slope·x) is called the quick GELU


# --- activations inside of other operators


def activated(call: OnnxCall, value: str) -> str:
    """The value behind the activation that an operator names as its own."""
    kind = str(call.attributes.get("activation") or "")
    numbers = _activation_numbers(call)
    if kind in ("", "Relu", "Sigmoid", "Tanh", "Softplus", "HardSwish"):
        return call.add(_PLAIN[kind], (value,)) if kind else value
    if kind == "LeakyRelu":
        return call.add("leaky_relu", (value,), alpha=_number(numbers, 0, 0.01))
    if kind == "Elu":
        return call.add("elu", (value,), alpha=_number(numbers, 0, 1.0))
    if kind == "HardSigmoid":
        return call.add("hard_sigmoid", (value,), alpha=_number(numbers, 0, 0.2), beta=_number(numbers, 1, 0.5))
    if kind == "Clip" and len(numbers) == 2:
        return _clipped(call, value, *numbers)
    if kind == "QuickGelu":
        return _swish(call, value, _number(numbers, 0, _QUICK))
    return call.add("unknown", (value,), shape=call.state.shape(value), source_op=f"activation {kind[:40]}", macs=0)


_PLAIN: Final = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Softplus": "softplus",
    "HardSwish": "hard_swish",
}


def _activation_numbers(call: OnnxCall) -> list[float]:
    """FusedConv has one list of them, FusedGemm an attribute for each."""
    listed = call.attributes.get("activation_params")
    if isinstance(listed, list):
        return [float(number) for number in listed]
    named = (call.attributes.get(f"activation_{name}") for name in ("alpha", "beta"))
    return [float(number) for number in named if isinstance(number, float)]


def _number(numbers: list[float], place: int, default: float) -> float:
    return numbers[place] if place < len(numbers) else default


def _clipped(call: OnnxCall, value: str, low: float, high: float) -> str:
    if low == 0 and (high == 6 or high > 1e38):
        return call.add("relu6" if high == 6 else "relu", (value,))
    return call.add("clip", (value,), low=low, high=high)


def _swish(call: OnnxCall, value: str, slope: float) -> str:
    """Returns x·sigmoid(slope·x)."""
    if slope == 1:
        return call.add("silu", (value,))
    if isclose(slope, _QUICK, rel_tol=1e-3):
        return call.add("gelu", (value,), approximate="quick")
    gate = call.add("sigmoid", (call.add("mul", (value,), scalar=slope),))
    return call.add("mul", (value, gate))


# --- convolutions and products


def made(call: OnnxCall) -> str:
    """What the call was answered with so far."""
    return call.state.value(call.outputs[0])


def finish_layer(call: OnnxCall, addend: int) -> None:
    """Adds what a convolution takes in as its sum, then applies its activation."""
    value = made(call)
    if call.given(addend) is not None:
        value = call.add("add", (value, call.live(addend)))
    call.answer(activated(call, value))


def _fused_conv(call: OnnxCall) -> None:
    LAYERS["Conv"](call)
    finish_layer(call, 3)


def _fused_gemm(call: OnnxCall) -> None:
    ARITHMETIC["Gemm"](call)
    call.answer(activated(call, made(call)))


def _fused_matmul(call: OnnxCall) -> None:
    if call.get("transBatchA", 0) or call.get("transBatchB", 0):
        call.unknown("of turned batches")
        return
    alpha = call.get("alpha", 1.0)
    kernel = call.constant(1)
    flipped = bool(call.get("transB", 0))
    if kernel is not None and len(kernel.shape) == 2 and isinstance(call.given(0), str):
        given = call.fed(_turned(call, call.live(0))) if call.get("transA", 0) else call
        dense(given, scaled(kernel if flipped else kernel.transposed((1, 0)), alpha), None)
        call.answer(made(given))
        return
    left = _turned(call, call.live(0)) if call.get("transA", 0) else call.live(0)
    right = _turned(call, call.live(1)) if flipped else call.live(1)
    product = call.add("matmul", (left, right))
    call.answer(product if alpha == 1 else call.add("mul", (product,), scalar=alpha))


def _turned(call: OnnxCall, value: str) -> str:
    """The value with its last two axes exchanged."""
    rank = len(call.state.shape(value))
    return call.add("transpose", (value,), perm=(*range(rank - 2), rank - 1, rank - 2))


# --- biases and sums before something else


def plus(call: OnnxCall, value: str, position: int) -> str:
    """The value and an input along its last axis, where that input is given."""
    given = call.given(position)
    if given is None:
        return value
    if isinstance(given, Constant) and len(given.shape) == 1:
        shift = call.state.parameter("shift", given)
        return call.add("affine", (value,), parameters=(shift,), axis=len(call.state.shape(value)) - 1)
    return call.add("add", (value, call.live(position)))


def _bias_gelu(approximate: str | None) -> Rule:
    def gelu(call: OnnxCall) -> None:
        call.emit("gelu", (plus(call, call.live(0), 1),), approximate=approximate)

    return gelu


def _quick_gelu(call: OnnxCall) -> None:
    call.answer(_swish(call, call.live(0), call.get("alpha", _QUICK)))


def _bias_add(call: OnnxCall) -> None:
    """Input, bias, and what a residual connection adds."""
    value = plus(call, call.live(0), 1)
    call.answer(value if call.given(2) is None else call.add("add", (value, call.live(2))))


def _bias_softmax(call: OnnxCall) -> None:
    total = call.add("add", (call.live(0), call.live(1)))
    axis = call.axis(call.get("axis", 1), len(call.shape(0)))
    if axis != len(call.shape(0)) - 1:
        call.unknown("over several axes", call.shape(0))
    else:
        call.emit("softmax", (total,), axis=axis)


# --- norms


def _skip_norm(op: str, bias: int, **positions: int) -> Rule:
    """A sum with a residual connection, and a norm of it. The fourth output is the sum."""

    def norm(call: OnnxCall) -> None:
        parameters = learned_parameters(call, **positions)
        if parameters is None:
            call.unknown("with a computed scale", call.shape(0))
            return
        first, second = sorted((call.live(0), call.live(1)), key=lambda name: call.state.node(name).op != "dense")
        total = call.add("add", (plus(call, first, bias), second))  # the bias is that of the layer before
        normed = call.add(
            op,
            (total,),
            parameters=parameters,
            axes=(len(call.state.shape(total)) - 1,),
            epsilon=call.get("epsilon", 1e-12 if op == "layer_norm" else 1e-5),
        )
        call.answer(normed)
        if len(call.outputs) > 3 and call.outputs[3]:
            call.state.values[call.outputs[3]] = total

    return norm


def _group_norm(call: OnnxCall) -> None:
    """Input (channels last unless it says otherwise), scale, shift; activation 1 is SiLU."""
    last = bool(call.get("channels_last", 1))
    names = "NHWC" if last else "NCHW"
    parameters = learned_parameters(call, scale=1, shift=2)
    if len(call.shape(0)) != 4 or parameters is None:
        call.unknown("of another rank than 4, or with a computed scale", call.shape(0))
        return
    value = call.add(
        "group_norm",
        (call.live(0),),
        parameters=parameters,
        axes=names,
        groups=call.get("groups", 1),
        epsilon=call.get("epsilon", 1e-5),
    )
    call.answer(call.add("silu", (value,)) if call.get("activation", 0) else value)


# --- maps with channels last


def _channels_last(rule: Rule) -> Rule:
    """The rule of the operator that works on (N, C, H, W), between two transposes."""

    def apply(call: OnnxCall) -> None:
        rank = len(call.shape(0))
        inner = call.fed(call.add("transpose", (call.live(0),), perm=(0, rank - 1, *range(1, rank - 1))))
        rule(inner)
        call.emit("transpose", (made(inner),), perm=(0, *range(2, rank), 1))

    return apply


CONTRIBUTED: Final[dict[str, Rule]] = {
    "FusedConv": _fused_conv,
    "NhwcConv": _channels_last(LAYERS["Conv"]),
    "NhwcMaxPool": _channels_last(LAYERS["MaxPool"]),
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "Gelu": _bias_gelu(None),
    "BiasGelu": _bias_gelu(None),
    "FastGelu": _bias_gelu("tanh"),
    "QuickGelu": _quick_gelu,
    "BiasAdd": _bias_add,
    "BiasSoftmax": _bias_softmax,
    "SkipLayerNormalization": _skip_norm("layer_norm", 4, scale=2, shift=3),
    "SkipSimplifiedLayerNormalization": _skip_norm("rms_norm", 3, scale=2),
    "GroupNorm": _group_norm,
}
