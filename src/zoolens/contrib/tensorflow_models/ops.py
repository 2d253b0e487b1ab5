"""TensorFlow operators as nodes of our vocabulary: `OPERATORS`, by the operator's type. The rest is unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zoolens.contrib.tensorflow_models.walk import TensorFlowWalk, constant, integers, scope, static_shape
from zoolens.findings.graph.importers.padding_modes import explicit_pads
from zoolens.findings.graph.ir.model import Array, Shape

Handler = Callable[[TensorFlowWalk, Any], str]


def _layout(operation: Any) -> str:
    return str(operation.get_attr("data_format").decode())


def _spatial(values: Any, layout: str) -> Shape:
    """The entries of H and W in a list with one entry per axis of the layout."""
    return tuple(int(values[layout.index(axis)]) for axis in "HW")


def _add(walk: TensorFlowWalk, operation: Any, op: str, inputs: Any = None, **options: Any) -> str:
    """One node of an operation; `inputs` are tensors, by default the first one alone."""
    names = [walk.value(tensor) for tensor in (inputs or [operation.inputs[0]])]
    shape = options.pop("shape", None) or static_shape(operation.outputs[0])
    return walk.builder.add(op, names, shape, source=scope(operation), **options)


def unknown(walk: TensorFlowWalk, operation: Any) -> str:
    fed = [tensor for tensor in operation.inputs if walk.fed(tensor)]
    learned = [walk.variable(tensor) for tensor in operation.inputs if not walk.fed(tensor)]
    parameters = [walk.parameter("value", variable) for variable in learned if variable is not None]
    return _add(walk, operation, "unknown", fed, parameters=parameters, source_op=operation.type)


def _windows(operation: Any, kernel: Shape, layout: str) -> dict[str, Any]:
    stride = _spatial(operation.get_attr("strides"), layout)
    dilation = _spatial(operation.get_attr("dilations"), layout) if "dilations" in operation.node_def.attr else (1, 1)
    padding = operation.get_attr("padding").decode()
    if padding == "EXPLICIT":
        given = np.asarray(operation.get_attr("explicit_paddings")).reshape(-1, 2)
        pads = (*_spatial(given[:, 0], layout), *_spatial(given[:, 1], layout))
    else:
        extents = _spatial(static_shape(operation.inputs[0]), layout)
        pads = explicit_pads(padding, extents, kernel, stride, dilation)
    return {"kernel": kernel, "stride": stride, "pads": pads, "dilation": dilation if dilation != (1, 1) else None}


def _conv(walk: TensorFlowWalk, operation: Any) -> str:
    layout = _layout(operation)
    variable = walk.variable(operation.inputs[1])
    if variable is None:
        return unknown(walk, operation)
    groups = static_shape(operation.inputs[0])[layout.index("C")] // variable.shape[2]
    kernel = walk.parameter("kernel", variable, lambda values: values.transpose(3, 2, 0, 1))
    options = _windows(operation, variable.shape[:2], layout)
    return _add(walk, operation, "conv", axes=layout, groups=groups, parameters=[kernel], **options)


def _depthwise(walk: TensorFlowWalk, operation: Any) -> str:
    layout = _layout(operation)
    variable = walk.variable(operation.inputs[1])
    if variable is None:
        return unknown(walk, operation)
    kernel = walk.parameter("kernel", variable, _depthwise_kernel)
    options = _windows(operation, variable.shape[:2], layout)
    return _add(walk, operation, "conv", axes=layout, groups=variable.shape[2], parameters=[kernel], **options)


def _depthwise_kernel(values: Array) -> Array:
    return values.transpose(2, 3, 0, 1).reshape(-1, 1, *values.shape[:2])


def _matmul(walk: TensorFlowWalk, operation: Any) -> str:
    left, right = operation.inputs
    flips = (bool(operation.get_attr("transpose_a")), bool(operation.get_attr("transpose_b")))
    variable = None if walk.fed(right) else walk.variable(right)
    if variable is None or flips[0]:
        return _add(
            walk, operation, "matmul", [left, right], transpose_a=flips[0] or None, transpose_b=flips[1] or None
        )
    kernel = walk.parameter("kernel", variable, None if flips[1] else np.transpose)
    return _add(walk, operation, "dense", parameters=[kernel])


def _batch_matmul(walk: TensorFlowWalk, operation: Any) -> str:
    flips = {"transpose_a": operation.get_attr("adj_x") or None, "transpose_b": operation.get_attr("adj_y") or None}
    return _add(walk, operation, "matmul", operation.inputs, **flips)


def _bias(walk: TensorFlowWalk, operation: Any) -> str:
    layout = _layout(operation)
    axis = 1 if layout.startswith("NC") else len(static_shape(operation.inputs[0])) - 1
    return _shifted(walk, operation, operation.inputs[0], operation.inputs[1], axis)


def _shifted(walk: TensorFlowWalk, operation: Any, value: Any, bias: Any, axis: int) -> str:
    variable = walk.variable(bias)
    if variable is None:
        return unknown(walk, operation)
    name = walk.value(value)
    if walk.with_bias(name, walk.parameter("bias", variable)):
        return name
    return _add(walk, operation, "affine", [value], axis=axis, parameters=[walk.parameter("shift", variable)])


def _batch_norm(walk: TensorFlowWalk, operation: Any) -> str:
    if operation.get_attr("is_training"):
        return unknown(walk, operation)
    parameters = []
    for role, tensor, neutral in zip(
        ("scale", "shift", "mean", "variance"), operation.inputs[1:5], (1, 0, None, None), strict=True
    ):
        variable = walk.variable(tensor)
        known = constant(tensor)
        if variable is not None:
            parameters.append(walk.parameter(role, variable))
        elif known is None:
            return unknown(walk, operation)
        elif neutral is None or np.any(known != neutral):
            parameters.append(walk.builder.fixed_parameter(role, known, f"{operation.name}/{role}"))
    epsilon = float(np.float32(operation.get_attr("epsilon")).astype(str))
    return _add(walk, operation, "batch_norm", axes=_layout(operation), epsilon=epsilon, parameters=parameters)


def _pool(op: str) -> Handler:
    def handle(walk: TensorFlowWalk, operation: Any) -> str:
        layout = _layout(operation)
        kernel = _spatial(operation.get_attr("ksize"), layout)
        return _add(walk, operation, op, axes=layout, **_windows(operation, kernel, layout))

    return handle


def _reduction(op: str) -> Handler:
    def handle(walk: TensorFlowWalk, operation: Any) -> str:
        rank = len(static_shape(operation.inputs[0]))
        reduced = tuple(sorted(axis % rank for axis in integers(operation.inputs[1])))
        return _add(walk, operation, op, axes=reduced, keep=bool(operation.get_attr("keep_dims")))

    return handle


def _concat(walk: TensorFlowWalk, operation: Any) -> str:
    *parts, axis = operation.inputs
    return _add(walk, operation, "concat", parts, axis=integers(axis)[0] % len(static_shape(parts[0])))


def _pad(walk: TensorFlowWalk, operation: Any) -> str:
    pads = np.asarray(integers(operation.inputs[1])).reshape(-1, 2)
    value, mode = 0.0, None
    if operation.type == "PadV2":
        filler = constant(operation.inputs[2])
        value = 0.0 if filler is None else float(filler)
    if operation.type == "MirrorPad":
        mode = operation.get_attr("mode").decode().lower()
        if mode != "reflect":
            return unknown(walk, operation)
    return _add(
        walk, operation, "pad", pads=tuple(int(width) for width in pads.T.ravel()), value=value or None, mode=mode
    )


def _binary(op: str) -> Handler:
    """Translates arithmetic on two values, on a value and a number, or on a value and one number per entry of the last
    axis."""

    def handle(walk: TensorFlowWalk, operation: Any) -> str:
        left, right = operation.inputs
        if walk.fed(left) and walk.fed(right):
            return _add(walk, operation, op, [left, right])
        value, other = (left, right) if walk.fed(left) else (right, left)
        known = constant(other)
        if known is not None and known.size == 1:
            reverse = True if value is right and op in ("sub", "div", "pow") else None
            return _add(walk, operation, op, [value], scalar=float(known.reshape(())), reverse=reverse)
        shape = static_shape(value)
        if op == "add" and walk.variable(other) is not None and static_shape(other) == shape[-1:]:
            return _shifted(walk, operation, value, other, len(shape) - 1)
        variable = walk.variable(other)
        if op == "mul" and variable is not None and static_shape(other) == shape[-1:]:
            scale = walk.parameter("scale", variable)
            return _add(walk, operation, "affine", [value], axis=len(shape) - 1, parameters=[scale])
        return _add(walk, operation, op, [left, right])

    return handle


def _lrn(walk: TensorFlowWalk, operation: Any) -> str:
    size = 2 * operation.get_attr("depth_radius") + 1
    alpha = float(operation.get_attr("alpha")) * size  # the paper's alpha is divided by the size, TensorFlow's is not
    options = {"beta": float(operation.get_attr("beta")), "bias": float(operation.get_attr("bias"))}
    return _add(walk, operation, "lrn", axes="NHWC", size=size, alpha=alpha, **options)


def _softmax(op: str) -> Handler:
    return lambda walk, operation: _add(walk, operation, op, axis=len(static_shape(operation.inputs[0])) - 1)


def _leaky_relu(walk: TensorFlowWalk, operation: Any) -> str:
    return _add(walk, operation, "leaky_relu", alpha=float(operation.get_attr("alpha")))


def _transpose(walk: TensorFlowWalk, operation: Any) -> str:
    return _add(walk, operation, "transpose", perm=tuple(integers(operation.inputs[1])))


def _squared_difference(walk: TensorFlowWalk, operation: Any) -> str:
    difference = _binary("sub")(walk, operation)
    return walk.builder.add("square", [difference], static_shape(operation.outputs[0]), source=scope(operation))


def _strided_slice(walk: TensorFlowWalk, operation: Any) -> str:
    """Basic slices with positive steps; what is dropped or inserted is a reshape."""
    masks = {name: int(operation.get_attr(f"{name}_mask")) for name in ("begin", "end", "shrink_axis")}
    if operation.get_attr("ellipsis_mask") or operation.get_attr("new_axis_mask"):
        return unknown(walk, operation)
    begins, ends, steps = (integers(tensor) for tensor in operation.inputs[1:4])
    value = walk.value(operation.inputs[0])
    shape = list(static_shape(operation.inputs[0]))
    for axis, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        single = bool(masks["shrink_axis"] >> axis & 1)
        start = None if masks["begin"] >> axis & 1 and not single else begin
        stop = None if masks["end"] >> axis & 1 else end
        start, stop, step = slice(start, (begin + 1 or None) if single else stop, step).indices(shape[axis])
        if len(range(start, stop, step)) != shape[axis]:
            shape[axis] = len(range(start, stop, step))
            value = walk.builder.add(
                "slice", [value], shape, source=scope(operation), axis=axis, start=start, stop=stop,
                step=step if step != 1 else None,
            )  # fmt: skip
    final = static_shape(operation.outputs[0])
    if tuple(shape) == final:
        return value
    return walk.builder.add("reshape", [value], final, source=scope(operation))


def _resize(mode: str) -> Handler:
    def handle(walk: TensorFlowWalk, operation: Any) -> str:
        centred = None if operation.get_attr("half_pixel_centers") else "asymmetric"
        coordinates = "align_corners" if operation.get_attr("align_corners") else centred
        return _add(walk, operation, "resize", axes="NHWC", mode=mode, coordinates=coordinates)

    return handle


def _split(walk: TensorFlowWalk, operation: Any) -> list[str]:
    axis_at, value_at = (0, 1) if operation.type == "Split" else (2, 0)
    tensor = operation.inputs[value_at]
    axis = integers(operation.inputs[axis_at])[0] % len(static_shape(tensor))
    parts, start = [], 0
    for output in operation.outputs:
        shape = static_shape(output)
        stop = start + shape[axis]
        parts.append(_add(walk, operation, "slice", [tensor], shape=shape, axis=axis, start=start, stop=stop))
        start = stop
    return parts


def further_output(walk: TensorFlowWalk, first: str, tensor: Any) -> str:
    """An output but the first of an operator that has one node."""
    index = int(tensor.value_index)
    return walk.builder.add("output_of", [first], static_shape(tensor), source=scope(tensor.op), index=index)


def _plain(op: str) -> Handler:
    return lambda walk, operation: _add(walk, operation, op)


_ONE_TO_ONE: Final = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Tanh": "tanh", "Elu": "elu", "Selu": "selu",
    "Softplus": "softplus", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Rsqrt": "rsqrt", "Square": "square",
    "Abs": "abs", "Neg": "neg", "Erf": "erf", "Reciprocal": "reciprocal", "Reshape": "reshape", "Squeeze": "reshape",
    "ExpandDims": "reshape", "Identity": "identity", "StopGradient": "identity", "PreventGradient": "identity",
    "Snapshot": "identity", "Cast": "cast", "BroadcastTo": "expand",
}  # fmt: skip

OPERATORS: Final[dict[str, Handler]] = {
    **{kind: _plain(op) for kind, op in _ONE_TO_ONE.items()},
    "Conv2D": _conv,
    "DepthwiseConv2dNative": _depthwise,
    "MatMul": _matmul,
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "BiasAdd": _bias,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    "MaxPool": _pool("max_pool"),
    "AvgPool": _pool("avg_pool"),
    "Mean": _reduction("mean"),
    "Sum": _reduction("sum"),
    "Max": _reduction("max"),
    "Min": _reduction("min"),
    "ConcatV2": _concat,
    **dict.fromkeys(("Pad", "PadV2", "MirrorPad"), _pad),
    "Add": _binary("add"),
    "AddV2": _binary("add"),
    "Sub": _binary("sub"),
    "Mul": _binary("mul"),
    "RealDiv": _binary("div"),
    "Maximum": _binary("maximum"),
    "Minimum": _binary("minimum"),
    "Pow": _binary("pow"),
    "SquaredDifference": _squared_difference,
    "LRN": _lrn,
    "Softmax": _softmax("softmax"),
    "LogSoftmax": _softmax("log_softmax"),
    "LeakyRelu": _leaky_relu,
    "Transpose": _transpose,
    "StridedSlice": _strided_slice,
    "ResizeBilinear": _resize("linear"),
    "ResizeNearestNeighbor": _resize("nearest"),
}
# operators with several values of equal standing: one of ours for each output
SEVERAL: Final[dict[str, Callable[[TensorFlowWalk, Any], list[str]]]] = {
    "Split": _split,
    "SplitV": _split,
    "IdentityN": lambda walk, operation: [walk.value(tensor) for tensor in operation.inputs],
}
