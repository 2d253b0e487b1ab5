"""How many rows the table has in which a model looks up the numbers of tokens: ids beyond it have no meaning.

Read from the file, without running it. Some runtimes answer such an id with an error, others with any number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.onnx import onnx_file

_PASSING: Final = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})  # keep the ids
_STORED: Final = frozenset({"DequantizeLinear", "Cast", "Identity"})  # between the stored table and the lookup
_TFLITE_GATHER, _TFLITE_LOOKUP = 36, 7
_TFLITE_PASSING: Final = frozenset({53, 22, 43, 70})  # CAST, RESHAPE, SQUEEZE, EXPAND_DIMS


def table_rows(format_: str, path: Path, name: str) -> int | None:
    """Rows of the smallest table that the input of this name is looked up in; None where no lookup is recognised."""
    try:
        if format_ == "onnx":
            found = _onnx_rows(onnx_file.read_graph(path), name)
        elif format_ == "tflite":
            found = _tflite_rows(tflite_file.read_graph(path), name)
        else:
            return None
    except (ModelError, OSError):
        # Whoever opens the file reports what is wrong with it.
        return None
    return min(found, default=None)


def _onnx_rows(graph: onnx_file.OnnxGraph, name: str) -> list[int]:
    ids, rows = {name}, []
    tables = {constant.name: constant.shape for constant in graph.constants.values()}
    # Nodes stand behind those that feed them.
    for node in graph.nodes:
        if node.op in _STORED and node.inputs and node.inputs[0] in tables:
            tables[node.outputs[0]] = tables[node.inputs[0]]
        if node.op in _PASSING and node.inputs and node.inputs[0] in ids:
            ids.add(node.outputs[0])
        if node.op == "Gather" and len(node.inputs) == 2 and node.inputs[1] in ids:
            shape = tables.get(node.inputs[0], ())
            rows += [shape[0]] if len(shape) == 2 else []
    return rows


def _tflite_rows(graph: tflite_file.TfliteGraph, name: str) -> list[int]:
    ids = {place for place in graph.inputs if graph.tensors[place].name == name}
    if not ids and len(graph.inputs) == 1:
        ids = {graph.inputs[0]}
    rows = []
    for operator in graph.operators:
        given = operator.inputs
        if operator.code in _TFLITE_PASSING and given and given[0] in ids:
            ids.add(operator.outputs[0])
        if operator.code in (_TFLITE_GATHER, _TFLITE_LOOKUP) and len(given) >= 2:
            table, looked_up = given[:2] if operator.code == _TFLITE_GATHER else given[1::-1]
            shape = graph.tensors[table].shape if graph.tensors[table].constant else ()
            rows += [shape[0]] if looked_up in ids and len(shape) == 2 else []
    return rows
