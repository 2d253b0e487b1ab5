"""What ONNX's recurrent layers compute: LSTM, GRU and RNN, in either direction or both.

Gates of an LSTM are input, output, forget, cell; those of a GRU update, reset, hidden. `W` is (directions,
gates·hidden, width), `R` (directions, gates·hidden, hidden), `B` both biases one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array

Activation = Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """Without the cancellation of 1 + tanh, which leaves large negative numbers without a right digit."""
    # With it, the measured floor of rounding exceeded 1, so that `diverge` took any answer for rounded.
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


def recurrent(kind: str, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> list[Array]:
    """All states, the last state and, of an LSTM, the last cell; ValueError for what ONNX does not define."""
    given = [*inputs, *[None] * (8 - len(inputs))]
    if given[0] is None or given[1] is None or given[2] is None:
        raise ValueError(f"{kind} lacks its sequence or its kernels")
    batch_first = bool(attributes.get("layout", 0))
    steps = given[0].swapaxes(0, 1) if batch_first else given[0]
    ways = _ways(attributes)
    outputs = []
    for place, backwards in enumerate(ways):
        cell = _cell(kind, given, attributes, place, len(ways))
        initial = [_initial(state, place, batch_first) for state in given[5:7]]
        outputs.append(_walked(cell, steps, given[4], initial, backwards=backwards))
    states = np.stack([output[0] for output in outputs], axis=1)
    last = [np.stack([output[part] for output in outputs]) for part in (1, 2)]
    if batch_first:  # (batch, steps, directions, hidden) and (batch, directions, hidden)
        return [states.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in last)]
    return [states, *last]


def _ways(attributes: Mapping[str, Any]) -> tuple[bool, ...]:
    """Whether each direction runs from the end."""
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    return ways[str(attributes.get("direction", "forward"))]


def _initial(state: Array | None, place: int, batch_first: bool) -> Array | None:
    if state is None:
        return None
    return np.asarray(state[:, place] if batch_first else state[place])


@dataclass(frozen=True)
class _Cell:
    """One direction. `step` takes what the kernel makes of one input, the state and the cell; it gives the next two."""

    kernel: Array
    bias: Array
    hidden: int
    step: Callable[[Array, Array, Array], tuple[Array, Array]]


def _walked(
    cell: _Cell, steps: Array, lengths: Array | None, initial: Sequence[Array | None], *, backwards: bool
) -> tuple[Array, Array, Array]:
    """All states in the order of the sequence, and the last state and cell. Behind the end of a sequence that is
    shorter than the others states are 0, and a reversed one begins at its own end."""
    count, batch = steps.shape[:2]
    ends = np.full(batch, count) if lengths is None else np.asarray(lengths, int).reshape(-1)
    zero = np.zeros((batch, cell.hidden), steps.dtype)
    state, memory = (zero if value is None else value.astype(steps.dtype) for value in initial)
    states = np.zeros((count, batch, cell.hidden), steps.dtype)
    for place in range(count)[:: -1 if backwards else 1]:
        live = (place < ends)[:, None]
        after, kept = cell.step(steps[place] @ cell.kernel.T + cell.bias, state, memory)
        state = np.where(live, after, state)
        memory = np.where(live, kept, memory)
        states[place] = np.where(live, after, 0)
    return states, state, memory


def _cell(kind: str, given: Sequence[Any], attributes: Mapping[str, Any], place: int, ways: int) -> _Cell:
    kernel = given[1][place]
    recurrent_kernel = given[2][place]
    hidden = recurrent_kernel.shape[-1]
    rows = len(kernel)
    biases = np.zeros(2 * rows, kernel.dtype) if given[3] is None else given[3][place]
    first = biases[:rows]
    second = biases[rows:]
    functions = _activations(kind, attributes, place, ways)
    clip = attributes.get("clip")

    def limited(x: Array) -> Array:
        if not clip:
            return x
        return np.asarray(np.clip(x, -clip, clip))

    if kind == "LSTM":
        peephole = None if given[7] is None else given[7][place]
        coupled = bool(attributes.get("input_forget", 0))
        step = _lstm(recurrent_kernel, second, peephole, functions, limited, coupled=coupled)
    elif kind == "GRU":
        late = bool(attributes.get("linear_before_reset", 0))
        step = _gru(recurrent_kernel, second, functions, limited, late=late)
    else:
        step = _rnn(recurrent_kernel, second, functions[0], limited)
    return _Cell(kernel, first, hidden, step)


def _lstm(
    kernel: Array,
    bias: Array,
    peephole: Array | None,
    functions: Sequence[Activation],
    limited: Activation,
    *,
    coupled: bool,
) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    gate, new, out = functions

    def step(fed: Array, state: Array, memory: Array) -> tuple[Array, Array]:
        i, o, f, c = np.split(fed + state @ kernel.T + bias, 4, axis=1)
        p_i, p_o, p_f = (0.0, 0.0, 0.0) if peephole is None else np.split(peephole, 3)
        opened = gate(limited(i + p_i * memory))
        kept = 1 - opened if coupled else gate(limited(f + p_f * memory))
        after = kept * memory + opened * new(limited(c))
        return gate(limited(o + p_o * after)) * out(after), after

    return step


def _gru(
    kernel: Array, bias: Array, functions: Sequence[Activation], limited: Activation, *, late: bool
) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """`late`: the state is multiplied before it is reset."""
    gate, new = functions
    k_z, k_r, k_h = np.split(kernel, 3)
    b_z, b_r, b_h = np.split(bias, 3)

    def step(fed: Array, state: Array, memory: Array) -> tuple[Array, Array]:
        z, r, h = np.split(fed, 3, axis=1)
        update = gate(limited(z + state @ k_z.T + b_z))
        reset = gate(limited(r + state @ k_r.T + b_r))
        product = reset * (state @ k_h.T + b_h) if late else (reset * state) @ k_h.T + b_h
        after = (1 - update) * new(limited(h + product)) + update * state
        return after, memory

    return step


def _rnn(
    kernel: Array, bias: Array, function: Activation, limited: Activation
) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    def step(fed: Array, state: Array, memory: Array) -> tuple[Array, Array]:
        return function(limited(fed + state @ kernel.T + bias)), memory

    return step


def _activations(kind: str, attributes: Mapping[str, Any], place: int, ways: int) -> list[Activation]:
    usual = _USUAL[kind]
    names = [str(name) for name in attributes.get("activations") or usual * ways]
    names = names[place * len(usual) : (place + 1) * len(usual)]
    if any(name.lower() not in _ACTIVATIONS for name in names) or len(names) != len(usual):
        raise ValueError(f"its activations are {', '.join(names)[:60]}")
    return [_ACTIVATIONS[name.lower()] for name in names]


_USUAL: Final = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
# Without the activations that have numbers of their own (activation_alpha, activation_beta), which no exporter writes.
_ACTIVATIONS: Final[dict[str, Activation]] = {
    "sigmoid": sigmoid,
    "tanh": lambda x: np.asarray(np.tanh(x)),
    "relu": lambda x: np.asarray(np.maximum(x, 0)),
    "softsign": lambda x: np.asarray(x / (1 + np.abs(x))),
    "softplus": lambda x: np.asarray(np.logaddexp(x, np.zeros((), x.dtype))),
}
RECURRENT: Final = frozenset(_USUAL)
