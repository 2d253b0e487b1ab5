"""The ONNX reader agrees with the onnx package and refuses damaged bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.errors import ModelError
from zoolens.runtimes.base import TensorSpec
from zoolens.runtimes.onnxfile import read_graph
from zoolens.testing import models

onnx = pytest.importorskip("onnx")


def _saved(tmp_path, nodes, initializers, inputs, outputs):
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, initializers)
    path = tmp_path / "made.onnx"
    onnx.save(onnx.helper.make_model(graph), str(path))
    return path


def _tensor(name, kind, shape):
    size = 1
    for extent in shape:
        size *= extent
    return onnx.helper.make_tensor(name, kind, shape, [1] * size)


def test_reads_shapes_parameters_and_precision(tmp_path):
    graph = read_graph(models.onnx(tmp_path).path())
    graph.check()
    assert graph.inputs == list(models.declared())
    assert graph.outputs == [TensorSpec("logits", (None, 5), "float32")]
    assert graph.parameters() == models.PARAMETERS
    assert graph.precision() == "float32"


def test_scales_zero_points_and_statistics_are_no_parameters(tmp_path):
    value, node, proto = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto
    path = _saved(
        tmp_path,
        [
            node("DequantizeLinear", ["w", "scale", "zero"], ["weight"]),
            node("DequantizeLinear", ["q", "scale", "zero"], ["x"]),
            node("Conv", ["x", "weight"], ["y"]),
            node("BatchNormalization", ["y", "gamma", "beta", "mean", "var"], ["z"]),
        ],
        [
            _tensor("w", proto.INT8, [2, 3, 1, 1]),
            _tensor("scale", proto.FLOAT, [1]),
            _tensor("zero", proto.INT8, [1]),
            *(_tensor(name, proto.FLOAT, [2]) for name in ("gamma", "beta", "mean", "var")),
        ],
        [value("q", proto.INT8, [1, 3, 4, 4])],
        [value("z", proto.FLOAT, [1, 2, 4, 4])],
    )
    graph = read_graph(path)
    assert graph.parameters() == 2 * 3 + 2 + 2
    assert graph.precision() == "int8"


def test_constant_nodes_count_like_initialisers(tmp_path):
    value, node, proto = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Constant", [], ["w"], value=_tensor("w", proto.FLOAT16, [4, 5])),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    path = _saved(tmp_path, nodes, [], [value("x", proto.FLOAT16, [None, 4])], [value("y", proto.FLOAT16, [None, 5])])
    assert read_graph(path).parameters() == 20
    assert read_graph(path).precision() == "float16"


def test_a_tensor_nobody_makes_is_found(tmp_path):
    path = models.onnx(tmp_path).path()
    path.write_bytes(path.read_bytes().replace(b"\x12\x05means", b"\x12\x05m!ans", 1))
    with pytest.raises(ModelError, match="nothing makes the tensor 'means'"):
        read_graph(path).check()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    path = models.onnx(tmp_path).path()
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(ModelError):
        graph = read_graph(path)
        graph.check()
        graph.parameters()
        graph.precision()
