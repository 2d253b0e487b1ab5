"""What a file's outputs come from: a softmax, a dense layer, a pool. Read from the file, without running it.

Only operators that change no value's meaning (reshapes, casts, quantisation) are looked through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from zoolens.errors import ModelError
from zoolens.runtimes import onnxfile, tflitefile


class Ending(StrEnum):
    SOFTMAX = "softmax"
    SIGMOID = "sigmoid"
    SCORES = "a dense layer or convolution"
    FEATURES = "pooling, normalising or averaging"
    DETECTIONS = "the post-processing of a detector"
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
}  # fmt: skip
_ONNX_THROUGH: Final = frozenset(
    {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Cast", "QuantizeLinear",
     "DequantizeLinear", "Add", "Dropout"}
)  # fmt: skip
_TFLITE: Final[Mapping[int, Ending]] = {
    25: Ending.SOFTMAX,
    14: Ending.SIGMOID,  # LOGISTIC
    **dict.fromkeys((9, 3, 126), Ending.SCORES),  # FULLY_CONNECTED, CONV_2D, BATCH_MATMUL
    **dict.fromkeys((40, 1, 17, 11, 12, 42, 74), Ending.FEATURES),  # MEAN, pools, L2_NORMALIZATION, L2_POOL, DIV, SUM
}
_TFLITE_THROUGH: Final = frozenset({22, 43, 70, 39, 114, 6, 53, 0})  # RESHAPE, SQUEEZE, …, DEQUANTIZE, CAST, ADD
_CAFFE_LAYER: Final = re.compile(r"type\s*:\s*[\"']?(\w+)[\"']?")


def endings(format_: str, path: Path, outputs: int) -> list[Ending]:
    """One for each output, in the file's order; all unknown where the format is not read here."""
    try:
        if format_ == "onnx":
            return _of_onnx(onnxfile.read_graph(path))
        if format_ == "tflite":
            return _of_tflite(tflitefile.read_graph(path))
        if format_ == "caffe":
            types = _CAFFE_LAYER.findall(path.read_text(encoding="utf-8", errors="replace"))
            found = {"softmax": Ending.SOFTMAX, "innerproduct": Ending.SCORES}.get(types[-1].lower() if types else "")
            return [found or Ending.UNKNOWN] * outputs
    except (ModelError, OSError):  # who opens the file tells what is wrong with it
        pass
    return [Ending.UNKNOWN] * outputs


def _of_onnx(graph: onnxfile.OnnxGraph) -> list[Ending]:
    makers = {name: node for node in graph.nodes for name in node.outputs}
    found = []
    for spec in graph.outputs:
        name, ending = spec.name, Ending.UNKNOWN
        for _ in range(len(graph.nodes)):
            node = makers.get(name)
            if node is None:
                break
            ending = _ONNX.get(node.op, Ending.UNKNOWN)
            if ending is not Ending.UNKNOWN or node.op not in _ONNX_THROUGH:
                break
            made = [one for one in node.inputs if one in makers]
            if len(made) != 1:  # a sum of two branches is no bias
                break
            name = made[0]
        found.append(ending)
    return found


def _of_tflite(graph: tflitefile.TfliteGraph) -> list[Ending]:
    makers = {output: op for op in graph.operators for output in op.outputs}
    found = []
    for output in graph.outputs:
        tensor, ending = output, Ending.UNKNOWN
        for _ in range(len(graph.operators)):
            op = makers.get(tensor)
            if op is None:
                break
            ending = Ending.DETECTIONS if "detection" in op.custom.lower() else _TFLITE.get(op.code, Ending.UNKNOWN)
            if ending is not Ending.UNKNOWN or op.code not in _TFLITE_THROUGH:
                break
            made = [one for one in op.inputs if one in makers]
            if len(made) != 1:
                break
            tensor = made[0]
        found.append(ending)
    return found
