"""ONNX's learned layers, norms and pools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.average_pooling import average
from zoolens.findings.graph.importers.constants import Constant
from zoolens.findings.graph.importers.onnx.translation import SPATIAL_AXES, OnnxCall
from zoolens.findings.graph.ir.model import Parameter, Shape
from zoolens.findings.graph.ir.shapes import filled
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, same_pads, same_transposed_pads, slid, spread

_SCALE_BY_CHANNEL: Final = 21  # the opset from which a group norm has a scale for each channel
_CELL_ACTIVATIONS: Final = {"lstm": ("Sigmoid", "Tanh", "Tanh"), "gru": ("Sigmoid", "Tanh"), "rnn": ("Tanh",)}


def _axes(call: OnnxCall) -> str:
    return SPATIAL_AXES.get(len(call.shape(0)), "")


def learned_parameters(call: OnnxCall, **roles: int) -> list[Parameter] | None:
    """Inputs by position as parameters; None where one of them is computed, which the vocabulary has no word for."""
    parameters = []
    for role, position in roles.items():
        value = call.learned(position)
        if value is not None:
            parameters.append(call.state.parameter(role, value))
        elif call.given(position) is not None:
            return None
    return parameters


def window(call: OnnxCall, kernel: Shape) -> tuple[Shape, Shape, Shape]:
    """The stride, dilation and pads of a window, with auto_pad resolved."""
    count = len(kernel)
    stride = spread(call.integers("strides"), count, 1)
    dilation = spread(call.integers("dilations"), count, 1)
    mode = call.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = same_pads(call.shape(0)[2:], kernel, stride, dilation, lower=mode == "SAME_LOWER")
    else:
        pads = tuple(call.integers("pads") or ()) if mode == "NOTSET" else ()
    return stride, dilation, pads or (0,) * (2 * count)


def convolve(call: OnnxCall, kernel: Constant, bias: Constant | None, *, groups: int | None = None) -> None:
    if len(kernel.shape) != len(call.shape(0)) or len(kernel.shape) < 3:
        raise ModelError(f"{call.source[:60]!r} has a kernel with {len(kernel.shape)} axes, its input another number.")
    stride, dilation, pads = window(call, kernel.shape[2:])
    call.emit(
        "conv",
        (call.live(0),),
        parameters=call.learned_layer(kernel, bias),
        axes=_axes(call),
        kernel=kernel.shape[2:],
        stride=stride,
        dilation=dilation,
        pads=pads,
        groups=groups or call.get("group", 1),
    )


def _conv(call: OnnxCall) -> None:
    kernel = call.learned(1)
    bias = call.learned(2)
    if kernel is None or (bias is None and call.given(2) is not None):
        given, (out, depth, *extents) = call.shape(0), call.shape(1)
        shape = (given[0], out, *slid(given[2:], tuple(extents), *window(call, tuple(extents))))
        call.unknown("with a computed kernel", shape, macs=prod(shape) * depth * prod(extents))
    else:
        convolve(call, kernel, bias)


def _conv_transpose(call: OnnxCall) -> None:
    kernel = call.learned(1)
    parameters = learned_parameters(call, kernel=1, bias=2)
    if kernel is None or parameters is None:
        call.unknown("with a computed kernel")
        return
    extents = kernel.shape[2:]
    stride = spread(call.integers("strides"), len(extents), 1)
    dilation = spread(call.integers("dilations"), len(extents), 1)
    extra = spread(call.integers("output_padding"), len(extents), 0)
    call.emit(
        "conv_transpose",
        (call.live(0),),
        parameters=parameters,
        axes=_axes(call),
        kernel=extents,
        stride=stride,
        dilation=dilation,
        pads=_transposed_pads(call, extents, stride, dilation, extra),
        output_pads=extra,
        groups=call.get("group", 1),
    )


def _transposed_pads(call: OnnxCall, kernel: Shape, stride: Shape, dilation: Shape, extra: Shape) -> Shape:
    mode = call.get("auto_pad", "NOTSET")
    wanted = call.integers("output_shape")
    if wanted:
        given = call.shape(0)[2:]
        targets = zip(wanted[-len(kernel) :], given, stride, strict=True)
        extra = tuple(e + i * s - w for e, (w, i, s) in zip(extra, targets, strict=True))
    elif mode not in ("SAME_UPPER", "SAME_LOWER"):
        return tuple(call.integers("pads") or ()) or (0,) * (2 * len(kernel))
    # Here the odd one goes to the end for SAME_UPPER and to the begin otherwise.
    return same_transposed_pads(kernel, stride, dilation, extra, lower=mode != "SAME_UPPER")


def _batch_norm(call: OnnxCall) -> None:
    parameters = learned_parameters(call, scale=1, shift=2, mean=3, variance=4)
    if parameters is None or len(parameters) < 4:
        call.unknown("with computed statistics", call.shape(0))
        return
    if call.get("training_mode", 0):
        call.unknown("that takes the statistics of the batch", call.shape(0), macs=0)
        return
    if isinstance(call.given(3), str):
        _written_out(call)  # a kernel's own statistics, which are none of a layer that was trained
        return
    axes = _axes(call)
    call.emit("batch_norm", (call.live(0),), parameters=parameters, axes=axes, epsilon=call.get("epsilon", 1e-5))


def _written_out(call: OnnxCall) -> None:
    """Writes the norm as (x - mean) / sqrt(variance + epsilon) · scale + shift."""
    shape = (1, -1, *[1] * (len(call.shape(0)) - 2))
    scale, shift, mean, variance = (
        call.add("reshape", (call.live(i),), shape=filled(shape, call.shape(i))) for i in (1, 2, 3, 4)
    )
    root = call.add("sqrt", (call.add("add", (variance,), scalar=call.get("epsilon", 1e-5)),))
    value = call.add("div", (call.add("sub", (call.live(0), mean)), root))
    call.emit("add", (call.add("mul", (value, scale)), shift))


def _instance_norm(call: OnnxCall) -> None:
    """Scales of 1 and shifts of 0 say nothing: exporters write them where a group norm is spelled out."""
    scale = call.learned(1)
    shift = call.learned(2)
    plain = all(constant is not None and constant.is_small for constant in (scale, shift))
    if scale is None or shift is None or not plain or (scale.values() != 1).any() or shift.values().any():
        _norm("instance_norm")(call)
    else:
        call.emit("instance_norm", (call.live(0),), axes=_axes(call), epsilon=call.get("epsilon", 1e-5))


def _norm(op: str) -> Callable[[OnnxCall], None]:
    def norm(call: OnnxCall) -> None:
        parameters = learned_parameters(call, scale=1, shift=2)
        if parameters is None:
            call.unknown("with a computed scale", call.shape(0))
            return
        axes: str | Shape = _axes(call)
        groups = None
        if op in ("layer_norm", "rms_norm"):
            rank = len(call.shape(0))
            axes = tuple(range(call.axis(call.get("axis", -1), rank), rank))
        if op == "group_norm":
            groups = call.get("num_groups", 1)
            if call.opset < _SCALE_BY_CHANNEL and groups != call.shape(0)[1]:
                call.unknown("with one scale for each group", call.shape(0))
                return
        epsilon = call.get("epsilon", 1e-5)
        call.emit(op, (call.live(0),), parameters=parameters, axes=axes, epsilon=epsilon, groups=groups)

    return norm


def _lrn(call: OnnxCall) -> None:
    call.emit(
        "lrn",
        (call.live(0),),
        axes=_axes(call),
        size=call.get("size", 1),
        alpha=call.get("alpha", 1e-4),
        beta=call.get("beta", 0.75),
        bias=call.get("bias", 1.0),
    )


def _pool_window(call: OnnxCall) -> tuple[Shape, Shape, Shape, Shape, Shape]:
    """The kernel, stride and dilation of a pool, the file's own pads, and its pads with "ceil" resolved."""
    kernel = tuple(call.integers("kernel_shape") or ())
    stride, dilation, pads = window(call, kernel)
    if len(kernel) != len(call.shape(0)) - 2:
        raise ModelError(f"{call.source[:60]!r} pools {len(kernel)} of {len(call.shape(0)) - 2} axes.")
    fitted = ceil_pads(call.shape(0)[2:], kernel, stride, dilation, pads) if call.get("ceil_mode", 0) else pads
    return kernel, stride, dilation, pads, fitted


def max_pool(call: OnnxCall) -> None:
    kernel, stride, dilation, _, pads = _pool_window(call)
    name = call.add(
        "max_pool",
        (call.live(0),),
        axes=_axes(call),
        kernel=kernel,
        stride=stride,
        dilation=dilation if set(dilation) != {1} else None,
        pads=pads,
    )
    if len([output for output in call.node.outputs if output]) > 1:
        call.unknown("with indices", *[call.state.shape(name)] * 2)
    else:
        call.answer(name)


def avg_pool(call: OnnxCall) -> None:
    kernel, stride, dilation, pads, fitted = _pool_window(call)
    if set(dilation) != {1}:
        call.unknown("with dilation", (*call.shape(0)[:2], *slid(call.shape(0)[2:], kernel, stride, dilation, fitted)))
        return
    counts = bool(call.get("count_include_pad", 0))
    call.answer(average(call, call.live(0), kernel, stride, pads, fitted, counts=counts))


def global_pool(op: str) -> Callable[[OnnxCall], None]:
    def pool(call: OnnxCall) -> None:
        call.emit(op, (call.live(0),), axes=tuple(range(2, len(call.shape(0)))), keep=True)

    return pool


def _recurrent(kind: str) -> Callable[[OnnxCall], None]:
    def layer(call: OnnxCall) -> None:
        recurrent(call, kind, learned_parameters(call, kernel=1, recurrent_kernel=2, bias=3, peephole=7))

    return layer


def recurrent(call: OnnxCall, kind: str, parameters: list[Parameter] | None) -> None:
    """A recurrent layer; `parameters` is None where one of its kernels is computed."""
    if parameters is None or len(call.shape(0)) != 3:
        call.unknown("with a computed kernel")
        return
    batch_first = bool(call.get("layout", 0))
    steps, batch = call.shape(0)[1::-1] if batch_first else call.shape(0)[:2]
    directions = parameters[0].shape[0]
    hidden = call.get("hidden_size", parameters[1].shape[-1])
    first = call.add(
        "recurrent",
        (call.live(0), *_initial_states(call)),
        shape=(batch, steps, directions, hidden) if batch_first else (steps, directions, batch, hidden),
        parameters=parameters,
        kind=kind,
        hidden=hidden,
        layers=1,
        bidirectional=directions == 2,
        **_cell_settings(call, kind),
    )
    state = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    count = len(call.node.outputs)
    further = [call.add("output_of", (first,), shape=state, output=i, index=i) for i in range(1, count)]
    call.answer(first, *further)


def _initial_states(call: OnnxCall) -> Iterator[str]:
    """The lengths of sequences and the states to begin with, where they are computed or learned; zeros are none."""
    for position in (4, 5, 6):
        value = call.given(position)
        if call.is_usual_start(position) or (position == 4 and isinstance(value, Constant)):
            continue
        if value is not None:
            yield call.live(position)


def _cell_settings(call: OnnxCall, kind: str) -> dict[str, Any]:
    """What a cell does otherwise than those of torch; None where it does as they do."""
    activations = tuple(str(name) for name in call.attributes.get("activations") or ())
    usual = _CELL_ACTIVATIONS[kind] * (2 if call.get("direction", "forward") == "bidirectional" else 1)
    return {
        "reverse": call.get("direction", "forward") == "reverse" or None,
        "activations": activations if activations not in ((), usual) else None,
        "clip": call.get("clip") or None,
        "reset_first": (kind == "gru" and not call.get("linear_before_reset", 0)) or None,
        "coupled": bool(call.get("input_forget", 0)) or None,
    }


LAYERS: Final[dict[str, Callable[[OnnxCall], None]]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _norm("layer_norm"),
    "SimplifiedLayerNormalization": _norm("rms_norm"),
    "RMSNormalization": _norm("rms_norm"),
    "GroupNormalization": _norm("group_norm"),
    "InstanceNormalization": _instance_norm,
    "LRN": _lrn,
    "MaxPool": max_pool,
    "AveragePool": avg_pool,
    "GlobalAveragePool": global_pool("mean"),
    "GlobalMaxPool": global_pool("max"),
    "LSTM": _recurrent("lstm"),
    "GRU": _recurrent("gru"),
    "RNN": _recurrent("rnn"),
}
