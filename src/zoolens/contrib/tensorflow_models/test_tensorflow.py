"""TensorFlow graphs, against TensorFlow itself: variables are fed where they are read, so nothing is initialised."""

from __future__ import annotations

import importlib.util
import os
from math import prod

import numpy as np
import pytest

from zoolens.base.errors import MissingDependency, ModelError, UnknownName
from zoolens.contrib.tensorflow_models.library import graph_of_tf_function, graph_of_tf_graph, load_official, load_slim
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.ir.seeded_values import seeded_values
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run

slim = pytest.mark.skipif(importlib.util.find_spec("tf_slim") is None, reason="tf_slim is not installed here")
official = pytest.mark.skipif(
    importlib.util.find_spec("official") is None, reason="tf-models-official is not installed"
)


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return pytest.importorskip("tensorflow")


def macs(graph):
    layers = (node for node in graph if node.op in ("conv", "dense"))
    return sum(prod(node.shape) * prod(node.parameter("kernel").shape[1:]) for node in layers)


def weight(tf, name, *shape):
    return tf.compat.v1.get_variable(name, shape, use_resource=True)


def checked(tf, shape, build, tolerance=1e-5):
    """The graph of `build`, after raw and canonical form were seen to compute what TensorFlow computes."""
    with tf.Graph().as_default() as place:
        given = tf.compat.v1.placeholder(tf.float32, (1, *shape), "input")
        output = build(given)
        graph = graph_of_tf_graph([given], [output], name="test", weights=True)
        value = np.random.default_rng(1).normal(0, 1, (1, *shape)).astype(np.float32)
        reads = [one for one in place.get_operations() if one.type == "ReadVariableOp"]
        fed = {one.outputs[0]: seeded_values(one.inputs[0].op.name, tuple(one.outputs[0].shape)) for one in reads}
        with tf.compat.v1.Session() as session:
            expected = session.run(output, {given: value, **fed})
    found = run(graph, {"input": value.astype(np.float64)})[graph.outputs[0]]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    assert canonical(graph).unknown == graph.unknown == ()
    return graph


def test_convolution_with_its_bias_and_norm(tf):
    def build(x):
        x = tf.nn.conv2d(x, weight(tf, "a/kernel", 3, 3, 4, 6), (1, 2, 2, 1), "SAME")
        x = tf.nn.bias_add(x, weight(tf, "a/bias", 6))
        x = tf.nn.depthwise_conv2d(x, weight(tf, "depthwise/kernel", 3, 3, 6, 2), (1, 1, 1, 1), "VALID")
        scale, shift, mean, variance = (weight(tf, f"n/{one}", 12) for one in ("gamma", "beta", "mean", "variance"))
        x = tf.compat.v1.nn.fused_batch_norm(x, scale, shift, mean, variance, epsilon=1e-3, is_training=False)[0]
        return tf.nn.relu6(x)

    graph = checked(tf, (9, 8, 4), build)
    conv, depthwise, norm, _ = graph.nodes[1:]
    assert (conv.op, conv.get("pads"), conv.parameter("bias").shape) == ("conv", (1, 0, 1, 1), (6,))
    assert (depthwise.get("groups"), depthwise.parameter("kernel").shape) == (6, (12, 1, 3, 3))
    assert (norm.get("epsilon"), norm.source) == (1e-3, "FusedBatchNormV3")
    assert graph.facts["statistics"] == 24


def test_a_bias_is_not_given_to_a_convolution_that_others_see_bare(tf):
    def build(x):
        x = tf.nn.conv2d(x, weight(tf, "kernel", 1, 1, 4, 6), 1, "VALID")
        return tf.nn.bias_add(x, weight(tf, "bias", 6)) * x

    assert [node.op for node in checked(tf, (3, 3, 4), build)] == ["input", "conv", "affine", "mul"]


def test_a_constant_scale_of_one_is_no_parameter(tf):
    def build(x):
        ones, shift, mean, variance = tf.ones(4), weight(tf, "beta", 4), tf.zeros(4), tf.fill([4], 2.0)
        return tf.compat.v1.nn.fused_batch_norm(x, ones, shift, mean, variance, is_training=False)[0]

    graph = checked(tf, (3, 3, 4), build)
    assert [one.role for one in graph.nodes[1].parameters] == ["shift", "mean", "variance"]


CASES = {
    "pools": lambda tf, x: tf.nn.max_pool2d(tf.nn.avg_pool2d(x, 3, 1, "SAME"), 3, 2, "SAME"),
    "global pool and dense": lambda tf, x: tf.nn.softmax(
        tf.matmul(tf.reduce_mean(x, [1, 2]), weight(tf, "kernel", 4, 5)) + weight(tf, "bias", 5)
    ),
    "pads and concat": lambda tf, x: tf.concat([tf.pad(x, [[0, 0], [1, 2], [0, 0], [0, 0]])] * 2, -1),
    "swish": lambda tf, x: tf.nn.silu(x) + tf.nn.leaky_relu(x, 0.1),
    "hard swish": lambda tf, x: x * tf.nn.relu6(x + 3.0) / 6.0,
    "scalars on the left": lambda tf, x: 1.0 - 2.0 / (tf.square(x) + 3.0),
    "lrn": lambda tf, x: tf.nn.local_response_normalization(x, 1, 2.0, 0.3, 0.75),
    "slices": lambda tf, x: x[:, 1:6:2, :, -1],
    "split": lambda tf, x: tf.subtract(*tf.split(x, 2, axis=-1)),
    "reshape of its own shape": lambda tf, x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "transpose": lambda tf, x: tf.transpose(x, (0, 3, 1, 2)) * weight(tf, "scale", 8),
}


@pytest.mark.parametrize("build", CASES.values(), ids=CASES.keys())
def test_operators(tf, build):
    checked(tf, (7, 8, 4), lambda x: build(tf, x))


def test_a_concrete_function_is_walked_with_what_it_captured(tf):
    kernel = tf.Variable(tf.zeros((4, 3)), name="kernel")
    call = tf.function(lambda x: tf.nn.relu(x @ kernel)).get_concrete_function(tf.TensorSpec((1, 4), tf.float32))
    graph = graph_of_tf_function(call, name="test")
    assert [node.op for node in graph][:3] == ["input", "dense", "relu"]
    assert graph.nodes[1].parameter("kernel").shape == (3, 4)


def test_an_operator_nobody_taught_us_is_named(tf):
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, (1, 4))
        graph = graph_of_tf_graph([given], [tf.math.digamma(given)], name="test")
    assert [node.get("source_op") for node in graph.unknown] == ["Digamma"]


def test_a_free_shape_is_refused_in_one_sentence(tf):
    with tf.Graph().as_default():
        given = tf.compat.v1.placeholder(tf.float32, (1, None, 4))
        with pytest.raises(ModelError, match="Give an input size"):
            graph_of_tf_graph([given], [tf.nn.relu(given)], name="test")


@pytest.mark.parametrize(("load", "package"), [(load_slim, "tf_slim"), (load_official, "official")])
def test_a_missing_library_is_said(load, package):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingDependency, match="not installed"):
        load(Request("resnet_50"))


@slim
@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [("resnet_v1_50", 224, 3_482_255_360), ("resnet_v2_50", 299, 6_536_213_248), ("vgg_16", None, 15_470_264_320)],
)
def test_slim(name, size, expected):
    graph = load_slim(Request(name, size=(size, size) if size else None))
    assert (macs(graph), graph.unknown) == (expected, ())


@slim
def test_slim_has_four_convolution_and_three_pooling_shortcuts():
    graph = load_slim(Request("resnet_v2_101"))
    shortcuts = [node.op for node in graph if node.source.endswith("/shortcut")]
    assert (shortcuts.count("conv"), shortcuts.count("max_pool")) == (4, 3)


@slim
def test_slim_names_are_checked():
    with pytest.raises(UnknownName, match="resnet_v1_50"):
        load_slim(Request("resnet_v1_5"))


@official
def test_official_resnet_has_its_stride_in_the_3x3():
    assert macs(load_official(Request("resnet_50"))) == 4_089_186_304
