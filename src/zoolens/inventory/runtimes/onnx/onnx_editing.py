"""Copies of an ONNX file for observation: with a name for every operator, and with inner tensors as outputs.

The bytes are edited as they are, without the `onnx` package: weights are copied once and never parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zoolens.inventory.runtimes.model_files.protobuf_wire import Buffer, content, encoded_field, fields
from zoolens.inventory.runtimes.onnx.onnx_file import OnnxGraph, OnnxNode


def node_label(node: OnnxNode) -> str:
    """What the graph importers call the source of a node."""
    return node.name or next((name for name in node.outputs if name), node.op)


def unique_names(graph: OnnxGraph) -> list[str]:
    """A name for each node, of which no two are equal: its label, with its place behind it where others have it too."""
    labels = [node_label(node) for node in graph.nodes]
    counts = Counter(labels)
    return [label if counts[label] == 1 else f"{label}#{place}" for place, label in enumerate(labels)]


def edited(model: bytes, names: Sequence[str] | None = None, outputs: Sequence[str] = ()) -> bytes:
    """The file with other names for the nodes of its graph, and with more tensors among its outputs."""
    pieces: list[Buffer | bytes] = []
    for number, value in fields(memoryview(model)):
        pieces += encoded_field(number, _graph(content(value), names, outputs) if number == 7 else value)
    return b"".join(pieces)


def _graph(graph: Buffer, names: Sequence[str] | None, outputs: Sequence[str]) -> bytes:
    pieces: list[Buffer | bytes] = []
    place = 0
    for number, value in fields(graph):
        if number == 1 and names is not None:
            # A text that occurs twice in a message is what it was last.
            renamed = [content(value), *encoded_field(3, names[place].encode())]
            pieces += encoded_field(1, b"".join(renamed))
            place += 1
        else:
            pieces += encoded_field(number, value)
    for name in outputs:
        pieces += encoded_field(12, b"".join(encoded_field(1, name.encode())))
    return b"".join(pieces)
