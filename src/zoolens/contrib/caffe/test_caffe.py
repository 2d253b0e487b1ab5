"""Caffe networks become graphs that count and compute what they do; hostile ones become one sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.contrib.caffe.caffe_file import CAFFE
from zoolens.contrib.caffe.caffe_text import read_message
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.testing import models

HEAD = 'name: "n" input: "x" input_shape { dim: 1 dim: 3 dim: 9 dim: 9 }\n'


def load(path: Path, **details) -> Graph:
    return CAFFE.load(Request(str(path), **details))


def written(tmp_path: Path, layers: str, head: str = HEAD) -> Path:
    path = tmp_path / "net.prototxt"
    path.write_text(head + layers)
    return path


@pytest.mark.skipif(not ASSETS.is_dir(), reason="the reference assets are not here")
@pytest.mark.parametrize(
    ("graph", "weights", "parameters"),
    [
        ("mnist/lenet_mnist.prototxt", "mnist/lenet_iter_9000.caffemodel", 431_080),
        ("cifar10/samplenet/SampLeNet.prototxt", "cifar10/samplenet/SampLeNet.caffemodel", 62_006),
        ("imagenet/caffe/squeezenet_v1.1.deploy.prototxt", "imagenet/caffe/squeezenet_v1.1.caffemodel", 1_235_496),
    ],
)
def test_classifiers_compute_what_opencv_does(graph, weights, parameters):
    cv2 = pytest.importorskip("cv2")
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip("this OpenCV reads no Caffe")
    found = load(ASSETS / graph, files={"weights": str(ASSETS / weights)}, weights=True)
    assert (found.parameters, found.unknown) == (parameters, ())
    feed = np.random.default_rng(0).random(found.inputs[0].shape).astype(np.float32)
    net = cv2.dnn.readNetFromCaffe(str(ASSETS / graph), str(ASSETS / weights))
    net.setInput(feed)
    expected = net.forward().ravel()
    for one in (found, canonical(found)):
        answer = run(one, {one.inputs[0].name: feed})[one.outputs[0]].ravel()
        np.testing.assert_allclose(answer, expected, atol=1e-4)


def test_both_files_lead_to_the_network(tmp_path):
    files = models.caffe(tmp_path).files
    by_graph = load(files["model"], files={"weights": str(files["weights"])}, weights=True)
    by_weights = load(files["weights"], files={"model": str(files["model"])}, weights=True)
    assert by_graph.nodes == by_weights.nodes
    batch = models.images(1)
    answer = run(by_graph, {by_graph.inputs[0].name: batch})[by_graph.outputs[0]]
    np.testing.assert_allclose(answer.ravel(), models.reference(batch).ravel(), rtol=1e-4)
    assert by_graph.parameters == models.PARAMETERS


def test_files_that_are_missing_are_asked_for(tmp_path):
    files = models.caffe(tmp_path).files
    with pytest.raises(ModelError, match="its graph is a"):
        load(files["weights"])
    with pytest.raises(ModelError, match="without weights"):
        load(files["model"], weights=True)


def test_pools_round_up_and_layers_write_in_place(tmp_path):
    layers = """
    layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 2 } }
    layer { name: "bn" type: "BatchNorm" bottom: "c" top: "c" batch_norm_param { eps: 1e-3 } }
    layer { name: "s" type: "Scale" bottom: "c" top: "c" scale_param { bias_term: true } }
    layer { name: "r" type: "ReLU" bottom: "c" top: "c" }  # in place, again
    layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { pool: MAX kernel_size: 3 stride: 2 } }
    layer { name: "e" type: "Eltwise" bottom: "p" bottom: "p" top: "e" eltwise_param { coeff: 1 coeff: -0.5 } }
    layer { name: "l" type: "LRN" bottom: "e" top: "l" lrn_param { local_size: 3 alpha: 0.1 beta: 0.5 } }
    layer { name: "f" type: "InnerProduct" bottom: "l" top: "f" inner_product_param { num_output: 7 } }
    layer { name: "acc" type: "Accuracy" bottom: "f" top: "acc" }
    """
    graph = load(written(tmp_path, layers))
    ops = ["input", "conv", "batch_norm", "relu", "max_pool", "mul", "add", "lrn", "flatten", "dense"]
    assert [node.op for node in graph] == ops
    assert graph.by_name["p"].shape == (1, 4, 4, 4)
    assert graph.by_name["p"].get("pads") == (0, 0, 1, 1)
    norm = graph.nodes[2]
    assert [one.role for one in norm.parameters] == ["scale", "shift", "mean", "variance"]
    assert norm.get("epsilon") == 1e-3
    assert [graph.by_name[name].source for name in graph.outputs] == ["f"]


def test_a_batch_norm_that_names_no_epsilon_has_that_of_caffe(tmp_path):
    graph = load(written(tmp_path, 'layer { name: "n" type: "BatchNorm" bottom: "x" top: "n" }'))
    assert graph.by_name["n"].get("epsilon") == 1e-5  # caffe.proto: BatchNormParameter.eps


def test_the_first_format_and_unknown_layers_are_read(tmp_path):
    head = 'input: "x" input_dim: 10 input_dim: 3 input_dim: 9 input_dim: 9\n'
    layers = (
        'layers { name: "c" type: RELU bottom: "x" top: "c" } layers { name: "o" type: "Odd" bottom: "c" top: "o" }'
    )
    graph = load(written(tmp_path, layers, head))
    assert graph.inputs[0].shape == (1, 3, 9, 9)
    assert [node.get("source_op") for node in graph.unknown] == ["Odd"]


@pytest.mark.parametrize(
    ("layers", "match"),
    [
        ('layer { name: "r" type: "ReLU" bottom: "y" top: "z" }', "nothing makes 'y'"),
        ('layer { name: "a" type: "ReLU" bottom: "b" top: "a" } layer { bottom: "a" top: "b" }', "nothing makes 'b'"),
        ('layer { type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 } }', "extents"),
        ('layer { type: "Convolution" bottom: "x" top: "c" convolution_param '
         "{ num_output: 999999999999999 kernel_size: 3 } }", "no real layer has"),
        ('layer { type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: "4" } }', "not a number"),
        ('layer { type: "ReLU" bottom: "x" top: "c" ', "ends in the middle"),
        ("layer { " * 50, "nested too deeply"),
        ("layer { name: }", "stands where a value belongs"),
        ("layer { name: " + "9" * 5_000 + " }", "too long"),
        ("layer ?", "line 2 cannot be read"),
        ("", "0 layers"),
    ],
)  # fmt: skip
def test_hostile_graphs_are_one_sentence(tmp_path, layers, match):
    with pytest.raises(ModelError, match=match):
        load(written(tmp_path, layers))


def test_negative_and_huge_inputs_are_refused(tmp_path):
    layer = 'layer { type: "ReLU" bottom: "x" top: "y" }'
    with pytest.raises(ModelError, match="no extent"):
        load(written(tmp_path, layer, HEAD.replace("dim: 9", "dim: -9")))
    with pytest.raises(ModelError, match="no real layer has"):
        load(written(tmp_path, layer, HEAD.replace("dim: 9", "dim: 9999999")))


def test_the_text_format(tmp_path):
    path = written(tmp_path, "a: 1 a: [2, -3.5e1] b < c: 'x # y' > d { e: true, f: WORD; }  # the end", "")
    expected = {"a": [1, 2, -35.0], "b": [{"c": ["x # y"]}], "d": [{"e": [True], "f": ["WORD"]}]}
    assert read_message(path) == expected


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damage_is_a_model_error_or_a_graph(tmp_path, data):
    files = models.caffe(tmp_path).files
    for path in files.values():
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(0, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    with contextlib.suppress(ModelError):
        load(files["model"], files={"weights": str(files["weights"])}, weights=data.draw(st.booleans()))
