"""Quantised ONNX models: the same layers with scales and zero points among their inputs.

They are read as the layers they stand for; weights are dequantised when they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Final

import numpy as np

from zoolens.findings.graph.importers.constants import Constant, computed
from zoolens.findings.graph.importers.onnx.arithmetic import ARITHMETIC, activation, dense
from zoolens.findings.graph.importers.onnx.attention import packed_attention
from zoolens.findings.graph.importers.onnx.few_bits import few_bits
from zoolens.findings.graph.importers.onnx.onnx_layers import avg_pool, convolve, learned_parameters, recurrent
from zoolens.findings.graph.importers.onnx.translation import OnnxCall
from zoolens.findings.graph.importers.quantised_relu import cut, integer_range
from zoolens.findings.graph.ir.model import Array
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode

_MOVING: Final = frozenset({"Gather", "Slice", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity"})


def dequantised(call: OnnxCall, value: Constant, scale: int, zero: int, *, axis: int = 0) -> Constant:
    """A constant as the real numbers it stands for; `scale` and `zero` are positions of inputs."""
    return real_numbers(value, call.constant(scale), call.constant(zero), axis=axis)


def real_numbers(value: Constant, scales: Constant | None, zeros: Constant | None, *, axis: int = 0) -> Constant:
    def load() -> Array:
        factor = np.float32(1) if scales is None else scales.load()
        offset = 0 if zeros is None else zeros.load()
        shape = _along(np.asarray(factor), value, axis)
        shift = np.asarray(offset, np.float32)
        return np.asarray(value.load().astype(np.float32) - shift.reshape(shape if shift.size > 1 else ())) * (
            np.asarray(factor, np.float32).reshape(shape)
        )

    return Constant(value.shape, "float32", value.key, load)


def _along(scales: Array, value: Constant, axis: int) -> tuple[int, ...]:
    if scales.size == 1:
        return ()
    return tuple(-1 if i == axis % len(value.shape) else 1 for i in range(len(value.shape)))


def _bias(call: OnnxCall, position: int, given_scale: int, kernel_scale: int) -> Constant | None:
    """A bias is in units of the input's scale times the kernel's."""
    value = call.constant(position)
    a = call.constant(given_scale)
    b = call.constant(kernel_scale)
    if value is None or a is None or b is None:
        return value
    return Constant(value.shape, "float32", value.key, lambda: value.load() * a.load().ravel() * b.load().ravel())


# --- quantise and back


def _quantize(call: OnnxCall) -> None:
    value = call.given(0)
    if isinstance(value, Constant):
        call.answer(_rounded(call, value))
        return
    name = call.add("quantize", (_cut(call, call.live(0), 1, 2),))
    _note_zero_point(call, name, 2)
    call.answer(name)


def _rounded(call: OnnxCall, value: Constant) -> Constant:
    """Weights that a file quantises itself; they stay real numbers until `DequantizeLinear` takes them."""
    scale = call.constant(1)
    zero = call.constant(2)
    low, high = integer_range(zero.dtype if zero is not None else "uint8")
    axis = call.get("axis", 1)

    def load() -> Array:
        factor = np.float32(1) if scale is None else scale.load()
        offset = np.asarray(0 if zero is None else zero.load(), np.float32)
        shape = _along(np.asarray(factor), value, axis)
        steps = np.round(value.load() / np.asarray(factor).reshape(shape))
        return np.asarray(np.clip(steps + offset.reshape(shape if offset.size > 1 else ()), low, high))

    return Constant(value.shape, "float32", value.key, load)


def scaled_tables(file: OnnxGraph) -> dict[str, OnnxNode]:
    """The `DequantizeLinear` of tensors that are rearranged before it, such as the table of an embedding, by tensor."""
    makers = {name: node for node in file.nodes for name in node.outputs}
    uses = Counter(name for node in file.nodes for name in node.inputs)
    found: dict[str, OnnxNode] = {}
    for node in file.nodes:
        name = node.inputs[0] if node.op == "DequantizeLinear" else ""
        moved = False
        while (maker := makers.get(name)) is not None and maker.op in _MOVING and uses[name] == 1:
            name = maker.inputs[0]
            moved = True
        tensor = file.constants.get(name)
        scale = file.constants.get(node.inputs[1]) if tensor else None
        if moved and tensor and scale and prod(scale.shape) == 1 and uses[name] == 1 and "int" in tensor.dtype:
            found[name] = node
    return found


def _dequantize(call: OnnxCall) -> None:
    value = call.given(0)
    if call.outputs[0] in call.state.scaled_early:
        call.answer(call.needed(0))
    elif isinstance(value, Constant):
        call.answer(dequantised(call, value, 1, 2, axis=call.get("axis", 1)))
    else:
        call.emit("dequantize", (call.live(0),))


def _dynamic_quantize(call: OnnxCall) -> None:
    """The value goes on as real numbers, so that its scale is 1 and its zero point 0."""
    value = call.add("quantize", (call.live(0),))
    scale = computed(np.ones((), np.float32), f"{call.source}.scale")
    zero = computed(np.zeros((), np.uint8), f"{call.source}.zero")
    call.answer(value, scale, zero)


def _cut(call: OnnxCall, value: str, scale: int, zero: int) -> str:
    scales = call.constant(scale)
    zeros = call.constant(zero)
    if scales is None or scales.size != 1 or (zeros is not None and zeros.size != 1):
        return value
    point = 0 if zeros is None else int(zeros.values().item())
    return cut(call, value, "uint8" if zeros is None else zeros.dtype, float(scales.values().item()), point)


# --- layers


def _conv(call: OnnxCall) -> None:
    kernel = call.constant(3)
    if kernel is None:
        call.unknown("with a computed kernel")
        return
    convolve(call, dequantised(call, kernel, 4, 5), _bias(call, 8, 1, 4))
    _cut_answer(call, 6, 7)


def _matmul(call: OnnxCall) -> None:
    kernel = call.constant(3)
    if kernel is not None and len(kernel.shape) == 2:
        dense(call, dequantised(call, kernel, 4, 5, axis=1).transposed((1, 0)), None)
    else:
        call.emit("matmul", (call.live(0), call.live(3)))
    _cut_answer(call, 6, 7)


def _gemm(call: OnnxCall) -> None:
    kernel = call.constant(3)
    if kernel is None or call.get("transA", 0) or call.get("alpha", 1.0) != 1:
        call.unknown("with a computed kernel")
        return
    turned = bool(call.get("transB", 0))
    real = dequantised(call, kernel, 4, 5, axis=0 if turned else 1)
    dense(call, real if turned else real.transposed((1, 0)), _bias(call, 6, 1, 4))
    _cut_answer(call, 7, 8)


def _binary(op: str) -> Callable[[OnnxCall], None]:
    def combine(call: OnnxCall) -> None:
        call.emit(op, [_real(call, position) for position in (0, 3)])
        _cut_answer(call, 6, 7)

    return combine


def _real(call: OnnxCall, position: int) -> str:
    """An input that its scale and zero point follow, as a node of real numbers."""
    value = call.needed(position)
    if isinstance(value, str):
        return value
    return call.state.materialised(dequantised(call, value, position + 1, position + 2))


def _add(call: OnnxCall) -> None:
    """A bias added to a dense layer in a step of its own."""
    bias = call.constant(3)
    live = call.given(0)
    node = call.state.node(live) if isinstance(live, str) else None
    if bias is None or node is None or node.op != "dense" or bias.size != node.shape[-1] or node.parameter("bias"):
        _binary("add")(call)
        return
    real = dequantised(call, bias, 4, 5).reshaped((bias.size,))
    call.state.builder.amend(node.name, parameters=(*node.parameters, call.state.parameter("bias", real)))
    call.answer(node.name)
    _cut_answer(call, 6, 7)


def _cut_answer(call: OnnxCall, scale: int, zero: int) -> None:
    made = call.state.values[call.node.outputs[0]]
    if isinstance(made, str):
        name = _cut(call, made, scale, zero)
        _note_zero_point(call, name, zero)
        call.answer(name)


def _note_zero_point(call: OnnxCall, name: str, position: int) -> None:
    """Remembers the whole number that stands for 0: what pads a quantised value says it."""
    zero = call.constant(position)
    if zero is None or zero.size == 1:
        call.state.zero_points[name] = 0 if zero is None else int(zero.values().item())


# --- products of whole numbers, whose scales come after them


def _conv_integer(call: OnnxCall) -> None:
    kernel = call.constant(1)
    if kernel is None:
        call.unknown("with a computed kernel")
        return
    convolve(call, dequantised(call, kernel, -1, 3), None)
    _await_scale(call)


def _matmul_integer(call: OnnxCall) -> None:
    kernel = call.constant(1)
    if kernel is None or len(kernel.shape) != 2:
        call.emit("matmul", (call.live(0), call.live(1)))
        return
    dense(call, dequantised(call, kernel, -1, 3, axis=1).transposed((1, 0)), None)
    _await_scale(call)


def _await_scale(call: OnnxCall) -> None:
    node = call.state.values[call.outputs[0]]
    assert isinstance(node, str)  # a layer was just made
    call.state.unscaled.add(node)


def _cast(call: OnnxCall) -> None:
    """The cast between a product of whole numbers and its scale."""
    value = call.given(0)
    if isinstance(value, str) and value in call.state.unscaled:
        call.answer(value)
    else:
        ARITHMETIC["Cast"](call)


def _scale(call: OnnxCall) -> None:
    """A scale of a product of whole numbers belongs to its kernel: that of the input is 1 here."""
    for layer, factor in ((call.given(0), call.given(1)), (call.given(1), call.given(0))):
        if isinstance(layer, str) and layer in call.state.unscaled and isinstance(factor, Constant):
            _rescaled(call, layer, factor)
            return
    ARITHMETIC["Mul"](call)


def _rescaled(call: OnnxCall, layer: str, factor: Constant) -> None:
    state = call.state
    state.unscaled.discard(layer)
    node = state.node(layer)
    kernel = node.parameter("kernel")
    assert kernel is not None  # of a convolution or a dense layer
    if factor.size not in (1, kernel.shape[0]):
        ARITHMETIC["Mul"](call)
        return
    values = state.builder.weights.get(kernel.key)
    if values is not None:
        scales = np.asarray(factor.load(), np.float32).reshape(-1, *(1,) * (len(kernel.shape) - 1))
        state.builder.weights[kernel.key] = values * scales
    call.answer(layer)


def _dynamic_matmul(scales: tuple[int, int], bias: int) -> Callable[[OnnxCall], None]:
    """A product that quantises its input itself; `scales` are the positions of the kernel's scale and zero point."""

    def product(call: OnnxCall) -> None:
        kernel = call.constant(1)
        if kernel is None or len(kernel.shape) != 2 or call.is_computed(bias):
            call.unknown("with a computed kernel or bias")
            return
        real = dequantised(call, kernel, *scales, axis=1)
        dense(call, real.transposed((1, 0)), call.constant(bias))

    return product


def _attention(call: OnnxCall) -> None:
    """QAttention: input, matrix, biases, scales of input and matrix, mask, zero points of input and matrix, past."""
    kernel = call.constant(1)
    if kernel is None or len(kernel.shape) != 2 or call.is_computed(2):
        call.unknown("with a computed kernel or bias")
        return
    real = dequantised(call, kernel, 4, 7, axis=1)
    packed_attention(call, real, call.constant(2), mask=5, past=8, added=9)


def _lstm(call: OnnxCall) -> None:
    """DynamicQuantizeLSTM: the inputs of LSTM, then scale and zero point of both kernels. Kernels are (directions,
    inputs, gates), which in LSTM is (directions, gates, inputs)."""
    kernels = {"kernel": _gates(call, 1, 8), "recurrent_kernel": _gates(call, 2, 10)}
    beside = learned_parameters(call, bias=3, peephole=7)
    if beside is None or None in kernels.values():
        recurrent(call, "lstm", None)
        return
    held = [call.state.parameter(role, kernel) for role, kernel in kernels.items() if kernel is not None]
    recurrent(call, "lstm", [*held, *beside])


def _gates(call: OnnxCall, position: int, scale: int) -> Constant | None:
    """A kernel in real numbers; it has one scale for each direction, or one for each of its gates' outputs."""
    kernel = call.constant(position)
    scales = call.constant(scale)
    zeros = call.constant(scale + 1)
    if kernel is None or scales is None or len(kernel.shape) != 3:
        return None
    directions = kernel.shape[0]

    def load() -> Array:
        factor = np.asarray(scales.load(), np.float32).reshape(directions, 1, -1)
        offset = np.float32(0) if zeros is None else zeros.load().astype(np.float32).reshape(directions, 1, -1)
        return np.asarray((kernel.load().astype(np.float32) - offset) * factor)

    return Constant(kernel.shape, "float32", kernel.key, load).transposed((0, 2, 1))


# --- other operators


def _global_pool(call: OnnxCall) -> None:
    last = bool(call.get("channels_last", 0))
    rank = len(call.shape(0))
    axes = tuple(range(1, rank - 1)) if last else tuple(range(2, rank))
    call.emit("mean", (call.live(0),), axes=axes, keep=True)


def _concat(call: OnnxCall) -> None:
    """Inputs are y_scale, y_zero_point, then (value, scale, zero point) of each part."""
    parts = [_real(call, i) for i in range(2, len(call.node.inputs), 3)]
    call.emit("concat", parts, axis=call.axis(call.get("axis", 1), len(call.shape(2))))


def _softmax(call: OnnxCall) -> None:
    call.emit("softmax", (call.live(0),), axis=call.axis(call.get("axis", -1), len(call.shape(0))))


QUANTISED: Final[dict[str, Callable[[OnnxCall], None]]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "QLinearConv": _conv,
    "QLinearMatMul": _matmul,
    "QGemm": _gemm,
    "QLinearAdd": _add,
    "QLinearMul": _binary("mul"),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _global_pool,
    "QLinearAveragePool": avg_pool,
    "QLinearSigmoid": activation("sigmoid"),
    "QLinearLeakyRelu": activation("leaky_relu", alpha=0.01),
    "QLinearSoftmax": _softmax,
    "ConvInteger": _conv_integer,
    "MatMulInteger": _matmul_integer,
    "DynamicQuantizeMatMul": _dynamic_matmul((2, 3), 4),
    "MatMulIntegerToFloat": _dynamic_matmul((3, 5), 6),
    "MatMulNBits": few_bits,
    "QAttention": _attention,
    "DynamicQuantizeLSTM": _lstm,
}
# Operators that are no quantised ones, but may follow a product of whole numbers.
RESCALED: Final[dict[str, Callable[[OnnxCall], None]]] = {"Cast": _cast, "Mul": _scale}
