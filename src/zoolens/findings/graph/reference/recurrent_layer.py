"""What one recurrent layer computes in one direction, step by step, in numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from zoolens.findings.graph.ir.model import Array
from zoolens.findings.graph.ir.recurrent_gates import GATES
from zoolens.findings.graph.reference.layers import NodeCall
from zoolens.findings.graph.reference.onnx_recurrent import sigmoid

CELL_ACTIVATIONS: Final[Mapping[str, Callable[[Array], Array]]] = {
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "identity": lambda x: x,
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "silu": lambda x: x * sigmoid(x),
    "softplus": lambda x: np.logaddexp(0, x),
    "exp": np.exp,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}


def recurrent_layer(call: NodeCall) -> Array:
    """The states of all steps, or the cells, each at the place of its input."""
    given = dict(zip(call.get("given", ()), call.inputs[1:], strict=True))
    count, steps, _ = call.x.shape
    start = np.zeros((count, call.get("hidden")), call.x.dtype)
    state = given.get("state", start)
    cell = given.get("cell", start)
    shown = start
    made = np.zeros((count, steps, call.get("hidden")), call.x.dtype)
    for step in range(steps)[:: -1 if call.get("reverse") else 1]:
        after, after_cell = _STEPS[call.get("kind")](_Cell(call), call.x[:, step], state, cell)
        if "mask" in given:
            kept = given["mask"].reshape(count, steps)[:, step, None].astype(bool)
            state = np.where(kept, after, state)
            cell = np.where(kept, after_cell, cell)
            masked = start if call.get("zero_masked") else shown
            shown = np.where(kept, after_cell if call.get("gives") == "cell" else after, masked)
        else:
            state, cell = after, after_cell
            shown = cell if call.get("gives") == "cell" else state
        made[:, step] = shown
    return made


class _Cell:
    """The gates of one cell as functions."""

    def __init__(self, call: NodeCall) -> None:
        self._parameters = call.parameters
        self.activation = CELL_ACTIVATIONS[call.get("activation", "tanh")]
        self.recurrent_activation = CELL_ACTIVATIONS[call.get("recurrent_activation", "sigmoid")]
        self.reset_first = bool(call.get("reset_first"))

    def fed(self, gate: str, x: Array) -> Array:
        kernel = self._parameters[f"{gate}_kernel"]
        bias = self._bias(f"{gate}_bias")
        return np.asarray(x @ kernel.T + bias)

    def returned(self, gate: str, state: Array) -> Array:
        product = state @ self._parameters[f"{gate}_recurrent_kernel"].T
        return np.asarray(product + self._bias(f"{gate}_recurrent_bias"))

    def _bias(self, name: str) -> Array | float:
        return self._parameters.get(name, 0.0)


def _lstm(cell: _Cell, x: Array, state: Array, memory: Array) -> tuple[Array, Array]:
    sums: Iterator[Array] = (cell.fed(gate, x) + cell.returned(gate, state) for gate in GATES["lstm"])
    given, kept, new, shown = sums
    gate = cell.recurrent_activation
    memory = gate(kept) * memory + gate(given) * cell.activation(new)
    return gate(shown) * cell.activation(memory), memory


def _gru(cell: _Cell, x: Array, state: Array, memory: Array) -> tuple[Array, Array]:
    reset, update = (
        cell.recurrent_activation(cell.fed(gate, x) + cell.returned(gate, state)) for gate in ("reset", "update")
    )
    returned = cell.returned("new", reset * state) if cell.reset_first else reset * cell.returned("new", state)
    new = cell.activation(cell.fed("new", x) + returned)
    return update * state + (1 - update) * new, memory


def _rnn(cell: _Cell, x: Array, state: Array, memory: Array) -> tuple[Array, Array]:
    total = cell.fed("state", x) + cell.returned("state", state)
    return cell.activation(total), memory


_STEPS: Final[Mapping[str, Callable[[_Cell, Array, Array, Array], tuple[Array, Array]]]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn": _rnn,
}
