"""A graph as JSON and back. Weights are not part of it."""

from __future__ import annotations

import json
import zlib
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.base.safety.untrusted import parse_json
from zoolens.findings.graph.ir.model import Graph, Node, Parameter, checked, nested_tuples

VERSION: Final = 1  # of this form
_MAX_JSON: Final = 1 << 28


def to_json(graph: Graph) -> dict[str, Any]:
    return {
        "version": VERSION,
        "name": graph.name,
        "outputs": list(graph.outputs),
        "facts": dict(graph.facts),
        "nodes": [_node(node) for node in graph.nodes],
    }


def _node(node: Node) -> dict[str, Any]:
    row: dict[str, Any] = {"name": node.name, "op": node.op, "in": list(node.inputs), "shape": list(node.shape)}
    if node.attributes:
        row["attributes"] = dict(node.attributes)
    if node.parameters:
        row["parameters"] = [[tensor.role, list(tensor.shape), tensor.key] for tensor in node.parameters]
    if node.source:
        row["source"] = node.source
    if node.axes:
        row["axes"] = node.axes
    return row


def from_json(document: dict[str, Any]) -> Graph:
    """The graph a document describes; ModelError where it is not one."""
    try:
        nodes = tuple(_read_node(row) for row in document["nodes"])
        graph = Graph(str(document["name"]), nodes, tuple(document["outputs"]), facts=dict(document["facts"]))
        return checked(graph)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"A stored graph is damaged: {type(error).__name__}: {error}.") from error


def _read_node(row: dict[str, Any]) -> Node:
    return Node(
        row["name"],
        row["op"],
        tuple(row["in"]),
        tuple(row["shape"]),
        {key: nested_tuples(value) for key, value in row.get("attributes", {}).items()},
        tuple(Parameter(role, tuple(shape), key) for role, shape, key in row.get("parameters", ())),
        row.get("source", ""),
        row.get("axes", ""),
    )


def pack(graph: Graph) -> bytes:
    return zlib.compress(json.dumps(to_json(graph), separators=(",", ":")).encode())


def unpack(packed: bytes) -> Graph:
    machine = zlib.decompressobj()
    try:
        text = machine.decompress(packed, _MAX_JSON)
        if machine.unconsumed_tail:
            raise ModelError(f"A stored graph has more than {_MAX_JSON:,} bytes.")
        document = parse_json(text)
    except (zlib.error, ValueError) as error:
        raise ModelError(f"A stored graph is damaged: {error}.") from error
    return from_json(document)
