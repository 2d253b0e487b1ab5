"""Activations of Keras, as functions (`activation="relu"`), as operations (`keras.ops.relu`) and as layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.importers.keras.walk import KerasCall, KerasWalk, positive
from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.passes.activations import named_function
from zoolens.findings.graph.reference.recurrent_layer import CELL_ACTIVATIONS

ActivationStep = tuple[str, dict[str, Any]]  # an op of the vocabulary and its attributes

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
    if _is_users(function):
        return _measured(walk, call, value, function)
    name = plain_name(getattr(function, "__name__", None) or type(function).__name__)
    return value if name == "linear" else activation(walk, call, value, name, function)


def _is_users(function: Any) -> bool:
    """Whether it is a function of somebody else's than Keras', whose name then says nothing."""
    return hasattr(function, "__name__") and str(getattr(function, "__module__", "")).partition(".")[0] != "keras"


def _measured(walk: KerasWalk, call: KerasCall, value: str, function: Any) -> str:
    """A function of the user's is what it computes."""
    import keras

    def computed(points: Array) -> Array:
        tensor = keras.ops.convert_to_tensor(points.astype(np.float32))
        return np.asarray(keras.ops.convert_to_numpy(function(tensor)))

    try:
        recognised = named_function(computed)
    except Exception:  # the user's code may raise anything where it is not given a map
        recognised = None
    op, options = recognised or ("unknown", {"source_op": f"function {function.__name__}"})
    return walk.add(op, call, inputs=[value], shape=walk.shape(value), **options)


def cell_activation(function: Any) -> str | None:
    """The operator that a function within a recurrent cell is, "identity" for none; None where nobody here computes
    it there."""
    if function is None:
        return "identity"
    name = plain_name(getattr(function, "__name__", ""))
    op = {"linear": "identity", "relu": "relu", "elu": "elu"}.get(name, _PLAIN.get(name, ""))
    return op if op in CELL_ACTIVATIONS and not _is_users(function) else None


def plain_name(name: str) -> str:
    return name.replace("_", "").lower()


def known(name: str) -> bool:
    return name in _PLAIN or name in _WITH_OPTIONS


def activation(walk: KerasWalk, call: KerasCall, value: str, name: str, owner: Any) -> str:
    """One activation by its plain name. `owner` is the function, layer or operation; it may carry options."""
    shape = walk.shape(value)
    steps = _WITH_OPTIONS[name](owner, len(shape)) if name in _WITH_OPTIONS else _plain(name)
    for op, options in steps:
        value = walk.add(op, call, inputs=[value], shape=shape, **options)
    return value


def _plain(name: str) -> list[ActivationStep]:
    if name in _PLAIN:
        return [(_PLAIN[name], {})]
    return [("unknown", {"source_op": name})]


def _relu(owner: Any, _: int) -> list[ActivationStep]:
    top = getattr(owner, "max_value", None)
    slope = float(getattr(owner, "negative_slope", 0.0) or 0.0)
    if float(getattr(owner, "threshold", 0.0) or 0.0):
        return [("unknown", {"source_op": "ThresholdedReLU"})]
    if slope:
        capped = [] if top is None else [("minimum", {"scalar": float(top)})]
        return [("leaky_relu", {"alpha": slope}), *capped]
    if top is None or float(top) == 6.0:
        return [("relu" if top is None else "relu6", {})]
    return [("clip", {"low": 0.0, "high": float(top)})]


def _gelu(owner: Any, _: int) -> list[ActivationStep]:
    return [("gelu", {"approximate": "tanh" if getattr(owner, "approximate", False) else None})]


def _softmax(op: str) -> Callable[[Any, int], list[ActivationStep]]:
    def steps(owner: Any, rank: int) -> list[ActivationStep]:
        axis = getattr(owner, "axis", -1)
        axis = axis[0] if isinstance(axis, list | tuple) and len(axis) == 1 else axis
        if not isinstance(axis, int):
            return [("unknown", {"source_op": "Softmax over several axes"})]
        return [(op, {"axis": positive(axis, rank)})]

    return steps


# from the owner of the options and the rank of the value to the steps that compute it
_WITH_OPTIONS: Final[dict[str, Callable[[Any, int], list[ActivationStep]]]] = {
    "relu": _relu,
    "leakyrelu": lambda owner, _: [("leaky_relu", {"alpha": float(getattr(owner, "negative_slope", 0.2))})],
    "elu": lambda owner, _: [("elu", {"alpha": float(getattr(owner, "alpha", 1.0))})],
    "gelu": _gelu,
    "hardtanh": lambda *_: [("clip", {"low": -1.0, "high": 1.0})],
    "softmax": _softmax("softmax"),
    "logsoftmax": _softmax("log_softmax"),
}
