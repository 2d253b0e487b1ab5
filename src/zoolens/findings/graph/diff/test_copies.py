"""Copies of one network, as optimisers and quantisers leave it, are that network again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.importers.onnx.test_fused import node, numbers, saved
from zoolens.findings.graph.passes.canonical import canonical

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
X = numbers(1, 4, 8, 8)


def plain(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="", **attributes)


def network(path: Path) -> Path:
    """A residual block with ReLU6, a GELU that is written out, a scale behind a layer, and a dense layer."""
    nodes = [
        plain("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        plain("Clip", ["c1", "zero", "six"], ["r1"]),
        plain("Conv", ["r1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
        plain("Mul", ["c2", "scale"], ["m"]),
        plain("Add", ["m", "r1"], ["s"]),
        plain("Div", ["s", "root"], ["d"]),
        plain("Erf", ["d"], ["e"]),
        plain("Add", ["e", "one"], ["e1"]),
        plain("Mul", ["s", "e1"], ["p"]),
        plain("Mul", ["p", "half"], ["g"]),
        plain("GlobalAveragePool", ["g"], ["q"]),
        plain("Flatten", ["q"], ["f"]),
        plain("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    weights = {"w1": numbers(8, 4, 3, 3), "w2": numbers(8, 8, 3, 3, seed=1), "w3": numbers(10, 8)}
    weights |= {"b1": numbers(8), "b2": numbers(8, seed=1), "b3": numbers(10), "scale": np.float32(0.2)}
    limits = {"zero": 0, "six": 6, "root": np.sqrt(2), "one": 1, "half": 0.5}
    constants = {**weights, **{name: np.float32(number) for name, number in limits.items()}}
    return saved(path, nodes, {"x": X}, constants)


def optimised(level):
    def make(source, target):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
        options.optimized_model_filepath = str(target)
        options.log_severity_level = 4
        onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])

    return make


def dynamic(source, target):
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(str(source), str(target))


def static(form):
    def make(source, target):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

        class Rows(CalibrationDataReader):
            rows = iter([{"x": 0.1 * X}])  # so small that no activation reaches 6

            def get_next(self):
                return next(self.rows, None)

        quantize_static(str(source), str(target), Rows(), quant_format=getattr(QuantFormat, form))

    return make


def half(source, target):
    """Every number in half precision."""
    model = onnx.load(str(source))
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for spec in (*model.graph.input, *model.graph.output):
        spec.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    onnx.save(model, str(target))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [optimised("BASIC"), optimised("EXTENDED"), optimised("ALL"), dynamic, static("QDQ"), static("QOperator"), half],
    ids=["basic", "extended", "all", "dynamic", "qdq", "qoperator", "half"],
)
def test_a_copy_is_its_source(tmp_path, make):
    source, target = network(tmp_path / "source.onnx"), tmp_path / "copy.onnx"
    make(source, target)
    a, b = (canonical(ONNX.load(Request(str(path)))) for path in (source, target))
    found = diff(a, b)
    assert found.same, [found.verdict, *(one.text for one in found.differences)]
    assert found.cost_a.macs == found.cost_b.macs > 0
