"""aten operators that are activations, and dropout."""

from __future__ import annotations

from typing import Any, Final

from zoolens.findings.graph.importers.torch.torch_layers import axes_of
from zoolens.findings.graph.importers.torch.trace import Lowering, TorchCall


def dropout(units: str | None) -> Lowering:
    """`units`: what is dropped together, as the vocabulary says."""

    def lower(call: TorchCall) -> str:
        x = call.value("input" if "input" in call.arguments else "self")
        if call["p"] == 0:
            return x
        return call.add("dropout", x, rate=call["p"], units=units)

    return lower


def activation(op: str, **attributes: Any) -> Lowering:
    """An activation of one input; attributes name the argument they come from."""

    def lower(call: TorchCall) -> str:
        settings = {key: call[argument] for key, argument in attributes.items()}
        return call.add(op, call.value("self"), **settings)

    return lower


def gelu(call: TorchCall) -> str:
    approximate = call["approximate"]
    return call.add("gelu", call.value("self"), approximate=None if approximate == "none" else approximate)


def hardtanh(call: TorchCall) -> str:
    return _clipped(call, call["min_val"], call["max_val"])


def clamp(call: TorchCall) -> str:
    low = call.trace.number(call.get("min"))
    high = call.trace.number(call.get("max"))
    if (call.get("min") is not None and low is None) or (call.get("max") is not None and high is None):
        return call.unknown(" with computed limits")
    return _clipped(call, low, high)


def _clipped(call: TorchCall, low: float | None, high: float | None) -> str:
    if low == 0 and high in (6, None):
        return call.add("relu6" if high == 6 else "relu", call.value("self"))
    return call.add("clip", call.value("self"), low=low, high=high)


def softplus(call: TorchCall) -> str:
    if call["beta"] != 1:
        return call.unknown(" with a beta")
    return call.add("softplus", call.value("self"))


def elu(call: TorchCall) -> str:
    if call["scale"] != 1 or call["input_scale"] != 1:
        return call.unknown(" with scales")
    return call.add("elu", call.value("self"), alpha=call["alpha"] if call["alpha"] != 1 else None)


def softmax(op: str) -> Lowering:
    def lower(call: TorchCall) -> str:
        return call.add(op, call.value("self"), axis=call["dim"] % max(len(call.shape), 1))

    return lower


def prelu(call: TorchCall) -> str:
    return call.add("prelu", call.value("self"), parameters=call.parameters(alpha=call["weight"]), axes=axes_of(call))


ACTIVATIONS: Final[dict[str, Lowering]] = {
    "dropout": dropout(None),
    "feature_dropout": dropout("channel"),
    "alpha_dropout": dropout("other"),
    "relu": activation("relu"),
    "relu6": activation("relu6"),
    "sigmoid": activation("sigmoid"),
    "silu": activation("silu"),
    "hardsigmoid": activation("hard_sigmoid"),
    "hardswish": activation("hard_swish"),
    "tanh": activation("tanh"),
    "selu": activation("selu"),
    "mish": activation("mish"),
    "leaky_relu": activation("leaky_relu", alpha="negative_slope"),
    "elu": elu,
    "gelu": gelu,
    "hardtanh": hardtanh,
    "clamp": clamp,
    "clamp_min": clamp,
    "softplus": softplus,
    "prelu": prelu,
    "softmax": softmax("softmax"),
    "_softmax": softmax("softmax"),
    "log_softmax": softmax("log_softmax"),
    "_log_softmax": softmax("log_softmax"),
    "clamp_max": clamp,
}
