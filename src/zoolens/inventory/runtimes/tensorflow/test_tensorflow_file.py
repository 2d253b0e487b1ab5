"""Graphs of TensorFlow that another runtime reads are held to the same list, without TensorFlow."""

from __future__ import annotations

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.openvino.openvino_runtime import OpenVino
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.tensorflow_file import check_operators
from zoolens.testing import models

tf = pytest.importorskip("tensorflow")

ATTACKS = {
    "WriteFile": lambda place: tf.io.write_file(str(place / "mark"), "x"),
    "ReadFile": lambda place: tf.io.read_file(str(place / "secret")),
    "MatchingFiles": lambda place: tf.io.matching_files(str(place / "*")),
}


@pytest.mark.parametrize("operator", ATTACKS)
def test_savedmodels_are_judged_before_openvino_reads_them(tmp_path, operator):
    pytest.importorskip("openvino")

    @tf.function(input_signature=[tf.TensorSpec((None, 4), tf.float32, "x")])
    def run(x):
        ATTACKS[operator](tmp_path)
        return x + 1

    module = tf.Module()
    module.run = run
    tf.saved_model.save(module, str(tmp_path / "net"), signatures={"serving_default": module.run})
    with pytest.raises(ModelError, match=f"net carries the operator {operator}, which zoolens does not run"):
        OpenVino().open(ModelFiles("tf-savedmodel", {"model": tmp_path / "net"}))


@pytest.mark.parametrize("operator", ATTACKS)
def test_frozen_graphs_are_judged_before_openvino_reads_them(tmp_path, operator):
    pytest.importorskip("openvino")
    with tf.Graph().as_default() as graph:
        tf.identity(tf.compat.v1.placeholder(tf.float32, (1, 4)))
        ATTACKS[operator](tmp_path)
    (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match=f"carries the operator {operator}"):
        OpenVino().open(ModelFiles("tf-frozen", {"model": tmp_path / "net.pb"}))


def test_an_operator_in_a_function_or_said_twice_is_found(tmp_path):
    """Of a field that occurs twice protobuf takes the last one: both count."""
    node = tf.compat.v1.NodeDef(name="n", op="WriteFile").SerializeToString()
    twice = node + tf.compat.v1.NodeDef(op="Identity").SerializeToString()
    graph = tf.compat.v1.GraphDef()
    graph.node.add().ParseFromString(twice)
    assert graph.node[0].op == "Identity"
    path = tmp_path / "net.pb"
    path.write_bytes(b"\x0a" + bytes([len(twice)]) + twice)
    with pytest.raises(ModelError, match="WriteFile"):
        check_operators(ModelFiles("tf-frozen", {"model": path}))
    graph = tf.compat.v1.GraphDef()
    graph.node.add(name="n", op="inner")
    graph.library.function.add().signature.name = "inner"
    graph.library.function[0].node_def.add(name="deep", op="ReadFile")
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(ModelError, match="ReadFile"):
        check_operators(ModelFiles("tf-frozen", {"model": path}))


def test_what_openvino_would_take_for_a_graph_under_another_format_is_refused(tmp_path):
    pytest.importorskip("openvino")
    frozen = models.cached(models.tf_frozen, tmp_path).path()
    for format_ in ("tflite", "onnx"):
        with pytest.raises(ModelError, match="is not a complete"):
            OpenVino().open(ModelFiles(format_, {"model": frozen}))


@pytest.mark.parametrize("content", [b"", b"\x0a\xff", b"node { op: 'Identity' }", b"\x12\x00"])
def test_what_is_no_graph_is_a_sentence(tmp_path, content):
    (tmp_path / "net.pb").write_bytes(content)
    with pytest.raises(ModelError, match=r"net\.pb (holds no graph|is not a complete TensorFlow graph)"):
        check_operators(ModelFiles("tf-frozen", {"model": tmp_path / "net.pb"}))
