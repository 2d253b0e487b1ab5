"""Keras' recurrent layers: LSTM, GRU, SimpleRNN, RNN of their cells, stacked cells, and Bidirectional around them.

A cell that somebody wrote, a layer that keeps its state between calls and convolutional cells stay unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.importers.keras.keras_activations import cell_activation
from zoolens.findings.graph.importers.keras.walk import KerasCall, KerasWalk, Ref
from zoolens.findings.graph.ir.model import Array, Parameter
from zoolens.findings.graph.ir.recurrent_gates import role

# The kind of each cell, and its gates in the order in which Keras packs them.
_CELLS: Final = {
    "LSTMCell": ("lstm", ("input", "forget", "cell", "output")),
    "GRUCell": ("gru", ("update", "reset", "new")),
    "SimpleRNNCell": ("rnn", ("state",)),
}


@dataclass(frozen=True)
class _Run:
    """What one layer makes in one direction: its states at the places of their inputs, and those after the last step,
    of each cell the state and, of an LSTM, the cell."""

    states: str
    final: tuple[str, ...]


def recurrent(walk: KerasWalk, call: KerasCall) -> list[str] | None:
    """All outputs of a recurrent layer; None where it is none that is known here."""
    layer = call.target
    if not _is_of_keras(layer, "RNN"):
        return None
    mask = _mask(call)
    states = _states(call)
    made = _run(walk, call, layer, mask, states)
    if made is None:
        return None
    first = _shown(walk, call, layer, made)
    return [first, *made.final] if layer.return_state else [first]


def bidirectional(walk: KerasWalk, call: KerasCall) -> list[str] | None:
    layer = call.target
    if not _is_of_keras(layer, "Bidirectional"):
        return None
    mask = _mask(call)
    states = _states(call)
    half = len(states) // 2
    made = [
        _run(walk, call, inner, mask, given)
        for inner, given in ((layer.forward_layer, states[:half]), (layer.backward_layer, states[half:]))
    ]
    forward, backward = made
    if forward is None or backward is None:
        return None
    # Keras reverses the states of the way back, so that they stand at the places of their inputs.
    outputs = [each.states if layer.return_sequences else each.final[0] for each in (forward, backward)]
    merged = _merged(walk, call, outputs, layer.merge_mode)
    if layer.return_state:
        return [*merged, *forward.final, *backward.final]
    return merged


def _merged(walk: KerasWalk, call: KerasCall, outputs: list[str], mode: str | None) -> list[str]:
    shape = list(walk.shape(outputs[0]))
    if mode is None:
        return outputs
    if mode == "concat":
        shape[-1] *= 2
        return [walk.add("concat", call, inputs=outputs, shape=shape, axis=len(shape) - 1)]
    total = walk.add("mul" if mode == "mul" else "add", call, inputs=outputs, shape=shape)
    if mode == "ave":
        return [walk.add("div", call, inputs=[total], shape=shape, scalar=2.0)]
    return [total]


def _is_of_keras(layer: Any, name: str) -> bool:
    """Whether a layer is of that class of Keras, and computes as it does."""
    for kind in type(layer).__mro__:
        if kind.__module__.partition(".")[0] == "keras":
            return any(each.__name__ == name for each in kind.__mro__)
        if "call" in vars(kind):
            return False
    return False


def _mask(call: KerasCall) -> str | None:
    mask = call.kwargs.get("mask")
    return mask.name if isinstance(mask, Ref) else call.mask


def _states(call: KerasCall) -> list[str]:
    """The states to begin with, where they are given."""
    given = call.argument(1, "initial_state")
    listed = given if isinstance(given, list | tuple) else [given]
    return [state.name for state in listed if isinstance(state, Ref)]


def _run(walk: KerasWalk, call: KerasCall, layer: Any, mask: str | None, states: Sequence[str]) -> _Run | None:
    """One layer, or as many as its cell stacks."""
    cells = list(layer.cell.cells) if type(layer.cell).__name__ == "StackedRNNCells" else [layer.cell]
    known = all(type(cell).__name__ in _CELLS and type(cell).__module__.startswith("keras.") for cell in cells)
    zeroed = bool(mask and layer.zero_output_for_mask)
    if not known or layer.stateful or (zeroed and (layer.return_state or not layer.return_sequences)):
        return None
    if len(cells) > 1 and (mask or states or layer.return_state):
        return None
    value = call.values[0]
    final = tuple[str, ...]()
    for cell in cells:
        fed = _CellInput(value, mask, tuple(states), reverse=layer.go_backwards, zeroed=zeroed)
        made = _cell(walk, call, cell, fed)
        if made is None:
            return None
        value = made.states
        final = made.final
    return _Run(value, final)


@dataclass(frozen=True)
class _CellInput:
    """What a cell runs over, and in which direction."""

    value: str
    mask: str | None
    states: tuple[str, ...]  # to begin with; none where they are zero
    reverse: bool
    zeroed: bool  # whether the answer is zero where the mask hides a step


def _cell(walk: KerasWalk, call: KerasCall, cell: Any, fed: _CellInput) -> _Run | None:
    kind, gates = _CELLS[type(cell).__name__]
    activation = cell_activation(cell.activation)
    gate_activation = cell_activation(getattr(cell, "recurrent_activation", None)) if kind != "rnn" else "sigmoid"
    if activation is None or gate_activation is None:
        return None
    count, steps, _ = walk.shape(fed.value)
    further = {"mask": fed.mask} if fed.mask else {}
    further |= dict(zip(("state", "cell"), fed.states, strict=False))
    settings: dict[str, Any] = {
        "inputs": [fed.value, *further.values()],
        "shape": (count, steps, cell.units),
        "parameters": list(_parameters(walk, cell, kind, gates)),
        "kind": kind,
        "hidden": int(cell.units),
        "reverse": fed.reverse or None,
        "activation": activation if activation != "tanh" else None,
        "recurrent_activation": gate_activation if gate_activation != "sigmoid" else None,
        "reset_first": True if kind == "gru" and not cell.reset_after else None,
        "given": tuple(further) or None,
        "zero_masked": fed.zeroed or None,
    }
    made = walk.add("recurrent_layer", call, **settings)
    final = [_last(walk, call, made, fed.reverse)]
    if kind == "lstm":
        cells = walk.add("recurrent_layer", call, **{**settings, "gives": "cell"})
        final.append(_last(walk, call, cells, fed.reverse))
    return _Run(made, tuple(final))


def _parameters(walk: KerasWalk, cell: Any, kind: str, gates: Sequence[str]) -> Iterator[Parameter]:
    """Each gate's columns of the packed kernels, and its part of the biases."""
    width = int(cell.units)
    twice = kind == "gru" and bool(cell.reset_after)
    for number, gate in enumerate(gates):
        columns = slice(number * width, (number + 1) * width)
        for tensor in ("kernel", "recurrent_kernel"):
            yield walk.parameter(role(gate, tensor), getattr(cell, tensor), _columns(columns), f"[{gate}]")
        if cell.use_bias:
            places = (0, 1) if twice else (None,)
            for row, tensor in zip(places, ("bias", "recurrent_bias"), strict=False):
                arrange = _row(row, columns)
                yield walk.parameter(role(gate, tensor), cell.bias, arrange, f"[{row or 0}, {gate}]")


def _columns(columns: slice) -> Any:
    return lambda values: np.transpose(values[:, columns])


def _row(row: int | None, columns: slice) -> Any:
    def taken(values: Array) -> Array:
        return values[columns] if row is None else values[row, columns]

    return taken


def _last(walk: KerasWalk, call: KerasCall, states: str, reverse: bool) -> str:
    """The state after the last step, which stands at the first place if the layer runs from the end."""
    count, steps, width = walk.shape(states)
    place = 0 if reverse else steps - 1
    cut = {"axis": 1, "start": place, "stop": place + 1}
    last = walk.add("slice", call, inputs=[states], shape=(count, 1, width), **cut)
    return walk.add("reshape", call, inputs=[last], shape=(count, width))


def _shown(walk: KerasWalk, call: KerasCall, layer: Any, made: _Run) -> str:
    """What the layer answers: the last state, or all; those of a layer that runs from the end in its own order."""
    if not layer.return_sequences:
        return made.final[0]
    if not layer.go_backwards:
        return made.states
    shape = walk.shape(made.states)
    return walk.add("gather", call, inputs=[made.states], shape=shape, axis=1, indices=tuple(reversed(range(shape[1]))))
