"""Several models in a row as one pipeline, from the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import ZoolensError
from zoolens.faces.cli.main import cli
from zoolens.findings.tracing.chain import links
from zoolens.inventory.runtimes.runtime import TensorSpec

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


@pytest.fixture
def halves(tmp_path):
    """A network cut in two: pixels → four features, four features → three scores."""
    random = np.random.default_rng(0)

    def layer(name, given, made, width, out):
        weights = onnx.numpy_helper.from_array(random.normal(size=(width, out)).astype(np.float32), f"{name}.w")
        floats = onnx.TensorProto.FLOAT
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("MatMul", [given, f"{name}.w"], [made], name)],
            name,
            [onnx.helper.make_tensor_value_info(given, floats, [None, width])],
            [onnx.helper.make_tensor_value_info(made, floats, [None, out])],
            [weights],
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        path = tmp_path / f"{name}.onnx"
        onnx.save(model, str(path))
        return str(path)

    return layer("trunk", "pixels", "features", 16, 4), layer("head", "features", "scores", 4, 3)


def chain(*words):
    return CliRunner().invoke(cli, ["trace", "chain", *words, "--repeats", "6", "--seconds", "1", "--trust"])


def test_each_request_goes_through_all_models(home, halves):
    result = chain(*halves, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    recording = document["recording"]
    (request,) = recording["steps"]
    assert request["times"] == 6
    assert [(step["name"].split(" ")[0], step["level"]) for step in request["steps"]] == [
        ("1.", "model"),
        ("2.", "model"),
        ("postprocess", "user"),
    ]
    assert sum(step["share"] for step in request["steps"]) <= 1
    assert document["disturbances_known"] == Path("/proc/self/schedstat").exists()
    shown = CliRunner().invoke(cli, ["trace", "show", "last"])
    assert "head" in shown.output


def test_models_that_do_not_fit_are_refused_before_anything_runs(home, halves):
    trunk, head = halves
    result = chain(head, trunk)
    assert isinstance(result.exception, ZoolensError)
    assert "(scores: float32 ?×3) does not fit the input of 2. " in str(result.exception)
    assert "(pixels: float32 ?×16)" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["demo:lenet-wide"], "at least two models"),
        (["demo:lenet-wide", "demo:lenet-wide", "-r", "onnxruntime,openvino,litert"], "3 runtimes are named for 2"),
    ],
)
def test_what_makes_no_chain_is_a_sentence(home, words, expected):
    assert expected in str(chain(*words).exception)


def spec(name, *shape, dtype="float32", **quantised):
    return TensorSpec(name, shape, dtype, **quantised)


def test_outputs_are_linked_by_name_and_else_by_what_fits():
    outputs = [spec("a", None, 4), spec("b", None, 4), spec("c", None, 8)]
    assert links(outputs, [spec("b", 1, 4)], "x", "y") == {"b": "b"}
    assert links(outputs, [spec("input", None, 8)], "x", "y") == {"input": "c"}
    assert links(outputs, [spec("b", None, 4), spec("c", None, 8)], "x", "y") == {"b": "b", "c": "c"}


@pytest.mark.parametrize(
    "wanted",
    [
        [spec("x", None, 5)],
        [spec("x", None, 4, dtype="int8")],
        [spec("x", None, 4, 1)],
        [spec("a", None, 4), spec("x", None, 4)],  # of several inputs none is guessed
        [spec("a", None, 4, scale=0.5, zero_point=0)],  # its numbers would mean others
    ],
)
def test_what_does_not_fit_is_not_linked(wanted):
    with pytest.raises(ZoolensError, match="does not fit"):
        links([spec("a", None, 4)], wanted, "x", "y")
