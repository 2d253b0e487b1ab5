"""Which layers of a file each output depends on: the answer of a network comes from more of them than a copy of its
input, an auxiliary classifier or features on the way do. Read from the file, without running it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.onnx import onnx_file

_ONNX_LAYER: Final = re.compile(r".*(Conv|Gemm|MatMul|Attention|Einsum|LSTM|GRU|RNN|EmbedLayer).*")
_ONNX_DOMAINS: Final = ("", "ai.onnx")  # operators of others, such as trees, are layers whatever they compute
# CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, TRANSPOSE_CONV, BATCH_MATMUL, CONV_3D; lookups; recurrent layers.
_TFLITE_LAYERS: Final = frozenset({3, 4, 9, 67, 126, 132, 134, 7, 33, 16, 24, 27, 35, 44, 46, 52})
_TFLITE_BRANCHES: Final = frozenset({118, 119})  # IF, WHILE


@dataclass(frozen=True)
class OutputLayers:
    """What one output depends on."""

    layers: frozenset[int]  # numbers of nodes that multiply by weights
    uses_input: bool


def output_layers(format_: str, path: Path) -> list[OutputLayers] | None:
    """One for each output, in the file's order; None where the file is not read here, or has branches, whose bodies
    may use any tensor."""
    try:
        if format_ == "onnx":
            return _of_onnx(onnx_file.read_graph(path))
        if format_ == "tflite":
            return _of_tflite(tflite_file.read_graph(path))
    except (ModelError, OSError):
        # Whoever opens the file reports what is wrong with it.
        pass
    return None


@dataclass(frozen=True)
class _Node:
    is_layer: bool
    sources: tuple[Hashable, ...]


def _of_onnx(graph: onnx_file.OnnxGraph) -> list[OutputLayers] | None:
    if any(node.has_subgraph for node in graph.nodes):
        return None
    nodes = []
    makers: dict[Hashable, int] = {}
    for place, node in enumerate(graph.nodes):
        nodes.append(_Node(_is_onnx_layer(node), node.inputs))
        makers |= dict.fromkeys(node.outputs, place)
    inputs: set[Hashable] = {spec.name for spec in graph.inputs if spec.name not in graph.constants}
    return [_reached(spec.name, nodes, makers, inputs) for spec in graph.outputs]


def _is_onnx_layer(node: onnx_file.OnnxNode) -> bool:
    return node.domain not in _ONNX_DOMAINS or _ONNX_LAYER.fullmatch(node.op) is not None


def _of_tflite(graph: tflite_file.TfliteGraph) -> list[OutputLayers] | None:
    if any(op.code in _TFLITE_BRANCHES for op in graph.operators):
        return None
    nodes = []
    makers: dict[Hashable, int] = {}
    for place, op in enumerate(graph.operators):
        is_layer = bool(op.custom) or op.code in _TFLITE_LAYERS
        nodes.append(_Node(is_layer, tuple(op.inputs)))
        makers |= dict.fromkeys(op.outputs, place)
    return [_reached(output, nodes, makers, set(graph.inputs)) for output in graph.outputs]


def _reached(
    output: Hashable, nodes: list[_Node], makers: Mapping[Hashable, int], inputs: Iterable[Hashable]
) -> OutputLayers:
    """Walk from an output to what it is made of."""
    waiting, seen = [output], {output}
    layers = set()
    while waiting:
        place = makers.get(waiting.pop())
        if place is None:
            continue
        if nodes[place].is_layer:
            layers.add(place)
        new = [source for source in nodes[place].sources if source not in seen]
        seen.update(new)
        waiting += new
    return OutputLayers(frozenset(layers), not seen.isdisjoint(inputs))
