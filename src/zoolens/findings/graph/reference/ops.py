"""What every op of the vocabulary computes, in numpy. `reference` looks them up here and calls them in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.file_operators import arguments, is_file_operator, settings
from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.reference import layers, spatial
from zoolens.findings.graph.reference.layers import NodeCall
from zoolens.findings.graph.reference.onnx_recurrent import RECURRENT, recurrent, sigmoid
from zoolens.findings.graph.reference.recurrent_layer import recurrent_layer
from zoolens.inventory.runtimes.onnx.onnx_reference import operator_outputs


def _reduced(reduce: Callable[..., Array]) -> Callable[[NodeCall], Array]:
    def compute(call: NodeCall) -> Array:
        axes = tuple(call.get("axes"))
        return np.asarray(reduce(call.x, axis=axes, keepdims=call.get("keep", False)))

    return compute


def _extreme(find: Callable[..., Any]) -> Callable[[NodeCall], Array]:
    """The place of the largest or smallest number, of several the first."""

    def compute(call: NodeCall) -> Array:
        (axis,) = call.get("axes")
        return np.asarray(find(call.x, axis=axis, keepdims=call.get("keep", False)))

    return compute


def _softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))


def _hard_sigmoid(call: NodeCall) -> Array:
    return np.asarray(np.clip(call.x * call.get("alpha", 1 / 6) + call.get("beta", 0.5), 0, 1))


def _selu(x: Array) -> Array:
    return np.asarray(1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(np.minimum(x, 0))))


def _elu(call: NodeCall) -> Array:
    # expm1 is taken of the negative part alone: of a large positive number it would overflow.
    below = call.get("alpha", 1.0) * np.expm1(np.minimum(call.x, 0))
    return np.where(call.x > 0, call.x, below)


def _prelu(call: NodeCall) -> Array:
    alpha = call.parameters["alpha"]
    if alpha.ndim < 2:
        alpha = alpha.reshape([-1 if axis == call.channel else 1 for axis in range(call.x.ndim)])
    return np.where(call.x > 0, call.x, alpha * call.x)


def _gelu(call: NodeCall) -> Array:
    x = call.x
    kind = call.get("approximate")
    if kind == "quick":
        return x * sigmoid(1.702 * x)
    if kind == "tanh":
        return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1 + erf(x * math.sqrt(0.5))))


_KNOTS: Final = np.linspace(-6.5, 6.5, 13 * 512 + 1)
_ERF: Final = np.array([math.erf(knot) for knot in _KNOTS])
_SLOPE: Final = 2 / math.sqrt(math.pi) * np.exp(-(_KNOTS**2))


def erf(x: Array) -> Array:
    """The error function to 1e-12: cubic Hermite interpolation, because numpy has none and its slope is known."""
    inside = np.clip(np.asarray(x, np.float64), _KNOTS[0], _KNOTS[-1])
    step = _KNOTS[1] - _KNOTS[0]
    left = np.minimum(((inside - _KNOTS[0]) / step).astype(int), len(_KNOTS) - 2)
    t = (inside - _KNOTS[left]) / step
    # The four basis polynomials of Hermite.
    values = _ERF[left] * (1 + 2 * t) * (1 - t) ** 2 + _ERF[left + 1] * t**2 * (3 - 2 * t)
    slopes = step * (_SLOPE[left] * t * (1 - t) ** 2 + _SLOPE[left + 1] * t**2 * (t - 1))
    return np.asarray(values + slopes, x.dtype)


def _softmax(call: NodeCall) -> Array:
    axis = call.get("axis", call.x.ndim - 1)
    powers = np.exp(call.x - call.x.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _l2_normalize(call: NodeCall) -> Array:
    norm = np.sqrt(np.square(call.x).sum(axis=tuple(call.get("axes")), keepdims=True))
    return np.asarray(call.x / np.maximum(norm, call.get("epsilon", 1e-12)))


def _two(function: Callable[..., Any]) -> Callable[[NodeCall], Array]:
    """An operator on two values, or on one and a scalar."""

    def compute(call: NodeCall) -> Array:
        scalar = call.get("scalar")
        if scalar is None:
            total = call.inputs[0]
            for other in call.inputs[1:]:
                total = function(total, other)
            return np.asarray(total)
        return np.asarray(function(scalar, call.x) if call.get("reverse") else function(call.x, scalar))

    return compute


_COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip


def _compare(call: NodeCall) -> Array:
    return _two(_COMPARISONS[call.get("kind")])(call)


def _matmul(call: NodeCall) -> Array:
    a, b = call.inputs
    a = a.swapaxes(-1, -2) if call.get("transpose_a") else a
    return np.asarray(a @ (b.swapaxes(-1, -2) if call.get("transpose_b") else b))


def _attention(call: NodeCall) -> Array:
    q, k, v, *mask = call.inputs
    if q.ndim == 4 and k.shape[1] < q.shape[1]:
        k, v = (part.repeat(q.shape[1] // k.shape[1], axis=1) for part in (k, v))
    scores = q @ k.swapaxes(-1, -2) * call.get("scale", 1 / math.sqrt(q.shape[-1]))
    if mask:
        # Finite, as Keras and JAX have it: a row that is hidden as a whole is no NaN.
        hidden = np.finfo(scores.dtype).min / 2
        scores = np.where(mask[0], scores, hidden) if mask[0].dtype == bool else scores + mask[0]
    if call.get("causal"):
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True) @ v)


def _slice(call: NodeCall) -> Array:
    cut = slice(call.get("start", 0), call.get("stop"), call.get("step", 1))
    return np.asarray(call.x[(slice(None),) * call.get("axis") + (cut,)])


def _pad(call: NodeCall) -> Array:
    pads = call.get("pads")
    mode = call.get("mode", "constant")
    if mode == "constant":
        return spatial.padded(call.x, pads, call.get("value", 0.0))
    half = len(pads) // 2
    return np.pad(call.x, list(zip(pads[:half], pads[half:], strict=True)), mode=mode)


def _flatten(call: NodeCall) -> Array:
    order = call.get("order")
    names = "NC" + "DHW"[-(call.x.ndim - 2) :]
    x = call.x if order is None else call.x.transpose([names.index(name) for name in order])
    return x.reshape(call.node.shape)


def _gather(call: NodeCall) -> Array:
    indices = np.asarray(call.get("indices")) if call.get("indices") is not None else call.inputs[1].astype(int)
    return np.take(call.x, indices, axis=call.get("axis", 0))


def _constant(call: NodeCall) -> Array:
    value = call.get("value")
    return np.asarray(call.parameters["value"] if value is None else value).reshape(call.node.shape)


def _resize(call: NodeCall) -> Array:
    if is_file_operator(call.node):
        return _of_file(_refused(""))(call)
    axes = [axis for axis in range(1, call.x.ndim) if axis != call.channel]
    size = [call.node.shape[axis] for axis in axes]
    mode = call.get("mode", "nearest")
    coordinates = call.get("coordinates", "")
    return call.back(spatial.resize(call.channels_first(), size, mode, coordinates))


def _channels(function: Callable[..., Array], **defaults: Any) -> Callable[[NodeCall], Array]:
    """An operator on channels first, whose attributes have these names and defaults."""
    return lambda call: call.back(
        function(call.channels_first(), *(call.get(name, default) for name, default in defaults.items()))
    )


def _one(function: Callable[[Array], Any]) -> Callable[[NodeCall], Array]:
    return lambda call: np.asarray(function(call.x))


def _log_softmax(call: NodeCall) -> Array:
    """Not the logarithm of a softmax, which is minus infinity where the softmax is too small for its type."""
    axis = call.get("axis", call.x.ndim - 1)
    moved = call.x - call.x.max(axis=axis, keepdims=True)
    return np.asarray(moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True)))


def _of_file(refuse: Callable[[NodeCall], Array]) -> Callable[[NodeCall], Array]:
    """An operator as its file has it, where the graph says all of it."""

    def compute(call: NodeCall) -> Array:
        node = call.node
        if not is_file_operator(node):
            return refuse(call)
        kind = node.get("operator")
        given = arguments(node, call.inputs, dict(call.parameters))
        own = settings(node)
        if kind in RECURRENT and not node.get("domain"):
            outputs = recurrent(kind, given, own)
        else:
            outputs = operator_outputs(kind, node.get("opset"), own, given, node.get("outputs"), node.get("domain", ""))
        return np.asarray(outputs[node.get("output", 0)])

    return compute


def _refused(why: str) -> Callable[[NodeCall], Array]:
    def refuse(call: NodeCall) -> Array:
        label = call.get("source_op") or call.node.op
        raise ModelError(f"{call.node.name[:60]!r} cannot be computed: {why} ({label}).")

    return refuse


def _divided(a: Any, b: Any) -> Any:
    return np.true_divide(a, b)


OPERATIONS: Final[dict[str, Callable[[NodeCall], Array]]] = {
    "parameter": _constant, "constant": _constant,
    "conv": layers.conv, "conv_transpose": layers.conv_transpose, "dense": layers.dense,
    "batch_norm": layers.batch_norm, "layer_norm": layers.layer_norm, "rms_norm": layers.rms_norm,
    "group_norm": layers.group_norm, "instance_norm": layers.group_norm, "affine": layers.affine, "lrn": layers.lrn,
    "embedding": lambda call: call.parameters["table"][call.x.astype(int)],
    "recurrent": _of_file(_refused("recurrent layers of this source have no reference")),
    "recurrent_layer": recurrent_layer,
    "max_pool": layers.max_pool, "avg_pool": layers.avg_pool,
    "adaptive_avg_pool": layers.adaptively(np.mean), "adaptive_max_pool": layers.adaptively(np.max),
    "global_avg_pool": layers.globally(np.mean), "global_max_pool": layers.globally(np.max),
    "mean": _reduced(np.mean), "sum": _reduced(np.sum), "max": _reduced(np.max), "min": _reduced(np.min),
    "prod": _reduced(np.prod), "argmax": _extreme(np.argmax), "argmin": _extreme(np.argmin),
    "relu": _one(lambda x: np.maximum(x, 0)), "relu6": _one(lambda x: np.clip(x, 0, 6)), "sigmoid": _one(sigmoid),
    "silu": _one(lambda x: x * sigmoid(x)), "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _one(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)), "tanh": _one(np.tanh), "elu": _elu,
    "selu": _one(_selu), "softplus": _one(_softplus), "mish": _one(lambda x: x * np.tanh(_softplus(x))),
    "leaky_relu": lambda call: np.where(call.x > 0, call.x, call.get("alpha", 0.01) * call.x), "prelu": _prelu,
    "gelu": _gelu, "clip": lambda call: np.clip(call.x, call.get("low"), call.get("high")), "softmax": _softmax,
    "log_softmax": _log_softmax,
    "add": _two(np.add), "sub": _two(np.subtract), "mul": _two(np.multiply), "div": _two(_divided),
    "pow": _two(np.power), "maximum": _two(np.maximum), "minimum": _two(np.minimum), "abs": _one(np.abs),
    "neg": _one(np.negative), "exp": _one(np.exp), "log": _one(np.log), "sqrt": _one(np.sqrt),
    "rsqrt": _one(lambda x: 1 / np.sqrt(x)), "square": _one(np.square), "erf": _one(erf), "sin": _one(np.sin),
    "cos": _one(np.cos), "floor": _one(np.floor), "ceil": _one(np.ceil), "round": _one(np.round),
    "reciprocal": _one(lambda x: 1 / x), "l2_normalize": _l2_normalize, "compare": _compare,
    "where": lambda call: np.where(call.inputs[0], call.inputs[1], call.inputs[2]),
    "matmul": _matmul, "attention": _attention,
    "concat": lambda call: np.concatenate(call.inputs, axis=call.get("axis")), "slice": _slice, "pad": _pad,
    "reshape": lambda call: call.x.reshape(call.node.shape), "flatten": _flatten,
    "transpose": lambda call: call.x.transpose(call.get("perm")),
    "expand": lambda call: np.broadcast_to(call.x, call.node.shape), "gather": _gather,
    "channel_shuffle": _channels(spatial.channel_shuffle, groups=1),
    "space_to_depth": _channels(spatial.space_to_depth, block=2, mode="DCR"),
    "depth_to_space": _channels(spatial.depth_to_space, block=2, mode="DCR"), "resize": _resize,
    "roll": lambda call: np.roll(call.x, call.get("shifts"), call.get("axes")),
    "tile": lambda call: np.tile(call.x, call.get("repeats")),
    "identity": _one(lambda x: x), "dropout": _one(lambda x: x), "cast": _one(lambda x: x),
    "quantize": _one(lambda x: x), "dequantize": _one(lambda x: x),
    "output_of": _refused("only the first output of an operator is computed"),
    "unknown": _of_file(_refused("its operator is unknown")),
}  # fmt: skip
