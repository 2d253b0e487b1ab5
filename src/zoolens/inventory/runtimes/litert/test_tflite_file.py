"""The TFLite reader agrees with LiteRT and refuses damaged bytes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.litert.tflite_file import read_graph
from zoolens.testing import models

pytest.importorskip("tensorflow")


def test_reads_a_float_model(tmp_path):
    graph = read_graph(models.cached(models.tflite, tmp_path).path())
    (given_,) = (graph.tensors[index] for index in graph.inputs)
    assert (given_.shape, given_.dtype, given_.scale) == ((1, 8, 8, 3), "float32", None)
    assert graph.parameters() == models.PARAMETERS
    assert graph.precision() == "float32"


def test_reads_a_quantised_model_as_litert_does(tmp_path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    path = models.cached(models.tflite, tmp_path, int8=True).path()
    graph = read_graph(path)
    details = interpreter.Interpreter(model_path=str(path)).get_input_details()[0]
    tensor = graph.tensors[graph.inputs[0]]
    assert (tensor.scale, tensor.zero_point) == pytest.approx(details["quantization"])
    assert tensor.name == details["name"]
    assert graph.parameters() == models.PARAMETERS
    assert graph.precision() == "int8"


def test_a_truncated_file_is_one_plain_sentence(tmp_path):
    content = models.cached(models.tflite, tmp_path).path().read_bytes()
    path = tmp_path / "short.tflite"
    for length in (8, 16, 30, 60):
        path.write_bytes(content[:length])
        with pytest.raises(ModelError, match=r"^short.tflite is not a complete TFLite file: it ends before all"):
            read_graph(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    path = tmp_path / "tiny.tflite"
    if not path.exists():
        models.cached(models.tflite, tmp_path)
        (tmp_path / "intact").write_bytes(path.read_bytes())
    content = bytearray((tmp_path / "intact").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(ModelError):
        graph = read_graph(path)
        graph.parameters()
        graph.precision()
