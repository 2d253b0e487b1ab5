"""Activations of Keras, as functions (`activation="relu"`), as operations (`keras.ops.relu`) and as layers."""

from __future__ import annotations

from typing import Any, Final

from zoolens.graph.importers.keras.walk import KerasCall, KerasWalk, positive

# name of the function, or of the operation's class in lower case without underscores -> our op
_PLAIN: Final = {
    "relu6": "relu6", "sigmoid": "sigmoid", "silu": "silu", "swish": "silu", "hardsigmoid": "hard_sigmoid",
    "hardsilu": "hard_swish", "hardswish": "hard_swish", "tanh": "tanh", "selu": "selu", "softplus": "softplus",
    "mish": "mish", "exponential": "exp", "exp": "exp",
}  # fmt: skip


def activate(walk: KerasWalk, call: KerasCall, value: str, function: Any) -> str:
    """The value after `function`, which is what Keras keeps in a layer's `activation`: None, a function, a layer."""
    if function is None:
        return value
    name = plain_name(getattr(function, "__name__", None) or type(function).__name__)
    return value if name == "linear" else activation(walk, call, value, name, function)


def plain_name(name: str) -> str:
    return name.replace("_", "").lower()


def known(name: str) -> bool:
    return name in _PLAIN or name in _WITH_OPTIONS


def activation(walk: KerasWalk, call: KerasCall, value: str, name: str, owner: Any) -> str:
    """One activation by its plain name. `owner` is the function, layer or operation; it may carry options."""
    shape = walk.shape(value)
    if name in _PLAIN:
        return walk.add(_PLAIN[name], call, inputs=[value], shape=shape)
    if name in _WITH_OPTIONS:
        return _WITH_OPTIONS[name](walk, call, value, owner)
    return walk.add("unknown", call, inputs=[value], shape=shape, source_op=name)


def _relu(walk: KerasWalk, call: KerasCall, value: str, owner: Any) -> str:
    top = getattr(owner, "max_value", None)
    slope = float(getattr(owner, "negative_slope", 0.0) or 0.0)
    shape = walk.shape(value)
    if float(getattr(owner, "threshold", 0.0) or 0.0):
        return walk.add("unknown", call, inputs=[value], shape=shape, source_op="ThresholdedReLU")
    if slope:
        value = walk.add("leaky_relu", call, inputs=[value], shape=shape, alpha=slope)
        return value if top is None else walk.add("minimum", call, inputs=[value], shape=shape, scalar=float(top))
    if top is None:
        return walk.add("relu", call, inputs=[value], shape=shape)
    if float(top) == 6.0:
        return walk.add("relu6", call, inputs=[value], shape=shape)
    return walk.add("clip", call, inputs=[value], shape=shape, low=0.0, high=float(top))


def _leaky_relu(walk: KerasWalk, call: KerasCall, value: str, owner: Any) -> str:
    slope = float(getattr(owner, "negative_slope", 0.2))
    return walk.add("leaky_relu", call, inputs=[value], shape=walk.shape(value), alpha=slope)


def _elu(walk: KerasWalk, call: KerasCall, value: str, owner: Any) -> str:
    return walk.add("elu", call, inputs=[value], shape=walk.shape(value), alpha=float(getattr(owner, "alpha", 1.0)))


def _gelu(walk: KerasWalk, call: KerasCall, value: str, owner: Any) -> str:
    approximate = "tanh" if getattr(owner, "approximate", False) else None
    return walk.add("gelu", call, inputs=[value], shape=walk.shape(value), approximate=approximate)


def _hard_tanh(walk: KerasWalk, call: KerasCall, value: str, _: Any) -> str:
    return walk.add("clip", call, inputs=[value], shape=walk.shape(value), low=-1.0, high=1.0)


def _softmax(walk: KerasWalk, call: KerasCall, value: str, owner: Any, op: str = "softmax") -> str:
    axis = getattr(owner, "axis", -1)
    shape = walk.shape(value)
    if not isinstance(axis, int):
        return walk.add("unknown", call, inputs=[value], shape=shape, source_op="Softmax over several axes")
    return walk.add(op, call, inputs=[value], shape=shape, axis=positive(axis, len(shape)))


def _log_softmax(walk: KerasWalk, call: KerasCall, value: str, owner: Any) -> str:
    return _softmax(walk, call, value, owner, "log_softmax")


_WITH_OPTIONS: Final = {
    "relu": _relu, "leakyrelu": _leaky_relu, "elu": _elu, "gelu": _gelu, "hardtanh": _hard_tanh,
    "softmax": _softmax, "logsoftmax": _log_softmax,
}  # fmt: skip
