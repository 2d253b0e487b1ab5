"""Loops of JAX (`lax.scan`) that are recurrent layers, as Flax and others write them.

The step of the loop is walked by itself, and what it computes is compared with the cells that are known: an LSTM, a GRU
and a simple recurrent layer. The sums that go into its gates are linear in what is fed and in the state, so that their
kernels are read from their answers to unit vectors, whatever tensors they were put together from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoolens.base.errors import ModelError
from zoolens.findings.graph.importers.jax.walk import JaxCall, JaxWalk, Leaf, Operand, without_ones
from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, pruned
from zoolens.findings.graph.ir.recurrent_gates import role
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.findings.graph.reference.recurrent_layer import CELL_ACTIVATIONS

Walked = Callable[[JaxWalk, Any, Sequence[Operand], Sequence[Operand]], list[Operand]]


@dataclass(frozen=True)
class _Gate:
    """A gate: the value that goes into its activation, and the activation."""

    sum: str
    activation: str


@dataclass(frozen=True)
class _CellMatch:
    kind: str
    gates: Mapping[str, _Gate]
    activation: str = "tanh"
    recurrent_activation: str = "sigmoid"
    reset_first: bool = False
    returned: str = ""  # gru: the product with the state that is reset afterwards


class _Step:
    """The step of a loop as a graph of its own, with the values that the match asks for."""

    def __init__(self, walk: JaxWalk, fed: str, states: Sequence[str]) -> None:
        self.walk, self.fed, self.states = walk, fed, tuple(states)
        self.nodes = {node.name: node for node in walk.builder.nodes}

    def maker(self, name: str) -> Node:
        node = self.nodes[name]
        while node.op in ("reshape", "identity", "cast"):
            before = self.nodes[node.inputs[0]]
            if without_ones(before.shape) != without_ones(node.shape):
                break
            node = before
        return node

    def factors(self, name: str) -> tuple[Node, Node] | None:
        node = self.maker(name)
        if _is_two(node, "mul"):
            return (self.maker(node.inputs[0]), self.maker(node.inputs[1]))
        return None

    def depends(self, name: str, on: str) -> bool:
        return name == on or any(self.depends(given, on) for given in self.nodes[name].inputs)

    def computed(self, name: str, given: Mapping[str, Array]) -> Array:
        """A value for these inputs, or these values in the place of what is computed; other inputs are zeros."""
        builder = self.walk.builder
        graph = pruned(Graph("step", tuple(builder.nodes), (name,), builder.weights))
        zeros = {node.name: np.zeros(node.shape, np.float64) for node in graph.inputs}
        values = node_values(graph, {**zeros, **given}, given, precision=np.dtype(np.float64))
        return next(value for node, value in values if node.name == name).reshape(-1)

    def has_bias(self, name: str) -> bool:
        """Whether a learned tensor is added to what goes into a gate."""
        node = self.nodes[name]
        if node.op in ("dense", "matmul", "mul", "input"):
            return False
        return node.op in ("parameter", "affine") or any(self.has_bias(given) for given in node.inputs)


def recurrent_scan(call: JaxCall, walked: Walked) -> list[Operand] | None:
    """The results of a loop that is a recurrent layer; None where it is none that is known here."""
    settings = call.settings
    carried = int(settings["num_carry"])
    consts = int(settings["num_consts"])
    if len(call.operands) != consts + carried + 1 or carried not in (1, 2):
        return None
    program = settings["jaxpr"]
    sequence = call.given[-1]
    if len(sequence) != 3 or len(call.shapes) > carried + 1:
        return None
    try:
        step, outputs = _stepped(call, program, consts, carried, walked)
        match = _matched(step, outputs[:carried])
        shown = outputs[carried] if len(outputs) > carried else outputs[carried - 1]
        if match is None or step.maker(shown).name != step.maker(outputs[_state(carried)]).name:
            return None
        return _layer(call, step, match, carried)
    except (ModelError, KeyError, IndexError, ValueError):  # a step that is read otherwise than it is computed
        return None


def _state(carried: int) -> int:
    """Where Flax carries the state: behind the cell, where there is one."""
    return carried - 1


def _stepped(call: JaxCall, program: Any, consts: int, carried: int, walked: Walked) -> tuple[_Step, list[str]]:
    """The step, walked with the loop's own constants."""
    walk = JaxWalk("step", weights=True)
    operands: list[Operand] = []
    for place, variable in enumerate(program.jaxpr.invars):
        given = call.operands[place]
        if place < consts:
            if not isinstance(given, Leaf):
                raise ModelError("The step uses a value that is computed before the loop.")
            operands.append(given)
        else:
            name = f"carry{place - consts}" if place < consts + carried else "fed"
            operands.append(walk.builder.add("input", (), variable.aval.shape, name=name, source=name))
    made = walked(walk, program.jaxpr, [walk.constant(value) for value in program.consts], operands)
    names = [walk.node(output) for output in made]
    return _Step(walk, "fed", [f"carry{place}" for place in range(carried)]), names


def _matched(step: _Step, carry: Sequence[str]) -> _CellMatch | None:
    if len(carry) == 2:
        return _lstm(step, carry)
    return _gru(step, carry[0]) or _simple(step, carry[0])


def _lstm(step: _Step, carry: Sequence[str]) -> _CellMatch | None:
    """c' = forget·c + input·new and h' = output·activation(c')."""
    cell = step.maker(carry[0])
    state = step.maker(carry[1])
    factors = step.factors(state.name)
    if factors is None or not _is_two(cell, "add"):
        return None
    shown = next((each for each in factors if _of(step, each) == cell.name), None)
    output = next((each for each in factors if each is not shown), None)
    terms = [step.factors(name) for name in cell.inputs]
    if shown is None or output is None or terms[0] is None or terms[1] is None:
        return None
    kept = next((pair for pair in terms if pair and step.states[0] in (pair[0].name, pair[1].name)), None)
    new = next((pair for pair in terms if pair is not kept), None)
    if kept is None or new is None:
        return None
    forget = next(each for each in kept if each.name != step.states[0])
    gate = _activation(forget)
    given = next((each for each in new if _activation(each) == gate), None)
    candidate = next((each for each in new if each is not given), None)
    if candidate is None or given is None or not gate or _activation(output) != gate:
        return None
    if not _activation(candidate) or _activation(candidate) != _activation(shown):
        return None
    nodes = {"input": given, "forget": forget, "cell": candidate, "output": output}
    gates = {name: _Gate(node.inputs[0], _activation(node)) for name, node in nodes.items()}
    return _CellMatch("lstm", gates, _activation(candidate), gate)


def _activation(node: Node) -> str:
    """The activation that a node is; empty where it is none that is known in a cell."""
    if node.op == "maximum" and node.get("scalar") == 0:
        return "relu"
    if node.op in CELL_ACTIVATIONS and len(node.inputs) == 1:
        return node.op
    return ""


def _of(step: _Step, node: Node) -> str:
    return step.maker(node.inputs[0]).name if _activation(node) else ""


def _gru(step: _Step, carry: str) -> _CellMatch | None:
    """h' = (1 - update)·new + update·h, and new = activation(fed + reset·returned)."""
    total = step.maker(carry)
    if not _is_two(total, "add"):
        return None
    terms = [step.factors(name) for name in total.inputs]
    kept = next((pair for pair in terms if pair and step.states[0] in (pair[0].name, pair[1].name)), None)
    mixed = next((pair for pair in terms if pair is not kept), None)
    if kept is None or mixed is None:
        return None
    update = next(each for each in kept if each.name != step.states[0])
    rest = next((each for each in mixed if _is_rest(step, each, update)), None)
    new = next((each for each in mixed if each is not rest), None)
    if rest is None or new is None or not _activation(new) or not _activation(update):
        return None
    parts = _reset_parts(step, new.inputs[0])
    if parts is None:
        return None
    reset, returned, first = parts
    if _activation(reset) != _activation(update):
        return None
    nodes = {"reset": reset, "update": update, "new": new}
    gates = {name: _Gate(node.inputs[0], _activation(node)) for name, node in nodes.items()}
    return _CellMatch("gru", gates, _activation(new), _activation(update), first, returned)


def _is_rest(step: _Step, node: Node, update: Node) -> bool:
    one = node.op == "sub" and node.get("scalar") == 1.0 and bool(node.get("reverse"))
    return one and step.maker(node.inputs[0]).name == update.name


def _reset_parts(step: _Step, name: str) -> tuple[Node, str, bool] | None:
    """The reset gate, the product with the state that it meets, and whether it meets the state before the product."""
    node = step.maker(name)
    for given in node.inputs if _is_two(node, "add") else ():
        pair = step.factors(given)
        for gate, other in (pair, pair[::-1]) if pair else ():
            if _activation(gate) and not step.depends(other.name, step.fed):
                return gate, other.name, False
        inner = next((maker for maker in _products(step, given)), None)
        if inner is not None:
            return inner[0], inner[1], True
    return None


def _products(step: _Step, name: str) -> list[tuple[Node, str]]:
    """Resets of the state that go into a sum."""
    node = step.maker(name)
    if node.op == "mul":
        pair = step.factors(node.name)
        for gate, other in (pair, pair[::-1]) if pair else ():
            if other.name == step.states[0] and _activation(gate):
                return [(gate, node.name)]
        return []
    if node.op in ("dense", "add", "affine", "slice"):
        return [found for given in node.inputs for found in _products(step, given)]
    return []


def _simple(step: _Step, carry: str) -> _CellMatch | None:
    node = step.maker(carry)
    activation = _activation(node)
    return _CellMatch("rnn", {"state": _Gate(node.inputs[0], activation)}, activation) if activation else None


def _is_two(node: Node, op: str) -> bool:
    return node.op == op and len(node.inputs) == 2


def _layer(call: JaxCall, step: _Step, match: _CellMatch, carried: int) -> list[Operand]:
    """The layer on (N, steps, width), with its results in the loop's own order of axes."""
    parameters = _parameters(call, step, match)
    steps, count, _ = call.given[-1]
    hidden = call.given[-2][-1]
    given = {}
    for place, name in zip(range(carried)[::-1], ("state", "cell"), strict=False):
        operand = call.operands[-1 - carried + place]
        if not (isinstance(operand, Leaf) and not operand.learned and not operand.values.any()):
            given[name] = call.value(len(call.operands) - 1 - carried + place)
    fed = _turned(call, call.value(len(call.operands) - 1))
    reverse = bool(call.settings["reverse"])
    attributes: dict[str, Any] = {
        "kind": match.kind,
        "hidden": int(hidden),
        "reverse": reverse or None,
        "activation": match.activation if match.activation != "tanh" else None,
        "recurrent_activation": match.recurrent_activation if match.recurrent_activation != "sigmoid" else None,
        "reset_first": match.reset_first or None,
        "given": tuple(given) or None,
        "parameters": parameters,
        "shape": (count, steps, hidden),
    }
    states = call.add("recurrent_layer", fed, *given.values(), **attributes)
    results: list[Operand] = []
    for place in range(carried):
        cells = carried == 2 and place == 0
        whole = call.add("recurrent_layer", fed, *given.values(), gives="cell", **attributes) if cells else states
        at = 0 if reverse else steps - 1
        cut = call.add("slice", whole, shape=(count, 1, hidden), axis=1, start=at, stop=at + 1)
        results.append(call.add("reshape", cut, shape=(count, hidden)))
    if len(call.shapes) > carried:
        results.append(_turned(call, states))
    return results


def _turned(call: JaxCall, name: str) -> str:
    """Batch and steps change places."""
    before = call.walk.maker(name)
    if before.op == "transpose" and before.get("perm") == (1, 0, 2):
        return before.inputs[0]
    first, second, width = before.shape
    return call.add("transpose", name, shape=(second, first, width), perm=(1, 0, 2))


def _parameters(call: JaxCall, step: _Step, match: _CellMatch) -> list[Parameter]:
    """Each gate's kernels and biases, read from its answers."""
    found: list[Parameter] = []
    for name, gate in match.gates.items():
        new = match.kind == "gru" and name == "new"
        tensors = _of_new_gate(step, gate.sum, match) if new else _of_gate(step, gate.sum)
        for tensor, values in tensors.items():
            key = f"{_key(step, gate.sum)}[{name} {tensor}]"
            plain = values.astype(np.float32)
            found.append(call.walk.builder.parameter(role(name, tensor), plain.shape, key, plain))
    return found


def _of_gate(step: _Step, name: str) -> dict[str, Array]:
    total = step.computed(name, {})
    kernels = {
        "kernel": _columns(step, name, step.fed) - total[:, None],
        "recurrent_kernel": _columns(step, name, step.states[-1]) - total[:, None],
    }
    return {**kernels, "bias": total} if step.has_bias(name) else kernels


def _of_new_gate(step: _Step, name: str, match: _CellMatch) -> dict[str, Array]:
    """The new gate of a GRU: what is reset, the state or its product, is replaced by zeros and by unit vectors."""
    zeros = {match.returned: np.zeros(step.nodes[match.returned].shape)}
    total = step.computed(name, zeros)
    found = {"kernel": _columns(step, name, step.fed, zeros) - total[:, None]}
    if match.reset_first:
        found["recurrent_kernel"] = _columns(step, name, match.returned) - total[:, None]
    else:
        inner = step.computed(match.returned, {})
        found["recurrent_kernel"] = _columns(step, match.returned, step.states[-1]) - inner[:, None]
        found |= {"recurrent_bias": inner} if step.has_bias(match.returned) else {}
    node = step.maker(name)
    fed = [given for given in node.inputs if match.reset_first or not step.depends(given, match.returned)]
    return {**found, "bias": total} if any(map(step.has_bias, fed)) else found


def _columns(step: _Step, name: str, given: str, others: Mapping[str, Array] | None = None) -> Array:
    """The answers to unit vectors in the place of one value."""
    shape = step.nodes[given].shape
    rows = np.eye(shape[-1])
    columns = []
    for row in rows:
        values = {**(others or {}), given: row.reshape(shape)}
        columns.append(step.computed(name, values))
    return np.stack(columns, axis=1)


def _key(step: _Step, name: str) -> str:
    """The first learned tensor that a gate's sum is made from."""
    node = step.nodes[name]
    if node.parameters:
        return node.parameters[0].key
    return next((key for given in node.inputs if (key := _key(step, given))), "")
