"""aten operators that are layers: convolutions, norms, pools, attention."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any, Final

from zoolens.findings.graph.importers.torch.trace import Lowering, TorchCall, tensors_in
from zoolens.findings.graph.ir.sliding_windows import covering_ends

_AXES: Final = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


def axes_of(call: TorchCall) -> str:
    return _AXES.get(len(call.shape), "")


def per_axis(value: Any, count: int) -> tuple[int, ...]:
    """One entry for each axis, from what torch takes for all axes: one number, or a list of one."""
    if isinstance(value, int):
        return (value,) * count
    numbers = tuple(int(number) for number in value)
    return numbers * count if len(numbers) == 1 else numbers


def conv(call: TorchCall) -> str:
    kernel = call["weight"]
    bias = call["bias"]
    if call.trace.depends_on_input(kernel):
        return call.unknown(" with a computed kernel")
    extents = tuple(kernel.shape[2:])
    count = len(extents)
    dilation = per_axis(call["dilation"], count)
    x = call["input"]
    if x.dim() != kernel.dim():
        return call.unknown(" without a batch axis")
    return call.add(
        "conv",
        call.trace.value(x),
        kernel=extents,
        stride=_unless(per_axis(call["stride"], count), 1),
        dilation=_unless(dilation, 1),
        pads=_unless(_conv_pads(call["padding"], extents, dilation), 0),
        groups=call["groups"] if call["groups"] != 1 else None,
        axes=axes_of(call),
        parameters=call.parameters(kernel=kernel, bias=bias),
    )


def _unless(extents: tuple[int, ...], default: int) -> tuple[int, ...] | None:
    """Returns the values, or None, which leaves the attribute out, where all are the default."""
    if all(extent == default for extent in extents):
        return None
    return extents


def _conv_pads(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    if padding == "same":  # torch puts the odd one at the end
        totals = [step * (extent - 1) for extent, step in zip(kernel, dilation, strict=True)]
        return (*(total // 2 for total in totals), *(total - total // 2 for total in totals))
    begins = (0,) * len(kernel) if padding == "valid" else per_axis(padding, len(kernel))
    return begins * 2


def general_conv(call: TorchCall) -> str:
    return conv_transpose(call) if call["transposed"] else conv(call)


def conv_transpose(call: TorchCall) -> str:
    kernel = call["weight"]
    if call.trace.depends_on_input(kernel):
        return call.unknown(" with a computed kernel")
    count = kernel.dim() - 2
    return call.add(
        "conv_transpose",
        call.value("input"),
        kernel=tuple(kernel.shape[2:]),
        stride=_unless(per_axis(call["stride"], count), 1),
        dilation=_unless(per_axis(call["dilation"], count), 1),
        pads=_unless(per_axis(call["padding"], count) * 2, 0),
        output_pads=_unless(per_axis(call["output_padding"], count), 0),
        groups=call["groups"] if call["groups"] != 1 else None,
        axes=axes_of(call),
        parameters=call.parameters(kernel=kernel, bias=call["bias"]),
    )


def dense(call: TorchCall) -> str:
    if call.trace.depends_on_input(call["weight"]):
        return call.unknown(" with a computed kernel")
    parameters = call.parameters(kernel=call["weight"], bias=call["bias"])
    return call.add("dense", call.value("input"), parameters=parameters)


def batch_norm(call: TorchCall) -> str:
    mean = call["running_mean"]
    variance = call["running_var"]
    if mean is None or call.get("training"):
        return call.unknown(" with statistics of its input")
    parameters = call.parameters(scale=call["weight"], shift=call["bias"], mean=mean, variance=variance)
    return call.add("batch_norm", call.value("input"), epsilon=call["eps"], axes=axes_of(call), parameters=parameters)


def instance_norm(call: TorchCall) -> str:
    if not call["use_input_stats"]:
        return batch_norm(call)
    return _norm(call, "instance_norm", axes_of(call))


def _norm(call: TorchCall, op: str, axes: str | tuple[int, ...], **settings: Any) -> str:
    parameters = call.parameters(scale=call["weight"], shift=call["bias"])
    return call.add(op, call.value("input"), epsilon=call["eps"], axes=axes, parameters=parameters, **settings)


def group_norm(call: TorchCall) -> str:
    return _norm(call, "group_norm", axes_of(call), groups=call["num_groups"])


def _last_axes(call: TorchCall) -> tuple[int, ...]:
    rank = len(call.shape)
    return tuple(range(rank - len(call["normalized_shape"]), rank))


def layer_norm(call: TorchCall) -> str:
    return _norm(call, "layer_norm", _last_axes(call))


def rms_norm(call: TorchCall) -> str:
    parameters = call.parameters(scale=call["weight"])
    epsilon = call["eps"] if call["eps"] is not None else 1.1920928955078125e-07  # float32's own, as torch does
    return call.add("rms_norm", call.value("input"), epsilon=epsilon, axes=_last_axes(call), parameters=parameters)


def embedding(call: TorchCall) -> str:
    if call.trace.depends_on_input(call["weight"]):
        return call.unknown(" with a computed table")
    return call.add("embedding", call.value("indices"), parameters=call.parameters(table=call["weight"]))


def max_pool(call: TorchCall) -> Any:
    geometry = _pool_geometry(call)
    dilation = _unless(per_axis(call["dilation"], len(geometry["kernel"])), 1)
    return call.add("max_pool", call.value("self"), dilation=dilation, axes=axes_of(call), **geometry)


def max_pool_with_indices(call: TorchCall) -> Any:
    call.result = call.result[0]  # the indices are of use to unpooling only
    return max_pool(call)


def avg_pool(call: TorchCall) -> str:
    if call.get("divisor_override"):
        return call.unknown(" with a divisor of its own")
    geometry = _pool_geometry(call)
    x = call.value("self")
    begins = per_axis(call["padding"], len(geometry["kernel"]))
    counted = bool(any(begins) and call["count_include_pad"])
    if counted and geometry["pads"] != begins * 2:
        # What ceil mode adds beyond the declared padding is never counted: only the rest is padded by hand.
        shape = [extent + 2 * pad for extent, pad in zip(call["self"].shape, (0, 0, *begins), strict=True)]
        x = call.add("pad", x, shape=shape, pads=(0, 0, *begins) * 2, axes=axes_of(call))
        rest = tuple(a - b for a, b in zip(geometry["pads"], begins * 2, strict=True))
        geometry = {**geometry, "pads": rest}
        counted = False
    return call.add("avg_pool", x, count_pad=counted or None, axes=axes_of(call), **geometry)


def _pool_geometry(call: TorchCall) -> dict[str, Any]:
    x = call["self"]
    count = len(call.shape) - 2
    kernel = per_axis(call["kernel_size"], count)
    stride = per_axis(call["stride"], count) if call["stride"] else kernel
    begins = per_axis(call["padding"], count)
    dilation = per_axis(call.get("dilation", 1), count)
    ends = begins
    if call["ceil_mode"]:
        ends = covering_ends(tuple(x.shape[2:]), call.shape[2:], kernel, stride, dilation, begins)
    return {"kernel": kernel, "stride": _unless(stride, 1), "pads": _unless((*begins, *ends), 0)}


def adaptive_pool(op: str) -> Lowering:
    def lower(call: TorchCall) -> Any:
        if isinstance(call.result, tuple):
            call.result = call.result[0]
        return call.add(op, call.value("self"), size=call.shape[2:], axes=axes_of(call))

    return lower


def attention(call: TorchCall) -> str:
    query = call["query"]
    inputs = [call.value(name) for name in ("query", "key", "value")]
    if call["attn_mask"] is not None:
        inputs.append(call.value("attn_mask"))
    scale = call["scale"] if call["scale"] is not None else 1 / sqrt(query.shape[-1])
    heads = query.shape[1] if query.dim() == 4 else 1
    return call.add("attention", *inputs, heads=heads, scale=scale, causal=True if call["is_causal"] else None)


def recurrent(kind: str, activation: str | None = None) -> Lowering:
    """Lowers lstm, gru and rnn, whose `params` are the kernels and biases of all layers and directions."""

    def lower(call: TorchCall) -> str:
        if "input" not in call.arguments or "params" not in call.arguments:
            return call.unknown(" of packed sequences")
        names = _recurrent_roles(len(call["params"]), call["num_layers"], call["bidirectional"], call["has_biases"])
        parameters = [call.trace.parameter(role, tensor) for role, tensor in zip(names, call["params"], strict=True)]
        first = call.result[0]
        states = zip(("state", "cell"), tensors_in([call["hx"]]), strict=False)
        given = {role: call.trace.value(tensor) for role, tensor in states if not _is_zero(call, tensor)}
        return call.add(
            "recurrent",
            call.value("input"),
            *given.values(),
            shape=tuple(first.shape),
            kind=kind,
            hidden=int(call["params"][1].shape[-1]),
            layers=call["num_layers"],
            bidirectional=call["bidirectional"] or None,
            given=tuple(given) or None,
            packing="torch",
            batch_first=call["batch_first"] or None,
            activations=(activation,) * (1 + call["bidirectional"]) if activation else None,
            parameters=parameters,
        )

    return lower


def _is_zero(call: TorchCall, tensor: Any) -> bool:
    """Whether an initial state is one of zeros, which no input, weight or buffer changes."""
    trace = call.trace
    if trace.depends_on_input(tensor) or trace.is_static(tensor) or id(tensor) in trace.buffers:
        return False
    return bool(tensor.is_meta or not tensor.any())


def _recurrent_roles(count: int, layers: int, bidirectional: bool, biases: bool) -> Iterator[str]:
    """The roles of the tensors, layer by layer and direction by direction, as torch lists them."""
    cells = layers * (2 if bidirectional else 1)
    each = ("kernel", "recurrent_kernel", *(("bias", "recurrent_bias") if biases else ()))
    return iter((*each, "projection") * cells if count > len(each) * cells else each * cells)


LAYERS: Final[dict[str, Lowering]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), conv),
    "convolution": general_conv,
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), conv_transpose),
    "linear": dense,
    "batch_norm": batch_norm,
    "instance_norm": instance_norm,
    "group_norm": group_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "embedding": embedding,
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), max_pool),
    "max_pool2d_with_indices": max_pool_with_indices,
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), avg_pool),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), adaptive_pool("adaptive_avg_pool")
    ),
    **dict.fromkeys(
        ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"), adaptive_pool("adaptive_max_pool")
    ),
    "scaled_dot_product_attention": attention,
    "lstm": recurrent("lstm"),
    "gru": recurrent("gru"),
    "rnn_tanh": recurrent("rnn"),
    "rnn_relu": recurrent("rnn", "Relu"),
}
