"""TFLite's learned layers, pools and activations. Numbers in `option` calls are slots of its schema's tables."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.binary_operators import combine, prelu
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.tflite.translation import TfliteCall, spatial
from zoolens.findings.graph.importers.translation import comparison, unary
from zoolens.findings.graph.ir.model import Parameter, Shape
from zoolens.findings.graph.ir.sliding_windows import fitted_transposed_pads, same_pads

_SAME: Final = 0


def _pads(call: TfliteCall, extents: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    same = call.option(0, kind="b") == _SAME
    if same:
        return same_pads(extents, kernel, stride, dilation)
    return (0,) * (2 * len(extents))


def _parameters(call: TfliteCall, kernel: Constant, bias: int) -> list[Parameter]:
    values = call.constant(bias)
    return call.learned_layer(kernel, None if values is None else values.reshaped((values.size,)))


def _conv(call: TfliteCall) -> None:
    _convolve(call, depthwise=False, fused=3, dilation=4)


def _depthwise(call: TfliteCall) -> None:
    _convolve(call, depthwise=True, fused=4, dilation=5)


def _convolve(call: TfliteCall, *, depthwise: bool, fused: int, dilation: int) -> None:
    stored = call.constant(1)
    if stored is None or call.is_computed(2):
        call.unknown("with a computed kernel")
        return
    shape = call.shape(0)
    if len(stored.shape) != 4 or len(shape) != 4:
        raise ModelError(f"{call.source[:60]!r} is a convolution of {len(stored.shape)} axes over {len(shape)}.")
    kernel = stored.transposed((3, 0, 1, 2) if depthwise else (0, 3, 1, 2))
    strides = (call.option(2), call.option(1))
    dilations = (call.option(dilation + 1, 1), call.option(dilation, 1))
    name = call.add(
        "conv",
        (call.live(0),),
        parameters=_parameters(call, kernel, 2),
        axes="NHWC",
        kernel=kernel.shape[2:],
        stride=strides,
        dilation=dilations,
        pads=_pads(call, spatial(shape), kernel.shape[2:], strides, dilations),
        groups=shape[3] if depthwise else shape[3] // max(kernel.shape[1], 1),
    )
    call.finish(name, fused)


def _conv_transpose(call: TfliteCall) -> None:
    """Inputs are the output's shape, the kernel (out, height, width, in), the value and a bias."""
    stored = call.constant(1)
    target = call.whole(0)
    if stored is None or target is None or len(stored.shape) != 4 or len(target) != 4 or call.is_computed(3):
        call.unknown("with a computed kernel")
        return
    kernel = stored.transposed((3, 0, 1, 2))
    stride = (call.option(2), call.option(1))
    extents = spatial(call.shape(2))
    wanted = spatial(target)
    pads, extra = fitted_transposed_pads(extents, wanted, kernel.shape[2:], stride, (1, 1))
    name = call.add(
        "conv_transpose",
        (call.live(2),),
        parameters=_parameters(call, kernel, 3),
        axes="NHWC",
        kernel=kernel.shape[2:],
        stride=stride,
        pads=pads,
        output_pads=extra if any(extra) else None,
    )
    call.finish(name, 3)


def _dense(call: TfliteCall) -> None:
    kernel = call.constant(1)
    given = call.live(0)
    shape = call.shape(0)
    width = call.shape(1)[-1] if call.shape(1) else 0
    if len(shape) != 2 and not call.flag(2) and width and prod(shape) % width == 0:
        rows = prod(shape) // width
        op = "flatten" if rows == shape[0] else "reshape"
        given = call.add(op, (given,), shape=(rows, width))
    if kernel is not None and not call.is_computed(2):
        call.finish(call.add("dense", (given,), parameters=_parameters(call, kernel, 2)), 0)
        return
    product = call.add("matmul", (given, call.live(1)), transpose_b=True)
    call.finish(product if call.given(2) is None else call.add("add", (product, call.live(2))), 0)


def _pool(op: str) -> Callable[[TfliteCall], None]:
    def pool(call: TfliteCall) -> None:
        kernel = (call.option(4), call.option(3))
        stride = (call.option(2), call.option(1))
        if len(call.shape(0)) != 4:
            raise ModelError(f"{call.source[:60]!r} pools a value of {len(call.shape(0))} axes.")
        pads = _pads(call, spatial(call.shape(0)), kernel, stride, (1, 1))
        name = call.add(op, (call.live(0),), axes="NHWC", kernel=kernel, stride=stride, pads=pads)
        call.finish(name, 5)

    return pool


def _binary(op: str, fused: int | None = None) -> Callable[[TfliteCall], None]:
    def apply(call: TfliteCall) -> None:
        combine(call, op)
        if fused is not None:
            call.finish_answer(fused)

    return apply


def _clip(low: float, high: float) -> Callable[[TfliteCall], None]:
    return lambda call: call.emit("clip", (call.live(0),), low=low, high=high)


def _leaky(call: TfliteCall) -> None:
    call.emit("leaky_relu", (call.live(0),), alpha=call.real(0))


def _prelu(call: TfliteCall) -> None:
    prelu(call, 3, "NHWC")


def _gelu(call: TfliteCall) -> None:
    call.emit("gelu", (call.live(0),), approximate="tanh" if call.flag(0) else None)


def _softmax(call: TfliteCall) -> None:
    given = call.live(0)
    beta = call.real(0, 1.0)
    given = given if beta in (0, 1) else call.add("mul", (given,), scalar=beta)
    call.emit("softmax", (given,), axis=len(call.shape(0)) - 1)


def _log_softmax(call: TfliteCall) -> None:
    call.emit("log_softmax", (call.live(0),), axis=len(call.shape(0)) - 1)


def _l2(call: TfliteCall) -> None:
    call.finish(call.add("l2_normalize", (call.live(0),), axes=(len(call.shape(0)) - 1,)), 0)


def _lrn(call: TfliteCall) -> None:
    """TensorFlow does not divide alpha by the size."""
    size = 2 * call.option(0, 5) + 1
    settings = {"alpha": call.real(2, 1.0) * size, "beta": call.real(3, 0.5), "bias": call.real(1, 1.0)}
    call.emit("lrn", (call.live(0),), axes="NHWC", size=size, **settings)


def _squared_difference(call: TfliteCall) -> None:
    combine(call, "sub")
    made = call.state.values[call.outputs[0]]
    if isinstance(made, str):
        call.emit("square", (made,))


def _matmul(call: TfliteCall) -> None:
    a = call.flag(0) or None
    b = call.flag(1) or None
    call.emit("matmul", (call.live(0), call.live(1)), transpose_a=a, transpose_b=b)


def _embedding(call: TfliteCall) -> None:
    table = call.constant(1)
    if table is None:
        call.unknown("with a computed table")
    else:
        call.embed(table, 0)


def _cast(call: TfliteCall) -> None:
    """Translates a cast. A cast between real types changes nothing here; one that would cut off fractions stays
    unknown."""
    source, target = (call.state.tensors[index].dtype for index in (call.operator.inputs[0], call.operator.outputs[0]))
    if "float" not in source or "float" in target:
        call.emit("cast", (call.live(0),))
    elif target == "bool":
        call.emit("compare", (call.live(0),), kind="!=", scalar=0)
    else:
        call.unknown(f"to {target}", call.shape(0))


def _dequantize(call: TfliteCall) -> None:
    value = call.given(0)
    if isinstance(value, Constant):  # weights kept in 16 bits
        call.answer(value)
    else:
        call.emit("dequantize", (call.live(0),))


LAYERS: Final[dict[str, Callable[[TfliteCall], None]]] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _conv_transpose,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _matmul,
    "EMBEDDING_LOOKUP": _embedding,
    "MAX_POOL_2D": _pool("max_pool"),
    "AVERAGE_POOL_2D": _pool("avg_pool"),
    "LOCAL_RESPONSE_NORMALIZATION": _lrn,
    "L2_NORMALIZATION": _l2,
    "ADD": _binary("add", 0), "SUB": _binary("sub", 0), "MUL": _binary("mul", 0), "DIV": _binary("div", 0),
    "ADD_N": _binary("add"), "POW": _binary("pow"), "MAXIMUM": _binary("maximum"), "MINIMUM": _binary("minimum"),
    "SQUARED_DIFFERENCE": _squared_difference,
    **{
        op.upper(): unary(op)
        for op in ("relu", "relu6", "tanh", "hard_swish", "elu", "exp", "log", "sqrt", "rsqrt", "square", "abs", "neg",
                   "floor", "ceil", "round", "sin", "cos", "quantize")
    },
    "CAST": _cast,
    "RELU_N1_TO_1": _clip(-1.0, 1.0),
    "RELU_0_TO_1": _clip(0.0, 1.0),
    "LOGISTIC": unary("sigmoid"),
    "LEAKY_RELU": _leaky,
    "PRELU": _prelu,
    "GELU": _gelu,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _log_softmax,
    "DEQUANTIZE": _dequantize,
    "EQUAL": comparison("=="), "NOT_EQUAL": comparison("!="), "LESS": comparison("<"), "LESS_EQUAL": comparison("<="),
    "GREATER": comparison(">"), "GREATER_EQUAL": comparison(">="),
}  # fmt: skip
