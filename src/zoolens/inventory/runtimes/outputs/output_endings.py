"""What a file's outputs come from: a softmax, a dense layer, a pool. Read from the file, without running it.

Only operators that change no value's meaning (reshapes, casts, quantisation) are looked through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert import tflite_file
from zoolens.inventory.runtimes.onnx import onnx_file


class Ending(StrEnum):
    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SCORES = "a dense layer or convolution"
    FEATURES = "pooling, normalising or averaging"
    DETECTIONS = "the post-processing of a detector"
    RANKED = "a choice of the highest numbers"
    UNKNOWN = "unknown"


_ONNX: Final[Mapping[str, Ending]] = {
    **dict.fromkeys(("Softmax", "QLinearSoftmax"), Ending.SOFTMAX),
    **dict.fromkeys(("Sigmoid", "QLinearSigmoid"), Ending.SIGMOID),
    **dict.fromkeys(
        ("Gemm", "MatMul", "Conv", "QLinearConv", "QLinearMatMul", "MatMulInteger", "QGemm"), Ending.SCORES
    ),
    **dict.fromkeys(
        ("GlobalAveragePool", "AveragePool", "ReduceMean", "QLinearGlobalAveragePool", "LpNormalization",
         "ReduceL2", "Div", "LayerNormalization", "BatchNormalization", "InstanceNormalization", "MaxPool",
         "GlobalMaxPool", "ReduceMax", "Tanh", "Relu", "PRelu", "LeakyRelu", "Elu", "Gelu", "HardSwish", "Clip",
         "ReduceSum"),
        Ending.FEATURES,
    ),
    "NonMaxSuppression": Ending.DETECTIONS,
    "TopK": Ending.RANKED,
}  # fmt: skip
_ONNX_THROUGH: Final = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast", "QuantizeLinear",
     "DequantizeLinear", "Add", "Dropout"}
)  # fmt: skip
_TFLITE: Final[Mapping[int, Ending]] = {
    25: Ending.SOFTMAX,
    14: Ending.SIGMOID,  # LOGISTIC
    48: Ending.RANKED,  # TOPK_V2
    **dict.fromkeys((9, 3, 126), Ending.SCORES),  # FULLY_CONNECTED, CONV_2D, BATCH_MATMUL
    **dict.fromkeys((40, 1, 17, 11, 12, 42, 74), Ending.FEATURES),  # MEAN, pools, L2_NORMALIZATION, L2_POOL, DIV, SUM
}
_TFLITE_THROUGH: Final = frozenset({22, 43, 70, 39, 114, 6, 53, 0})  # RESHAPE, SQUEEZE, …, DEQUANTIZE, CAST, ADD
_CAFFE_LAYER: Final = re.compile(r"type\s*:\s*[\"']?(\w+)[\"']?")


def endings(format_: str, path: Path, outputs: int) -> list[Ending]:
    """One for each output, in the file's order; all unknown where the format is not read here."""
    try:
        if format_ == "onnx":
            return _of_onnx(onnx_file.read_graph(path))
        if format_ == "tflite":
            return _of_tflite(tflite_file.read_graph(path))
        if format_ == "caffe":
            types = _CAFFE_LAYER.findall(path.read_text(encoding="utf-8", errors="replace"))
            ending = {"softmax": Ending.SOFTMAX, "innerproduct": Ending.SCORES}.get(types[-1].lower() if types else "")
            return [ending or Ending.UNKNOWN] * outputs
    except (ModelError, OSError):
        # Whoever opens the file reports what is wrong with it.
        pass
    return [Ending.UNKNOWN] * outputs


def _of_onnx(graph: onnx_file.OnnxGraph) -> list[Ending]:
    makers = {name: node for node in graph.nodes for name in node.outputs}
    steps = {
        name: _Step(_ONNX.get(node.op, Ending.UNKNOWN), [source for source in node.inputs if source in makers])
        for name, node in makers.items()
        if node.op in _ONNX or node.op in _ONNX_THROUGH
    }
    return [_ending(steps, spec.name) for spec in graph.outputs]


def _of_tflite(graph: tflite_file.TfliteGraph) -> list[Ending]:
    makers = {tensor: op for op in graph.operators for tensor in op.outputs}
    steps = {}
    for tensor, op in makers.items():
        ending = Ending.DETECTIONS if "detection" in op.custom.lower() else _TFLITE.get(op.code, Ending.UNKNOWN)
        if ending is not Ending.UNKNOWN or op.code in _TFLITE_THROUGH:
            steps[tensor] = _Step(ending, [source for source in op.inputs if source in makers])
    return [_ending(steps, output) for output in graph.outputs]


class _Step(NamedTuple):
    """How a tensor is computed: by an ending, or by an operator that keeps the meaning of its inputs."""

    ending: Ending
    inputs: Sequence[str | int]  # those that other operators make


def _ending(steps: Mapping[Any, _Step], tensor: str | int) -> Ending:
    for _ in range(len(steps)):
        step = steps.get(tensor)
        # A sum of branches is no bias.
        if step is None or step.ending is not Ending.UNKNOWN or len(step.inputs) != 1:
            return step.ending if step is not None else Ending.UNKNOWN
        (tensor,) = step.inputs
    return Ending.UNKNOWN
