"""Keras layers as nodes of our vocabulary: `LAYERS` has one small function per kind of layer.

A layer that is not in it becomes an `unknown` node that still carries its learned tensors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.importers.keras.attention import einsum_dense
from zoolens.findings.graph.importers.keras.keras_activations import activate
from zoolens.findings.graph.importers.keras.norms import (
    batch_norm,
    group_norm,
    layer_norm,
    normalization,
    rms_norm,
    unit_norm,
)
from zoolens.findings.graph.importers.keras.walk import (
    Handler,
    KerasCall,
    KerasWalk,
    Ref,
    axes_name,
    concatenate,
    plain,
    scalar_of,
    spatial,
)
from zoolens.findings.graph.importers.padding_modes import explicit_pads
from zoolens.findings.graph.ir.builder import Arrange
from zoolens.findings.graph.ir.model import Array, Parameter, Shape
from zoolens.findings.graph.ir.sliding_windows import fitted_transposed_pads

_HIDDEN: Final = -1e9  # what a mask adds to the numbers that it hides, as Keras does


def _last(layer: Any) -> bool:
    return bool(layer.data_format == "channels_last")


def _conv_kernel(values: Array) -> Array:
    return np.moveaxis(values, (-1, -2), (0, 1))  # (*kernel, in, out) -> (out, in, *kernel)


def _depthwise_kernel(values: Array) -> Array:
    """Turns (*kernel, channels, multiplier) into (channels · multiplier, 1, *kernel): the multiplier runs fastest."""
    moved = np.moveaxis(values, (-2, -1), (0, 1))
    return moved.reshape(-1, 1, *values.shape[:-2])


def _convolve(walk: KerasWalk, call: KerasCall, shape: Shape, groups: int, parameters: list[Parameter]) -> str:
    layer = call.target
    extents = spatial(walk.shape(call.value), _last(layer))
    pads = explicit_pads(layer.padding, extents, layer.kernel_size, layer.strides, layer.dilation_rate)
    return walk.add(
        "conv", call, inputs=[call.value], shape=shape, axes=axes_name(len(shape), _last(layer)),
        kernel=tuple(layer.kernel_size), groups=groups, parameters=parameters,
        stride=tuple(layer.strides), dilation=tuple(layer.dilation_rate), pads=pads,
    )  # fmt: skip


def _conv(walk: KerasWalk, call: KerasCall) -> str:
    return _whole_convolution(walk, call, _conv_kernel, int(call.target.groups))


def _depthwise(walk: KerasWalk, call: KerasCall) -> str:
    return _whole_convolution(walk, call, _depthwise_kernel, int(call.target.kernel.shape[-2]))


def _whole_convolution(walk: KerasWalk, call: KerasCall, arrange: Arrange, groups: int) -> str:
    """The convolution of a layer with its bias and activation."""
    layer = call.target
    parameters = _kernel_and_bias(walk, layer.kernel, layer.bias, arrange)
    value = _convolve(walk, call, call.shape, groups=groups, parameters=parameters)
    return activate(walk, call, value, layer.activation)


def _kernel_and_bias(walk: KerasWalk, kernel: Any, bias: Any, arrange: Arrange) -> list[Parameter]:
    return [walk.parameter("kernel", kernel, arrange), *walk.optional({"bias": bias})]


def _separable(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    groups, multiplier = (int(extent) for extent in layer.depthwise_kernel.shape[-2:])
    between = list(call.shape)
    between[-1 if _last(layer) else 1] = groups * multiplier
    kernel = walk.parameter("kernel", layer.depthwise_kernel, _depthwise_kernel)
    value = _convolve(walk, call, tuple(between), groups=groups, parameters=[kernel])
    parameters = _kernel_and_bias(walk, layer.pointwise_kernel, layer.bias, _conv_kernel)
    ones = (1,) * len(layer.kernel_size)
    axes = axes_name(len(call.shape), _last(layer))
    value = walk.add("conv", call, inputs=[value], axes=axes, kernel=ones, parameters=parameters)
    return activate(walk, call, value, layer.activation)


def _conv_transpose(walk: KerasWalk, call: KerasCall) -> str:
    """Keras chooses the output's extent; what it cuts off are pads, what it adds are output pads."""
    layer = call.target
    before = spatial(walk.shape(call.value), _last(layer))
    after = spatial(call.shape, _last(layer))
    window = {
        "kernel": tuple(layer.kernel_size),
        "stride": tuple(layer.strides),
        "dilation": tuple(layer.dilation_rate),
    }
    pads, output_pads = fitted_transposed_pads(before, after, **window)
    value = walk.add(
        "conv_transpose", call, axes=axes_name(len(call.shape), _last(layer)),
        parameters=_kernel_and_bias(walk, layer.kernel, layer.bias, _conv_kernel),
        pads=pads, output_pads=output_pads, **window,
    )  # fmt: skip
    return activate(walk, call, value, layer.activation)


def _dense(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    parameters = _kernel_and_bias(walk, layer.kernel, layer.bias, np.transpose)
    return activate(walk, call, walk.add("dense", call, parameters=parameters), layer.activation)


def _embedding(walk: KerasWalk, call: KerasCall) -> str:
    return walk.add("embedding", call, parameters=[walk.parameter("table", call.target.embeddings)])


def _prelu(walk: KerasWalk, call: KerasCall) -> str:
    axes = axes_name(len(call.shape), walk.channels_last)
    return walk.add("prelu", call, axes=axes, parameters=[walk.parameter("alpha", call.target.alpha, _without_ones)])


def _without_ones(values: Array) -> Array:
    """Slopes that are shared over all but one axis are a vector of that axis."""
    kept = tuple(extent for extent in values.shape if extent != 1)
    return values.reshape(kept or (1,)) if len(kept) <= 1 else values


def _layer_scale(walk: KerasWalk, call: KerasCall) -> str:
    scale = walk.parameter("scale", call.target.gamma)
    return walk.add("affine", call, axis=len(call.shape) - 1, parameters=[scale])


def _pool(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        layer = call.target
        extents = spatial(walk.shape(call.value), _last(layer))
        pads = explicit_pads(layer.padding, extents, layer.pool_size, layer.strides)
        return walk.add(
            op, call, axes=axes_name(len(call.shape), _last(layer)),
            kernel=tuple(layer.pool_size), stride=tuple(layer.strides), pads=pads,
        )  # fmt: skip

    return handle


def _global_pool(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        rank = len(walk.shape(call.value))
        reduced = tuple(range(1, rank - 1)) if _last(call.target) else tuple(range(2, rank))
        return walk.add(op, call, axes=reduced, keep=bool(call.target.keepdims))

    return handle


def _adaptive_pool(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        last = _last(call.target)
        return walk.add(op, call, axes=axes_name(len(call.shape), last), size=spatial(call.shape, last))

    return handle


def _zero_padding(walk: KerasWalk, call: KerasCall) -> str:
    begins, ends = _per_axis(call)
    axes = axes_name(len(call.shape), getattr(call.target, "data_format", "channels_last") == "channels_last")
    return walk.add("pad", call, axes=axes, pads=(*begins, *ends))


def _cropping(walk: KerasWalk, call: KerasCall) -> str:
    value = call.value
    shape = list(walk.shape(value))
    for axis, (begin, end) in enumerate(zip(*_per_axis(call), strict=True)):
        if begin or end:
            stop = shape[axis] - end
            shape[axis] = stop - begin
            value = walk.add("slice", call, inputs=[value], shape=shape, axis=axis, start=begin, stop=stop)
    return value


def _per_axis(call: KerasCall) -> tuple[list[int], list[int]]:
    """What a padding or cropping layer adds or takes at the begin and the end of every axis, batch and channels too."""
    layer = call.target
    given: Any = layer.padding if hasattr(layer, "padding") else layer.cropping
    pairs = [given] if isinstance(given[0], int) else list(given)
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    none = (0, 0)
    every = [none, *pairs, none] if last else [none, none, *pairs]
    return [int(begin) for begin, _ in every], [int(end) for _, end in every]


def _upsampling(walk: KerasWalk, call: KerasCall) -> str:
    layer = call.target
    mode = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}.get(
        getattr(layer, "interpolation", "nearest")
    )
    last = getattr(layer, "data_format", "channels_last") == "channels_last"
    if mode:
        return walk.add("resize", call, axes=axes_name(len(call.shape), last), mode=mode)
    return walk.unknown(call)


def _rescaling(walk: KerasWalk, call: KerasCall) -> str:
    value = call.value
    for op, neutral, given in (("mul", 1.0, call.target.scale), ("add", 0.0, call.target.offset)):
        number = scalar_of(given)
        if number is None:
            value = _per_channel(walk, call, value, "scale" if op == "mul" else "shift", np.asarray(given))
        elif number != neutral:
            value = walk.add(op, call, inputs=[value], scalar=number)
    return value


def _per_channel(walk: KerasWalk, call: KerasCall, value: str, role: str, numbers: Array) -> str:
    axis = len(call.shape) - 1 if walk.channels_last else 1
    parameter = walk.builder.fixed_parameter(role, numbers.reshape(-1), f"{call.source}/{role}")
    return walk.add("affine", call, inputs=[value], axis=axis, parameters=[parameter])


def _merge(op: str) -> Handler:
    def handle(walk: KerasWalk, call: KerasCall) -> str:
        first, *others = call.values
        for other in others:
            shape = np.broadcast_shapes(walk.shape(first), walk.shape(other))
            first = walk.add(op, call, inputs=[first, other], shape=shape)
        return first

    return handle


def _average(walk: KerasWalk, call: KerasCall) -> str:
    total = _merge("add")(walk, call)
    return walk.add("div", call, inputs=[total], scalar=float(len(call.values)))


def _custom_scale(walk: KerasWalk, call: KerasCall) -> str:
    """Inception-ResNet's x + scale · branch."""
    main, branch = call.values
    scaled = walk.add("mul", call, inputs=[branch], scalar=float(call.target.scale))
    return walk.add("add", call, inputs=[main, scaled])


def _dropout(walk: KerasWalk, call: KerasCall) -> str:
    rate = getattr(call.target, "rate", getattr(call.target, "drop_path_rate", None))
    return walk.add("dropout", call, rate=None if rate is None else float(rate), units=_dropped_together(call))


def _dropped_together(call: KerasCall) -> str | None:
    """What a layer drops together; None where it decides for each number."""
    name = type(call.target).__name__
    shape = getattr(call.target, "noise_shape", None)
    if name == "Dropout":
        given = tuple(shape or ())
        whole = bool(given) and all(extent == 1 for extent in given[1:])
        if not given:
            return None
        if whole and given[0] != 1:
            return "example"
        return "other"
    if name.startswith("Spatial"):
        return "channel"
    if name == "StochasticDepth":
        return "example"
    return "other"


def _permute(walk: KerasWalk, call: KerasCall) -> str:
    return walk.add("transpose", call, perm=(0, *(int(axis) for axis in call.target.dims)))


def _softmax(walk: KerasWalk, call: KerasCall) -> str:
    """With a mask, what it hides is far below all other numbers."""
    mask = call.argument(1, "mask")
    value = call.values[0]
    if isinstance(mask, Ref):
        shape = walk.shape(mask.name)
        hidden = [mask.name, walk.number(call, 0.0), walk.number(call, _HIDDEN)]
        added = walk.add("where", call, inputs=hidden, shape=shape)
        value = walk.add("add", call, inputs=[value, added])
    return activate(walk, call, value, call.target)


def _time_distributed(walk: KerasWalk, call: KerasCall) -> str:
    """A layer on the last axis computes the same at every step by itself."""
    inner = call.target.layer
    name = type(inner).__name__
    by_step = name in ("Dense", "Dropout", "Activation", "ReLU", "Embedding", "Identity") or (
        name == "LayerNormalization" and inner.axis in (-1, [-1])
    )
    if not by_step or not type(inner).__module__.startswith("keras.") or call.mask is not None:
        return walk.unknown(call)
    return LAYERS[name](walk, replace(call, target=inner, source=f"{call.source}/{inner.name}"))


def _repeat_vector(walk: KerasWalk, call: KerasCall) -> str:
    count, width = walk.shape(call.value)
    value = walk.add("reshape", call, shape=(count, 1, width))
    return walk.add("expand", call, inputs=[value])


def _masked_mean(walk: KerasWalk, call: KerasCall) -> str:
    """The mean over the steps that a mask leaves; over all where there is none."""
    mask = call.kwargs.get("mask")
    name = mask.name if isinstance(mask, Ref) else call.mask
    if name is None:
        return _global_pool("mean")(walk, call)
    if not _last(call.target):
        return walk.unknown(call)
    count, steps, width = walk.shape(call.value)
    column = walk.add("reshape", call, inputs=[name], shape=(count, steps, 1))
    kept = walk.add("mul", call, inputs=[call.value, column], shape=(count, steps, width))
    keep = bool(call.target.keepdims)
    total = walk.add("sum", call, inputs=[kept], axes=(1,), keep=keep or None)
    number = walk.add("sum", call, inputs=[column], shape=(count, 1, 1) if keep else (count, 1), axes=(1,), keep=keep)
    return walk.add("div", call, inputs=[total, number])


def _masking(walk: KerasWalk, call: KerasCall) -> str:
    """Steps of which all numbers are the mask's value become zeros."""
    number = float(call.target.mask_value)
    if number == 0:
        return walk.add("identity", call)
    others = walk.add("compare", call, kind="!=", scalar=number)
    kept = walk.add("max", call, inputs=[others], shape=(*call.shape[:-1], 1), axes=(len(call.shape) - 1,), keep=True)
    return walk.add("mul", call, inputs=[call.value, kept])


def _activation(walk: KerasWalk, call: KerasCall) -> str:
    return activate(walk, call, call.value, getattr(call.target, "activation", call.target))


def _by_rank(names: str, handler: Handler, *, ranks: str = "123") -> dict[str, Handler]:
    return {names.format(rank): handler for rank in ranks}


# by the name of Keras' own class; subclasses that do not override `call` follow their parent
LAYERS: Final[dict[str, Handler]] = {
    **_by_rank("Conv{}D", _conv),
    **_by_rank("DepthwiseConv{}D", _depthwise, ranks="12"),
    **_by_rank("SeparableConv{}D", _separable, ranks="12"),
    **_by_rank("Conv{}DTranspose", _conv_transpose),
    "Dense": _dense,
    "Embedding": _embedding,
    "BatchNormalization": batch_norm,
    "LayerNormalization": layer_norm,
    "RMSNormalization": rms_norm,
    "GroupNormalization": group_norm,
    "UnitNormalization": unit_norm,
    "Normalization": normalization,
    "Rescaling": _rescaling,
    "LayerScale": _layer_scale,
    **_by_rank("MaxPooling{}D", _pool("max_pool")),
    **_by_rank("AveragePooling{}D", _pool("avg_pool")),
    **_by_rank("GlobalAveragePooling{}D", _global_pool("mean"), ranks="23"),
    "GlobalAveragePooling1D": _masked_mean,
    **_by_rank("GlobalMaxPooling{}D", _global_pool("max")),
    **_by_rank("AdaptiveAveragePooling{}D", _adaptive_pool("adaptive_avg_pool")),
    **_by_rank("AdaptiveMaxPooling{}D", _adaptive_pool("adaptive_max_pool")),
    **_by_rank("ZeroPadding{}D", _zero_padding),
    **_by_rank("Cropping{}D", _cropping),
    **_by_rank("UpSampling{}D", _upsampling),
    **dict.fromkeys(("Activation", "ReLU", "LeakyReLU", "ELU"), _activation),
    "Softmax": _softmax,
    "EinsumDense": einsum_dense,
    "TimeDistributed": _time_distributed,
    "RepeatVector": _repeat_vector,
    "PReLU": _prelu,
    "Add": _merge("add"),
    "Subtract": _merge("sub"),
    "Multiply": _merge("mul"),
    "Maximum": _merge("maximum"),
    "Minimum": _merge("minimum"),
    "Average": _average,
    "Concatenate": concatenate,
    "CustomScaleLayer": _custom_scale,
    **dict.fromkeys(("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout"), _dropout),
    **dict.fromkeys(("GaussianDropout", "GaussianNoise", "StochasticDepth"), _dropout),
    **dict.fromkeys(("Identity", "ActivityRegularization"), plain("identity")),
    "Masking": _masking,
    **dict.fromkeys(("Reshape", "Flatten"), plain("reshape")),
    "Permute": _permute,
}
