"""Operators of a file that the vocabulary has no word for, kept as the file has them, so that they can be computed.

An importer leaves a `FileOperator` for each of them in `Graph.facts["operators"]`, by node, where it is asked for
weights. `with_file_operators` writes them into the nodes themselves: attributes under the names that the file has, and
constants as parameters. Then a comparison sees what two files say differently there, and the reference computes them.
Further outputs become nodes of their own, which compute the operator again: no value of a graph then depends on more
than the inputs of its node.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from zoolens.findings.graph.ir.model import Array, Graph, Node, Parameter, Value, nested_tuples, pruned, unused_name

OPERATORS: Final = "operators"  # the fact that holds them
_OWN: Final = ("operator", "domain", "opset", "slots", "outputs", "output", "source_op", "extents", "macs")
_SETTING: Final = 16  # numbers: constants up to this size are settings, such as factors or a count, and not weights
_ROLES: Final = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")  # of recurrent layers


@dataclass(frozen=True)
class FileOperator:
    """An operator as the file has it."""

    kind: str
    domain: str
    opset: int
    outputs: int
    inputs: tuple[str, ...]  # the nodes that it works on
    attributes: dict[str, Any] = field(default_factory=dict)
    # For each of the file's inputs its place among `inputs`, its constant values, or None if it is left out.
    slots: tuple[int | Array | None, ...] = ()


def with_file_operators(graph: Graph) -> Graph:
    """The graph whose opaque nodes say all that the file says of them; others are left as they are."""
    operators: dict[str, FileOperator] = graph.facts.get(OPERATORS, {})
    if not operators:
        return graph
    weights = dict(graph.weights)
    made: dict[str, Node] = {}
    for node in graph.nodes:
        if node.name in operators:
            made[node.name] = _written(node, operators[node.name], weights)
        elif node.op == "output_of" and node.inputs[0] in operators:
            made[node.name] = _further(node, made[node.inputs[0]])
    nodes = tuple(made.get(node.name, node) for node in graph.nodes)
    return pruned(replace(graph, nodes=nodes, weights=weights))


def _written(node: Node, operator: FileOperator, weights: dict[str, Array]) -> Node:
    parameters: list[Parameter] = []
    constants: dict[str, Value] = {}
    slots: list[Value] = []
    for place, slot in enumerate(operator.slots):
        if slot is None or isinstance(slot, int):
            slots.append(slot)
            continue
        role = _role(node, place)
        slots.append(role)
        if node.op != "recurrent" and slot.size <= _SETTING:
            constants[role] = nested_tuples(slot.tolist())
        else:
            key = unused_name(f"{node.name}:{place}", weights)
            weights[key] = slot
            parameters.append(Parameter(role, slot.shape, key))
    own: dict[str, Value] = {
        "operator": operator.kind, "domain": operator.domain or None, "opset": operator.opset,
        "slots": tuple(slots), "outputs": operator.outputs, "source_op": operator.kind, "extents": node.get("extents"),
    }  # fmt: skip
    if node.op == "recurrent":
        own["opset"] = None  # its meaning has not changed since opset 7
    settings = {name: nested_tuples(value) for name, value in operator.attributes.items() if name not in _OWN}
    known = {name: value for name, value in {**settings, **constants, **own}.items() if value is not None}
    return replace(node, inputs=operator.inputs, attributes=known, parameters=tuple(parameters))


def _role(node: Node, place: int) -> str:
    if node.op == "recurrent" and place < len(_ROLES):
        return _ROLES[place]
    return f"input {place + 1}"


def _further(node: Node, first: Node) -> Node:
    attributes = {**first.attributes, "output": node.get("index")}
    return replace(node, op=first.op, inputs=first.inputs, attributes=attributes, parameters=first.parameters)


def is_file_operator(node: Node) -> bool:
    """Whether the node says all that its file says of it."""
    return node.get("operator") is not None


def settings(node: Node) -> dict[str, Any]:
    """The file's own attributes, with lists where the file has lists."""
    ours = {*_OWN, *node.get("slots", ())}
    given = {name: value for name, value in node.attributes.items() if name not in ours}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


def arguments(node: Node, inputs: tuple[Array, ...], parameters: dict[str, Array]) -> list[Array | None]:
    """The inputs of the file's operator in its own order."""
    found: list[Array | None] = []
    for slot in node.get("slots", ()):
        if slot is None:
            found.append(None)
        elif isinstance(slot, int):
            found.append(inputs[slot])
        else:
            found.append(np.asarray(parameters[slot] if slot in parameters else node.get(slot)))
    return found
