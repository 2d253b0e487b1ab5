"""Architecture and weights to ONNX: N × 28 × 28 in, N × 10 logits out, channels first inside."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from .architecture import CLASSES, INPUT_SHAPE, Architecture, Conv, Shape, Weights, walk

OPSET = 17
IR_VERSION = 8  # the oldest that carries opset 17, so that old runtimes read the files too
QUANTISATION = "onnxruntime quantize_static, QDQ, int8 activations and weights, per channel, min-max calibration"


def export(layers: Architecture, weights: Sequence[Weights], name: str) -> bytes:
    ops = _OnnxOps()
    # Not Unsqueeze: OpenCV 4.14 fixes the batch size there, and crashes when it meets another one
    start = ops.node("Reshape", "input", ops.constant("shape", np.array([-1, 1, *INPUT_SHAPE[:2]], np.int64)))
    end = walk(layers, start, iter(weights), ops)
    ops.nodes[-1].output[0] = "logits"
    if end != ops.nodes[-1].name:
        raise ValueError(f"{name}: the last layer does not make the output")
    graph = helper.make_graph(
        ops.nodes,
        name,
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", *INPUT_SHAPE[:2]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        ops.initializers,
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="zoolens-demo"
    )
    return _checked(model)


def quantise(model: bytes, images: NDArray[np.float32]) -> bytes:
    """The same model in int8, its ranges taken from `images`."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        source.write_bytes(model)
        quantize_static(
            source,
            target,
            _Calibration(images),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        return _checked(onnx.load(target))


def _checked(model: onnx.ModelProto) -> bytes:
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))


class _Calibration:
    """Feeds images to onnxruntime's calibrator, in the one-method form it wants."""

    def __init__(self, images: NDArray[np.float32], batch: int = 50) -> None:
        self._batches = iter([images[start : start + batch] for start in range(0, len(images), batch)])

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self._batches, None)
        return None if batch is None else {"input": batch}


class _OnnxOps:
    """Emits nodes; a tensor is its name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._flattened: Shape | None = None

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{sum(node.op_type == op for node in self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def conv(self, x: str, layer: Conv, kernel: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        kernel = kernel.transpose(2, 3, 0, 1) if layer.depthwise else kernel.transpose(3, 2, 0, 1)
        margin = layer.kernel // 2 if layer.padding == "same" else 0
        return self.node(
            "Conv", x, *self._parameters(kernel, bias),
            kernel_shape=[layer.kernel] * 2, pads=[margin] * 4, group=layer.filters if layer.depthwise else 1,
        )  # fmt: skip

    def dense(self, x: str, kernel: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        if self._flattened:  # rows come channels-last, ONNX flattened channels-first
            kernel = kernel.reshape(*self._flattened, -1).transpose(2, 0, 1, 3).reshape(kernel.shape)
            self._flattened = None
        return self.node("Gemm", x, *self._parameters(kernel, bias))

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def max_pool(self, x: str) -> str:
        return self.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def global_average(self, x: str) -> str:
        return self.node("Flatten", self.node("GlobalAveragePool", x), axis=1)

    def flatten(self, x: str, shape: Shape) -> str:
        self._flattened = shape
        return self.node("Flatten", x, axis=1)

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def _parameters(self, kernel: NDArray[np.float32], bias: NDArray[np.float32]) -> tuple[str, str]:
        index = len(self.initializers) // 2
        return self.constant(f"weight_{index}", kernel), self.constant(f"bias_{index}", bias)
