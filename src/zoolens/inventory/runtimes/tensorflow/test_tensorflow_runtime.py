"""TensorFlow keeps the contract in its four formats and refuses files that carry code or reach for other files."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.tensorflow_capture import InlinedGraph
from zoolens.inventory.runtimes.tensorflow.tensorflow_runtime import TensorFlow
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tf_keras")


class _Contract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = TensorFlow
    layout = "NHWC"


class TestSavedModel(_Contract):
    def model(self, tmp_path):
        return models.cached(models.tf_savedmodel, tmp_path)


class TestFrozen(_Contract):
    def model(self, tmp_path):
        return models.cached(models.tf_frozen, tmp_path)


class TestKeras(_Contract):
    def model(self, tmp_path):
        return models.cached(models.keras, tmp_path)


class TestKerasH5(_Contract):
    def model(self, tmp_path):
        return models.cached(models.keras_h5, tmp_path)


class TestFixedBatch(RuntimeContract):
    runtime_class = TensorFlow

    def model(self, tmp_path):
        return models.cached(models.tf_savedmodel, tmp_path, batch=1)


# --- hostile files


def test_a_frozen_graph_that_writes_is_refused(tmp_path):
    graph = tf.Graph()
    with graph.as_default():
        image = tf.compat.v1.placeholder(tf.float32, (None, 4), "image")
        with tf.control_dependencies([tf.io.write_file(str(tmp_path / "ran"), "x")]):
            tf.identity(image, "answer")
    path = tmp_path / "hostile.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with pytest.raises(ModelError, match="WriteFile"):
        TensorFlow().open(ModelFiles("tf-frozen", {"model": path}))
    assert not (tmp_path / "ran").exists()


def test_a_lambda_layer_is_refused_in_both_keras_formats(tmp_path):
    import keras
    import tf_keras

    new = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x * 2)])
    new.save(tmp_path / "hostile.keras")
    old = tf_keras.Sequential([tf_keras.Input((4,)), tf_keras.layers.Lambda(lambda x: x * 2)])
    old.save(str(tmp_path / "hostile.h5"), save_format="h5")
    for format_, name in (("keras", "hostile.keras"), ("keras-h5", "hostile.h5")):
        with pytest.raises(ModelError, match="Lambda"):
            TensorFlow().open(ModelFiles(format_, {"model": tmp_path / name}))


def _changed_config(tmp_path, change):
    files = models.cached(models.keras, tmp_path)
    with zipfile.ZipFile(files.path()) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(entries["config.json"])
    change(next(layer for layer in config["config"]["layers"] if layer["class_name"] == "Conv2D"))
    with zipfile.ZipFile(files.path(), "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, json.dumps(config) if name == "config.json" else content)
    return files


def _foreign_function(layer):
    layer["config"]["activation"] = {"module": "os", "class_name": "function", "config": "system"}


def _downloader(layer):
    layer["config"]["activation"] = {"module": "keras.utils", "class_name": "function", "config": "get_file"}


def _foreign_class(layer):
    layer["module"] = "subprocess"


def test_an_h5_file_of_keras_3_is_read_by_keras_3(tmp_path):
    import keras

    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    network.save(tmp_path / "new.h5")
    inputs = np.ones((2, 4), np.float32)
    with TensorFlow().open(ModelFiles("keras-h5", {"model": tmp_path / "new.h5"})) as session:
        (answer,) = session.predict({session.inputs[0].name: inputs}).values()
    np.testing.assert_allclose(answer, np.asarray(network(inputs)), rtol=1e-5)


@pytest.mark.parametrize("change", [_foreign_function, _downloader, _foreign_class])
def test_a_keras_file_naming_things_outside_keras_is_refused(tmp_path, change):
    with pytest.raises(ModelError, match="does not run"):
        TensorFlow().open(_changed_config(tmp_path, change))


def test_a_rewritten_keras_file_still_opens(tmp_path):
    TensorFlow().open(_changed_config(tmp_path, lambda layer: None)).close()


def test_an_old_keras_file_calling_tensorflow_freely_is_refused(tmp_path):
    import h5py

    files = models.cached(models.keras_h5, tmp_path)
    with h5py.File(files.path(), "a") as file:
        config = json.loads(file.attrs["model_config"])
        config["config"]["layers"].append(
            {"class_name": "TFOpLambda", "name": "t", "config": {"name": "t", "function": "io.write_file"}}
        )
        file.attrs["model_config"] = json.dumps(config)
    with pytest.raises(ModelError, match=r"io\.write_file"):
        TensorFlow().open(files)


def test_running_statistics_are_no_parameters(tmp_path):
    import keras

    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.BatchNormalization()])
    network.save(tmp_path / "bn.keras")
    with TensorFlow().open(ModelFiles("keras", {"model": tmp_path / "bn.keras"})) as session:
        assert session.count_parameters() == 4 * 3 + 3 + 3 + 3


def test_bare_weights_of_a_keras_application_are_joined_to_its_network(tmp_path):
    """What the keras zoo offers where weights were downloaded before."""
    import keras

    arguments = {"alpha": 0.25, "input_shape": [32, 32, 3], "classes": 7}
    network = keras.applications.MobileNet(weights=None, **arguments)
    network.save_weights(tmp_path / "mobilenet.weights.h5")
    path = tmp_path / "mobilenet.weights.h5"
    image = np.random.default_rng(0).normal(size=(2, 32, 32, 3)).astype(np.float32)
    architecture = {"library": "keras", "name": "MobileNet", "arguments": arguments}
    with TensorFlow().open(ModelFiles("keras-h5", {"model": path}, architecture)) as session:
        (answer,) = session.predict({session.inputs[0].name: image}).values()
    np.testing.assert_allclose(answer, network(image).numpy(), atol=1e-5)
    for wrong in ({"library": "keras", "name": "NoSuchNet"}, {"library": "keras", "name": "os"}):
        with pytest.raises(ModelError, match="cannot build"):
            TensorFlow().open(ModelFiles("keras-h5", {"model": path}, wrong))


# --- observing


def test_operators_of_a_keras_model_know_their_layers(tmp_path):
    with TensorFlow().open(models.cached(models.keras, tmp_path)) as session:
        image = np.random.default_rng(0).normal(size=(2, models.SIDE, models.SIDE, models.CHANNELS)).astype(np.float32)
        (profile,) = session.profile({"image": image})
        points = {point.node: point for point in session.capture_points() if point.node}
        names = [points["conv"].name, points["conv#2"].name]
        captured = session.capture({"image": image}, names)
    assert {node for operator in profile.operators for node in operator.nodes} == {"conv", "conv#2", "pool", "logits"}
    assert set(points) == {"conv", "conv#2", "pool", "logits"}, "as the importer of Keras models calls them"
    before, after = (captured.tensors[name] for name in names)
    assert (before < 0).any()
    np.testing.assert_array_equal(after, np.maximum(before, 0))


def test_a_fused_operator_names_the_nodes_that_it_computes(tmp_path):
    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, (None, 8, 8, 3), "image")
        features = tf.nn.conv2d(image, tf.ones((3, 3, 3, 4)), 1, "SAME", name="conv")
        tf.nn.relu(tf.nn.bias_add(features, tf.ones(4), name="bias"), name="active")
    path = tmp_path / "fused.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    with TensorFlow().open(ModelFiles("tf-frozen", {"model": path})) as session:
        (profile,) = session.profile({"image:0": np.ones((1, 8, 8, 3), np.float32)})
        kept = {point.name for point in session.capture_points() if point.kept}
        everything = {point.name for point in session.capture_points()}
    (operator,) = (operator for operator in profile.operators if "Conv2D" in operator.kind)
    assert operator.nodes == ("conv", "bias", "active")
    assert kept == {"active"}
    assert everything == {"conv", "bias", "active"}


def residual_network():
    """Two convolutions whose sum is rectified, with the shortcut first, and a dense layer with a GELU."""
    random = np.random.default_rng(0)

    def convolved(values, size, name):
        kernel = tf.constant(random.normal(size=(size, size, 16, 16)).astype(np.float32))
        bias = tf.constant(random.normal(size=16).astype(np.float32))
        return tf.nn.bias_add(tf.nn.conv2d(values, kernel, 1, "SAME", name=name), bias, name=f"{name}_bias")

    with tf.Graph().as_default() as graph:
        image = tf.compat.v1.placeholder(tf.float32, (None, 8, 8, 16), "image")
        active = tf.nn.relu(convolved(image, 3, "stem"), name="active")
        shortcut = convolved(active, 1, "shortcut")
        joined = tf.nn.relu(tf.add(shortcut, convolved(active, 3, "main"), name="sum"), name="joined")
        one = tf.constant(np.ones(16, np.float32))
        plain = tf.nn.conv2d(joined, tf.constant(random.normal(size=(1, 1, 16, 16)).astype(np.float32)), 1, "SAME")
        tf.compat.v1.nn.fused_batch_norm(plain, one, one, one, one, is_training=False, name="norm")
    return graph


# What TensorFlow 2.21 ran of this network, with oneDNN, as on x86, and without, as on most ARM processors.
RAN = {
    "onednn": [
        ("active", "_MklNativeFusedConv2D", ("stem", "stem_bias", "active")),
        ("shortcut_bias", "_MklNativeFusedConv2D", ("shortcut", "shortcut_bias")),
        ("joined", "_MklNativeFusedConv2D", ("main", "main_bias", "sum", "joined")),
        ("norm_0", "_MklNativeFusedConv2D", ("Conv2D", "norm")),
    ],
    "eigen": [
        ("active", "_FusedConv2D", ("stem", "stem_bias", "active")),
        ("shortcut_bias", "_FusedConv2D", ("shortcut", "shortcut_bias")),
        ("main_bias", "_FusedConv2D", ("main", "main_bias")),
        ("sum", "AddV2", ("sum",)),
        ("joined", "Relu", ("joined",)),
        ("norm_0/Mul", "Conv2D", ("Conv2D", "norm")),
        ("norm_0", "Add", ("norm",)),
    ],
}


@pytest.mark.parametrize("ran", RAN.values(), ids=RAN)
def test_fused_operators_are_mapped_with_and_without_onednn(ran):
    definition = residual_network().as_graph_def()
    whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(definition, name=""), [])
    ends = [whole.graph.get_tensor_by_name(f"{name}:0") for name in ("image", "norm")]
    graph = InlinedGraph(tf, whole.prune(ends[:1], ends[1:]), ())
    names = frozenset(graph.known_name(name) for name, _, _ in ran)
    for name, kind, nodes in ran:
        assert graph.nodes_of(name, kind, names) == nodes, name


@pytest.mark.slow  # TensorFlow reads the switch when it is imported: each way takes a process of its own
@pytest.mark.parametrize("switch", ["0", "1"])
def test_every_node_is_computed_once_with_and_without_onednn(switch, tmp_path, monkeypatch):
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", switch)
    path = tmp_path / "residual.pb"
    path.write_bytes(residual_network().as_graph_def().SerializeToString())
    with open_isolated(TensorFlow(), ModelFiles("tf-frozen", {"model": path})) as session:
        (profile,) = session.profile({"image:0": np.ones((1, 8, 8, 16), np.float32)})
    of_node = {node: operator for operator in profile.operators for node in operator.nodes}
    convolved = {f"{name}{part}" for name in ("stem", "shortcut", "main") for part in ("", "_bias")}
    assert set(of_node) == convolved | {"active", "sum", "joined", "Conv2D", "norm"}
    assert of_node["main"] is not of_node["shortcut"]
    assert [operator for operator in profile.operators if not operator.nodes] == []
    fused = any("Mkl" in operator.kind for operator in profile.operators)
    assert fused == (switch == "1")
    assert not fused or of_node["sum"] is of_node["main"]


def test_all_operators_of_a_keras_layer_belong_to_it(tmp_path):
    """Also the depthwise convolution before the bias that bears the layer's name, and what reads its weights."""
    import keras

    image = keras.Input((8, 8, 4), name="image")
    depthwise = keras.layers.DepthwiseConv2D(3, activation="relu", name="depthwise")(image)
    normal = keras.layers.LayerNormalization(name="normal")(depthwise)
    keras.Model(image, keras.layers.Dense(3, activation="gelu", name="dense")(normal)).save(tmp_path / "net.keras")
    with TensorFlow().open(ModelFiles("keras", {"model": tmp_path / "net.keras"})) as session:
        (profile,) = session.profile({session.inputs[0].name: np.ones((1, 8, 8, 4), np.float32)})
    assert all(operator.nodes for operator in profile.operators)
    convolution = next(operator for operator in profile.operators if "Depthwise" in operator.kind)
    # With oneDNN one operator computes the convolution, its bias and its activation.
    assert {node.partition("#")[0] for node in convolution.nodes} == {"depthwise"}
    assert {node.partition("#")[0] for operator in profile.operators for node in operator.nodes} == {
        "depthwise",
        "normal",
        "dense",
    }


def test_operators_that_tensorflow_has_come_to_take_for_cheap_are_told(tmp_path):
    """Which of them are fused depends on the processor; each is computed by one that ran."""
    feeds = {"image": models.images(1, layout="NHWC")}
    with TensorFlow().open(models.cached(models.tf_savedmodel, tmp_path)) as session:
        (first,) = session.profile(feeds)
        for _ in range(300):
            session.predict(feeds)
        (profile,) = session.profile(feeds)
    assert {operator.kind for operator in profile.operators} == {operator.kind for operator in first.operators}
    nodes = {node.rpartition("/")[2] for operator in profile.operators for node in operator.nodes}
    assert {"Conv2D", "Relu", "Mean", "matmul"} <= nodes
