"""What each Caffe layer is in our vocabulary. Values are NCHW; pools round up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.contrib.caffe.caffe_text import Message
from zoolens.contrib.caffe.net import CaffeLayer
from zoolens.findings.graph.importers import translation
from zoolens.findings.graph.importers.average_pooling import average
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.translation import unary
from zoolens.findings.graph.ir.model import Array, Shape, check_shape
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, spread


@dataclass
class CaffeTranslation(translation.Translation):
    blobs: dict[str, list[Array]] = field(default_factory=dict)


class CaffeCall(translation.OperatorCall):
    state: CaffeTranslation

    def __init__(self, layer: CaffeLayer, state: CaffeTranslation) -> None:
        self.layer, self.state = layer, state
        self.kind = layer.kind
        self.source = layer.name
        self.inputs = layer.bottoms
        self.outputs = layer.tops

    def declared(self, output: int) -> Shape | None:
        return None

    def options(self, name: str) -> CaffeOptions:
        return CaffeOptions(self.layer.section(name), self.source)

    def weight(self, index: int, shape: Sequence[int], change: Callable[[Array], Array] | None = None) -> Constant:
        """The layer's learned tensor of this number, which has this shape."""
        wanted = tuple(shape)
        check_shape(wanted, self.source, self.state.builder.name)

        def load() -> Array:
            blobs = self.state.blobs.get(self.source, [])
            if index >= len(blobs) or blobs[index].size != prod(wanted):
                raise ModelError(f"The .caffemodel does not hold what the layer {self.source[:60]!r} learned.")
            values = blobs[index] if change is None else change(blobs[index])
            return values.reshape(wanted)

        return Constant(wanted, "float32", f"{self.source}/{index}", load)


@dataclass(frozen=True)
class CaffeOptions:
    """One parameter message of a layer, read with types checked."""

    message: Message
    layer: str

    def whole(self, name: str, default: int) -> int:
        return int(self._number(name, default, int))

    def real(self, name: str, default: float) -> float:
        return float(self._number(name, default, (int, float)))

    def flag(self, name: str, *, default: bool) -> bool:
        return bool(self.message.get(name, [default])[-1])

    def word(self, name: str, default: str) -> str:
        return str(self.message.get(name, [default])[-1])

    def wholes(self, name: str) -> list[int]:
        values = self.message.get(name, [])
        if not all(isinstance(value, int) for value in values):
            raise ModelError(f"{name} of the Caffe layer {self.layer[:60]!r} is not made of whole numbers.")
        return [int(value) for value in values]

    def extents(self, name: str, short: str, default: int) -> Shape:
        """A window's setting for height and width: once, twice, or as `short`_h and `short`_w."""
        if f"{short}_h" in self.message or f"{short}_w" in self.message:
            return self.whole(f"{short}_h", default), self.whole(f"{short}_w", default)
        return spread(self.wholes(name), 2, default)

    def _number(self, name: str, default: float, kinds: Any) -> float:
        value = self.message.get(name, [default])[-1]
        if not isinstance(value, kinds):
            raise ModelError(f"{name} of the Caffe layer {self.layer[:60]!r} is {str(value)[:40]!r}, not a number.")
        return float(value) if kinds is not int else int(value)


def _convolution(call: CaffeCall) -> None:
    options = call.options("convolution_param")
    shape = call.shape(0)
    kernel = options.extents("kernel_size", "kernel", 0)
    stride = options.extents("stride", "stride", 1)
    out = options.whole("num_output", 0)
    groups = options.whole("group", 1)
    pads = options.extents("pad", "pad", 0)
    if "Depthwise" in call.kind:
        groups = shape[1]
    transposed = call.kind == "Deconvolution"
    if len(shape) != 4 or len(kernel) != 2 or groups < 1:
        raise ModelError(f"The Caffe layer {call.source[:60]!r} is no convolution over height and width.")
    inner = (shape[1], out // groups) if transposed else (out, shape[1] // groups)
    bias = call.weight(1, (out,)) if options.flag("bias_term", default=True) else None
    call.emit(
        "conv_transpose" if transposed else "conv",
        (call.live(0),),
        parameters=call.learned_layer(call.weight(0, (*inner, *kernel)), bias),
        axes="NCHW",
        kernel=kernel,
        stride=stride,
        dilation=spread(options.wholes("dilation"), 2, 1),
        pads=(*pads, *pads),
        groups=groups,
    )


def _inner_product(call: CaffeCall) -> None:
    options = call.options("inner_product_param")
    shape = call.shape(0)
    given = call.live(0)
    out = options.whole("num_output", 0)
    axis = call.axis(options.whole("axis", 1), len(shape))
    width = prod(shape[axis:])
    if axis != len(shape) - 1:
        given = call.add("flatten" if axis == 1 else "reshape", (given,), shape=(*shape[:axis], width))
    if options.flag("transpose", default=False):
        kernel = call.weight(0, (width, out)).transposed((1, 0))
    else:
        kernel = call.weight(0, (out, width))
    bias = call.weight(1, (out,)) if options.flag("bias_term", default=True) else None
    call.emit("dense", (given,), parameters=call.learned_layer(kernel, bias))


def _pooling(call: CaffeCall) -> None:
    options = call.options("pooling_param")
    shape = call.shape(0)
    kind = options.word("pool", "MAX")
    if len(shape) != 4 or kind not in ("MAX", "AVE"):
        call.unknown(kind[:20])
    elif options.flag("global_pooling", default=False):
        call.emit("max" if kind == "MAX" else "mean", (call.live(0),), axes=(2, 3), keep=True)
    else:
        _windowed(call, options, shape, kind)


def _windowed(call: CaffeCall, options: CaffeOptions, shape: Shape, kind: str) -> None:
    kernel = options.extents("kernel_size", "kernel", 0)
    stride = options.extents("stride", "stride", 1)
    pads = options.extents("pad", "pad", 0) * 2
    up = options.word("round_mode", "CEIL") == "CEIL" and options.flag("ceil_mode", default=True)
    fitted = ceil_pads(shape[2:], kernel, stride, (1, 1), pads) if up else pads
    if kind == "AVE":
        call.answer(average(call, call.live(0), kernel, stride, pads, fitted, counts=True))
    else:
        call.emit("max_pool", (call.live(0),), axes="NCHW", kernel=kernel, stride=stride, pads=fitted)


def _relu(call: CaffeCall) -> None:
    slope = call.options("relu_param").real("negative_slope", 0.0)
    call.emit("leaky_relu" if slope else "relu", (call.live(0),), alpha=slope or None)


def _prelu(call: CaffeCall) -> None:
    shared = call.options("prelu_param").flag("channel_shared", default=False)
    slope = call.weight(0, (1 if shared else call.shape(0)[1],))
    axes = "NCHW" if len(call.shape(0)) == 4 else ""
    call.emit("prelu", (call.live(0),), parameters=(call.state.parameter("alpha", slope),), axes=axes)


def _lrn(call: CaffeCall) -> None:
    options = call.options("lrn_param")
    if options.word("norm_region", "ACROSS_CHANNELS") != "ACROSS_CHANNELS":
        call.unknown("within channels", call.shape(0))
        return
    settings = {"alpha": options.real("alpha", 1.0), "beta": options.real("beta", 0.75), "bias": options.real("k", 1.0)}
    call.emit("lrn", (call.live(0),), axes="NCHW", size=options.whole("local_size", 5), **settings)


def _batch_norm(call: CaffeCall) -> None:
    """Caffe keeps its statistics multiplied by a factor, the third blob."""
    channels = call.shape(0)[1]

    def divided(values: Array) -> Array:
        blobs = call.state.blobs[call.source]
        factor = float(blobs[2].ravel()[0]) if len(blobs) > 2 and blobs[2].size else 1.0
        return np.asarray(values / factor if factor else values * 0, np.float32)

    parameters = [
        call.state.parameter("mean", call.weight(0, (channels,), divided)),
        call.state.parameter("variance", call.weight(1, (channels,), divided)),
    ]
    epsilon = call.options("batch_norm_param").real("eps", 1e-5)
    axes = "NCHW" if len(call.shape(0)) == 4 else ""
    call.emit("batch_norm", (call.live(0),), parameters=parameters, axes=axes, epsilon=epsilon)


def _scale(call: CaffeCall) -> None:
    """Caffe's other half of a batch norm, or a scale by itself, or a product of two values."""
    if len(call.inputs) > 1:
        call.unknown("by a value", call.shape(0))
        return
    options = call.options("scale_param")
    given = call.live(0)
    axis = call.axis(options.whole("axis", 1), len(call.shape(0)))
    width = (call.shape(0)[axis],)
    parameters = [call.state.parameter("scale", call.weight(0, width))]
    if options.flag("bias_term", default=False):
        parameters.append(call.state.parameter("shift", call.weight(1, width)))
    node = call.state.node(given)
    if node.op == "batch_norm" and axis == 1 and call.state.uses[call.inputs[0]] == 1 and len(node.parameters) == 2:
        call.state.builder.amend(given, parameters=(*parameters, *node.parameters))
        call.answer(given)
    else:
        call.emit("affine", (given,), parameters=parameters, axis=axis)


def _bias(call: CaffeCall) -> None:
    axis = call.axis(call.options("bias_param").whole("axis", 1), len(call.shape(0)))
    shift = call.state.parameter("shift", call.weight(0, (call.shape(0)[axis],)))
    call.emit("affine", (call.live(0),), parameters=(shift,), axis=axis)


def _concat(call: CaffeCall) -> None:
    options = call.options("concat_param")
    axis = options.whole("axis", options.whole("concat_dim", 1))
    call.emit("concat", [call.live(i) for i in range(len(call.inputs))], axis=call.axis(axis, len(call.shape(0))))


def _slice(call: CaffeCall) -> None:
    options = call.options("slice_param")
    shape = call.shape(0)
    given = call.live(0)
    axis = call.axis(options.whole("axis", options.whole("slice_dim", 1)), len(shape))
    count = len(call.outputs)
    points = options.wholes("slice_point") or [shape[axis] * i // count for i in range(1, count)]
    call.split(given, axis, [stop - start for start, stop in pairwise([0, *points, shape[axis]])])


def _eltwise(call: CaffeCall) -> None:
    options = call.options("eltwise_param")
    op = {"SUM": "add", "PROD": "mul", "MAX": "maximum"}.get(options.word("operation", "SUM"))
    factors = [float(value) for value in options.message.get("coeff", []) if isinstance(value, (int, float))]
    if op is None or not call.inputs:
        call.unknown()
        return
    values = [call.live(i) for i in range(len(call.inputs))]
    if op == "add" and len(factors) == len(values):
        values = [
            value if factor == 1 else call.add("mul", (value,), scalar=factor)
            for value, factor in zip(values, factors, strict=True)
        ]
    total = values[0]
    for value in values[1:]:
        total = call.add(op, (total, value))
    call.answer(total)


def _power(call: CaffeCall) -> None:
    """Translates (shift + scale · x) ** power."""
    options = call.options("power_param")
    value = call.live(0)
    for op, name, neutral in (("mul", "scale", 1.0), ("add", "shift", 0.0), ("pow", "power", 1.0)):
        number = options.real(name, neutral)
        value = value if number == neutral else call.add(op, (value,), scalar=number)
    call.answer(value)


def _softmax(call: CaffeCall) -> None:
    axis = call.options("softmax_param").whole("axis", 1)
    call.emit("softmax", (call.live(0),), axis=call.axis(axis, len(call.shape(0))))


def _flatten(call: CaffeCall) -> None:
    shape = call.shape(0)
    axis = call.options("flatten_param").whole("axis", 1)
    axis = call.axis(axis, len(shape))
    target = (*shape[:axis], prod(shape[axis:]))
    call.emit("flatten" if axis == 1 else "reshape", (call.live(0),), shape=target)


def _reshape(call: CaffeCall) -> None:
    shapes = call.layer.section("reshape_param").get("shape", [{}])
    dims = CaffeOptions(shapes[0] if isinstance(shapes[0], dict) else {}, call.source).wholes("dim")
    target = call.state.reshaped(call.shape(0), dims, zero_copies=True)
    call.emit("reshape", (call.live(0),), shape=target)


def _permute(call: CaffeCall) -> None:
    call.emit("transpose", (call.live(0),), perm=tuple(call.options("permute_param").wholes("order")))


def _shuffle(call: CaffeCall) -> None:
    groups = call.options("shuffle_channel_param").whole("group", 1)
    call.emit("channel_shuffle", (call.live(0),), axes="NCHW", groups=groups)


def _dropout(call: CaffeCall) -> None:
    call.emit("dropout", (call.live(0),), rate=call.options("dropout_param").real("dropout_ratio", 0.5))


def _split(call: CaffeCall) -> None:
    call.answer(*(call.live(0) for _ in call.outputs))


def _elu(call: CaffeCall) -> None:
    call.emit("elu", (call.live(0),), alpha=call.options("elu_param").real("alpha", 1.0))


LAYERS: Final[dict[str, Callable[[CaffeCall], None]]] = {
    **dict.fromkeys(("Convolution", "Deconvolution", "ConvolutionDepthwise", "DepthwiseConvolution"), _convolution),
    "InnerProduct": _inner_product,
    "Pooling": _pooling,
    "ReLU": _relu,
    "ReLU6": unary("relu6"),
    "PReLU": _prelu,
    "ELU": _elu,
    "Sigmoid": unary("sigmoid"),
    "TanH": unary("tanh"),
    "AbsVal": unary("abs"),
    "Power": _power,
    "LRN": _lrn,
    "BatchNorm": _batch_norm,
    "Scale": _scale,
    "Bias": _bias,
    "Concat": _concat,
    "Slice": _slice,
    "Eltwise": _eltwise,
    "Softmax": _softmax,
    "SoftmaxWithLoss": _softmax,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Permute": _permute,
    "ShuffleChannel": _shuffle,
    "Dropout": _dropout,
    "Split": _split,
}
