"""Recurrent layers of an IR. OpenVINO has the batch before the time, other gates first, and one bias for two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.importers.openvino.writing import LayerWriting, Untranslatable
from zoolens.findings.graph.ir.model import Array

_BATCH_FIRST: Final = (1, 0, 2)
_IOFC: Final = (1, 3, 0, 2)  # OpenVINO's gates f, i, c, o in ONNX's order
_USUAL: Final = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_SPELLED: Final = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}


def _lstm(layer: LayerWriting) -> None:
    given, hidden, cell, lengths, *weights = layer.layer.inputs
    kernel, recurrent, bias = (layer.graph.values(name) for name in weights)
    kernel, recurrent, bias = (_gates(values) for values in (kernel, recurrent, bias))
    states = [layer.add("Transpose", state, perm=_BATCH_FIRST) for state in (hidden, cell)]
    biases = np.concatenate([bias, np.zeros_like(bias)], axis=-1)
    _write(layer, "LSTM", given, (kernel, recurrent, biases), lengths, states)


def _gru(layer: LayerWriting) -> None:
    given, hidden, lengths, *weights = layer.layer.inputs
    kernel, recurrent, bias = (layer.graph.values(name) for name in weights)
    late = layer.flag("linear_before_reset")
    rows = layer.whole("hidden_size")
    second = np.zeros((*bias.shape[:-1], 3 * rows), bias.dtype)
    if late:  # the new state has a bias of its own behind the reset
        second[..., 2 * rows :] = bias[..., 3 * rows :]
    biases = np.concatenate([bias[..., : 3 * rows], second], axis=-1)
    states = [layer.add("Transpose", hidden, perm=_BATCH_FIRST)]
    _write(layer, "GRU", given, (kernel, recurrent, biases), lengths, states, linear_before_reset=int(late) or None)


def _rnn(layer: LayerWriting) -> None:
    given, hidden, lengths, *weights = layer.layer.inputs
    kernel, recurrent, bias = (layer.graph.values(name) for name in weights)
    states = [layer.add("Transpose", hidden, perm=_BATCH_FIRST)]
    biases = np.concatenate([bias, np.zeros_like(bias)], axis=-1)
    _write(layer, "RNN", given, (kernel, recurrent, biases), lengths, states)


def _gates(values: Array) -> Array:
    """The four gates of an LSTM in ONNX's order."""
    parts = np.split(values, len(_IOFC), axis=1)
    return np.concatenate([parts[place] for place in _IOFC], axis=1)


def _write(
    layer: LayerWriting,
    op: str,
    given: str,
    weights: Sequence[Array],
    lengths: str,
    states: Sequence[str],
    **settings: Any,
) -> None:
    held = [layer.constant(values, str(values.dtype)) for values in weights]
    direction = layer.text("direction", "forward").lower()
    attributes = {
        "hidden_size": layer.whole("hidden_size"),
        "direction": direction if direction != "forward" else None,
        "clip": layer.number("clip", 0.0) or None,
        "activations": _activations(layer, op, direction),
        **settings,
    }
    steps = layer.add("Transpose", given, perm=_BATCH_FIRST)
    inputs = [steps, *held, _lengths(layer, lengths, given), *states]
    outputs = [port.name for port in layer.layer.outputs]
    time_first = [f"{name}:turned" for name in outputs]
    layer.graph.add(op, inputs, time_first, layer.layer.name, attributes)
    orders = ((2, 1, 0, 3), _BATCH_FIRST, _BATCH_FIRST)
    for name, inner, order in zip(outputs, time_first, orders, strict=False):
        layer.graph.add("Transpose", (inner,), (name,), name, {"perm": order})


def _activations(layer: LayerWriting, op: str, direction: str) -> list[str] | None:
    """None where they are the usual ones. ONNX names them for each direction."""
    given = [part.strip().lower() for part in layer.text("activations").split(",") if part.strip()]
    if any(name not in _SPELLED for name in given) or layer.list("activations_alpha") or layer.list("activations_beta"):
        raise Untranslatable
    if not given or given == _USUAL[op]:
        return None
    return [_SPELLED[name] for name in given] * (2 if direction == "bidirectional" else 1)


def _lengths(layer: LayerWriting, name: str, given: str) -> str:
    """The lengths of the sequences; left out where they are all of the input."""
    steps = layer.graph.ports[given].shape[1]
    if name in layer.graph.graph.constants and set(layer.graph.whole_numbers(name)) == {steps}:
        return ""
    return name


RECURRENT: Final[dict[str, Callable[[LayerWriting], None]]] = {
    "LSTMSequence": _lstm, "GRUSequence": _gru, "RNNSequence": _rnn,
}  # fmt: skip
