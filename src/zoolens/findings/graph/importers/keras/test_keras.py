"""Keras models as graphs, against Keras itself: its counts, its shapes, its answers."""

from __future__ import annotations

import os
import subprocess
import sys
from math import prod

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnknownName
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.keras.keras_library import build, graph_of_keras_model, load, randomise
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")  # what the other tests of this process expect
    return pytest.importorskip("keras")


def macs(graph):
    layers = (node for node in graph if node.op in ("conv", "dense"))
    return sum(prod(node.shape) * prod(node.parameter("kernel").shape[1:]) for node in layers)


def agree(model, image, tolerance=1e-5):
    """Raw and canonical graph compute what Keras does."""
    graph = graph_of_keras_model(model, weights=True)
    expected = np.asarray(model(image, training=False), np.float64)
    scale = np.abs(expected).max()
    raw = run(graph, {graph.inputs[0].name: image.astype(np.float64)})[graph.outputs[0]]
    assert np.abs(raw - expected).max() <= tolerance * scale
    plain = canonical(graph)
    planes = image.astype(np.float64).transpose(0, 3, 1, 2)
    final = run(plain, {plain.inputs[0].name: planes})[plain.outputs[0]]
    final = final if final.ndim == 2 else np.moveaxis(final, 1, -1)
    assert np.abs(final - expected).max() <= tolerance * scale


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("VGG19", 19_632_062_464),
        pytest.param("DenseNet121", 2_834_161_664, marks=pytest.mark.slow),
        ("ResNet50", 3_857_973_248),
        pytest.param("ResNet50V2", 3_482_255_360, marks=pytest.mark.slow),
        ("MobileNetV3Small", 56_510_400),
        ("ConvNeXtTiny", 4_455_531_264),
    ],
)
def test_cost_and_parameters_of_applications(keras, name, expected):
    graph = load(Request(name))
    assert macs(graph) == expected
    assert graph.unknown == ()
    assert graph.parameters == graph.facts["parameters_total"] - graph.facts["statistics"]
    assert graph.inputs[0].shape == (1, 224, 224, 3)
    assert graph.weights == {}


@pytest.mark.slow
def test_every_application_is_known_and_counted_as_keras_counts(keras):
    for name in (name for name in dir(keras.applications) if name[0].isupper()):
        graph = load(Request(name))
        with keras.StatelessScope(initialize_variables=False):
            model = getattr(keras.applications, name)(weights=None)
        assert graph.unknown == (), name
        assert graph.facts["parameters_total"] == model.count_params(), name
        assert graph.parameters == sum(prod(one.shape) for one in model.trainable_weights), name


def test_nothing_is_initialised_unless_weights_are_asked_for(keras):
    assert all(variable._value is None for variable in build(Request("MobileNet")).weights)


def test_a_size_and_arguments_reach_the_constructor(keras):
    graph = load(Request("MobileNet", size=(96, 128), arguments={"classes": 7, "alpha": 0.25}))
    assert graph.inputs[0].shape == (1, 96, 128, 3)
    assert graph.by_name[graph.outputs[0]].shape == (1, 7)


def test_stride_epsilon_and_kernels_are_kept(keras):
    graph = load(Request("MobileNetV2", size=(96, 96)))
    stem, depthwise = graph.by_name["Conv1"], graph.by_name["expanded_conv_depthwise"]
    assert (stem.get("stride"), stem.get("pads"), stem.parameter("kernel").shape) == (
        (2, 2),
        (0, 0, 1, 1),
        (32, 3, 3, 3),
    )
    assert (depthwise.get("groups"), depthwise.parameter("kernel").shape) == (32, (32, 1, 3, 3))
    assert {node.get("epsilon") for node in graph if node.op == "batch_norm"} == {1e-3}


def test_mobilenet_v2_computes_what_keras_computes(keras):
    model = build(Request("MobileNetV2", size=(96, 96), arguments={"alpha": 0.35}, weights=True))
    randomise(model)
    agree(model, np.random.default_rng(1).uniform(-1, 1, (1, 96, 96, 3)).astype(np.float32), 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "top"), [("EfficientNetB0", 64, 255), ("NASNetMobile", 224, 1), ("InceptionResNetV2", 80, 1)]
)
def test_larger_networks_compute_what_keras_computes(keras, name, size, top):
    arguments = {"classifier_activation": None}
    model = build(Request(name, size=(size, size), arguments=arguments, weights=True))
    randomise(model)
    agree(model, np.random.default_rng(1).uniform(0, top, (1, size, size, 3)).astype(np.float32), 1e-4)


def test_weights_are_the_same_every_time(keras):
    first, second = (load(Request("MobileNet", size=(32, 32), arguments={"alpha": 0.25}, weights=True)) for _ in "12")
    assert first.weights.keys() == second.weights.keys()
    assert all(np.array_equal(values, second.weights[key]) for key, values in first.weights.items())
    assert all(first.weights[one.key].shape == one.shape for node in first for one in node.parameters)


def test_an_unknown_name_suggests_the_right_one(keras):
    with pytest.raises(UnknownName, match="ResNet50"):
        load(Request("ResNet5O"))


def test_a_size_the_model_refuses_is_one_sentence(keras):
    with pytest.raises(ModelError, match="cannot build VGG16"):
        load(Request("VGG16", size=(8, 8)))


def test_an_open_size_is_asked_for_or_filled_in(keras):
    image = keras.Input((None, None, 3))
    model = keras.Model(image, keras.layers.Conv2D(4, 3, strides=2, padding="same")(image))
    with pytest.raises(ModelError, match="Give a size"):
        graph_of_keras_model(model)
    graph = graph_of_keras_model(model, size=(9, 8))
    assert graph.by_name[graph.outputs[0]].shape == (1, 5, 4, 4)
    assert graph.by_name[graph.outputs[0]].get("pads") == (1, 0, 1, 1)


def test_nested_and_shared_models_are_walked_and_counted_once(keras):
    inner = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, name="shared", activation="relu")], name="inner")
    given = keras.Input((4,))
    model = keras.Model(given, inner(inner(given)))
    graph = graph_of_keras_model(model)
    assert [node.source for node in graph if node.op == "dense"] == ["inner/shared"] * 2
    assert graph.parameters == 20


def test_a_layer_that_cannot_be_looked_into_is_unknown_but_its_weights_count(keras):
    class Own(keras.layers.Dense):
        def call(self, inputs):
            if isinstance(inputs, keras.KerasTensor):
                raise TypeError("a function of the backend takes no symbolic tensors")
            return super().call(inputs) * 2

    given = keras.Input((4,))
    graph = graph_of_keras_model(keras.Model(given, Own(3)(given)))
    assert [node.get("source_op") for node in graph.unknown] == ["Own"]
    assert graph.parameters == 15


def test_a_model_without_calls_is_refused(keras):
    class Own(keras.Model):
        def call(self, inputs):
            return inputs

    with pytest.raises(ModelError, match="functional API"):
        graph_of_keras_model(Own(name="own"))


@pytest.mark.slow
def test_a_fresh_process_takes_a_cheap_backend_and_does_not_import_tensorflow():
    pytest.importorskip("jax")
    pytest.importorskip("keras")
    code = (
        "import sys; from zoolens.findings.graph.importers.keras.keras_library import load;"
        "from zoolens.findings.graph.importers.importer import Request;"
        "print(len(load(Request('VGG16')))); print('tensorflow' in sys.modules or 'torch' in sys.modules)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "KERAS_BACKEND"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["39", "False"]


@pytest.mark.parametrize("arguments", [
    {"weights": "{file}"}, {"weights": "imagenet"}, {"classifier_activation": {"class_name": "Dense", "config": {}}},
])  # fmt: skip
def test_no_file_of_the_manifest_s_choice_is_opened(keras, tmp_path, arguments):
    """Keras would read any file that `weights` names."""
    opened = {key: str(tmp_path / "secret.h5") if value == "{file}" else value for key, value in arguments.items()}
    with pytest.raises(ModelError, match="The argument "):
        build(Request("MobileNet", size=(32, 32), arguments=opened))
