"""Which tensors of a file are quantised, and how their integers stand for real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.findings.divergence.evaluation import Grid
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.onnx import onnx_file
from zoolens.inventory.runtimes.onnx.onnx_editing import node_label
from zoolens.inventory.runtimes.onnx.onnx_values import array, attributes

_INTEGERS: Final = ("int8", "uint8", "int16", "uint16")  # int32 are accumulators and biases, which are not rounded
# Operators of ONNX with a quantised output -> the places of its scale and zero point among their inputs.
_SCALED: Final[Mapping[str, tuple[int, int]]] = {
    "QuantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QLinearAdd": (6, 7),
    "QLinearMul": (6, 7), "QGemm": (7, 8), "QLinearConcat": (0, 1), "QLinearGlobalAveragePool": (3, 4),
    "QLinearAveragePool": (3, 4), "QLinearSigmoid": (3, 4), "QLinearLeakyRelu": (3, 4), "QLinearSoftmax": (3, 4),
}  # fmt: skip
_DYNAMIC: Final = ("MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")
_KEEPING: Final = ("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Slice", "Pad")


def quantised_tensors(file_format: str, paths: Mapping[str, Path]) -> dict[str, Grid]:
    """The grid of each quantised tensor of a file, by name; empty for formats that keep real numbers."""
    if file_format == "tflite":
        return _of_tflite(paths["model"])
    return _of_onnx(paths["model"]) if file_format == "onnx" else {}


def dynamic_layers(file_format: str, paths: Mapping[str, Path]) -> set[str]:
    """The layers whose inputs an ONNX file quantises while it runs, by the names of their nodes."""
    if file_format != "onnx":
        return set()
    return {node_label(node) for node in onnx_file.read_graph(paths["model"]).nodes if node.op in _DYNAMIC}


def _of_tflite(path: Path) -> dict[str, Grid]:
    file = tflite_file.read_graph(path)
    return {
        label: Grid.of(tensor.scale, tensor.zero_point or 0, tensor.dtype)
        for label, tensor in zip(tflite_file.tensor_labels(file), file.tensors, strict=True)
        if tensor.scale and not tensor.constant and tensor.dtype in _INTEGERS
    }


def _of_onnx(path: Path) -> dict[str, Grid]:
    file = onnx_file.read_graph(path)
    constants: dict[str, Any] = dict(file.constants)
    for node in file.nodes:
        if node.op == "Constant" and node.outputs:
            constants[node.outputs[0]] = attributes(node).get("value")
    grids: dict[str, Grid] = {}
    for node in file.nodes:
        places = _SCALED.get(node.op)
        if places is not None and (grid := _grid(node, *places, constants, path.parent)) is not None:
            grids[node.outputs[0]] = grid
        elif node.op in _KEEPING and node.inputs and node.inputs[0] in grids:
            grids[node.outputs[0]] = grids[node.inputs[0]]
        elif node.op == "DequantizeLinear" and node.inputs[0] not in {*constants, *grids}:
            grid = _grid(node, 1, 2, constants, path.parent)
            if grid is not None:
                grids[node.inputs[0]] = grid
    return grids


def _grid(node: onnx_file.OnnxNode, scale: int, zero: int, constants: Mapping[str, Any], folder: Path) -> Grid | None:
    """The grid that a scale and a zero point make; None where they are computed, or one for each channel."""
    scales = _numbers(node, scale, constants, folder)
    zeros = _numbers(node, zero, constants, folder)
    if scales is None or scales.size != 1:
        return None
    dtype = str(zeros.dtype) if zeros is not None else "uint8"  # as ONNX has it where the zero point is left out
    if dtype not in _INTEGERS or (zeros is not None and zeros.size != 1):
        return None
    return Grid.of(float(scales.item()), 0 if zeros is None else int(zeros.item()), dtype)


def _numbers(node: onnx_file.OnnxNode, place: int, constants: Mapping[str, Any], folder: Path) -> Any:
    tensor = constants.get(node.inputs[place]) if place < len(node.inputs) else None
    if isinstance(tensor, onnx_file.OnnxTensor):
        return array(tensor, folder)
    return None if tensor is None else np.asarray(tensor)
