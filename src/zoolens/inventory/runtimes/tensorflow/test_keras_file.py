"""Keras files: what they may name is listed, and everything else is refused before anything of it runs."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.runtime import ModelFiles
from zoolens.inventory.runtimes.tensorflow.keras_file import check_configuration
from zoolens.inventory.runtimes.tensorflow.tensorflow_runtime import TensorFlow
from zoolens.testing import models

pytest.importorskip("tensorflow")
h5py = pytest.importorskip("h5py")
keras = pytest.importorskip("keras")
tf_keras = pytest.importorskip("tf_keras")


def _code(mark):
    """A function as Keras 2 stores it: marshalled bytecode."""
    from tf_keras.src.utils import generic_utils

    space: dict[str, object] = {}
    exec(f"def hostile(*_, **__): return open({str(mark)!r}, 'w') and None", space)
    return generic_utils.func_dump(space["hostile"])


def _cell():
    return {"class_name": "LSTMCell", "config": {"name": "cell", "units": 3, "dtype": "float32"}}


def _h5_with(tmp_path, layer, shape=(5, 4)):
    """A Keras-2 file of one layer, described freely."""
    config = {
        "class_name": "Sequential",
        "config": {
            "name": "s",
            "layers": [
                {"class_name": "InputLayer", "config": {"batch_input_shape": [None, *shape], "name": "image"}},
                layer,
            ],
        },
    }
    with h5py.File(tmp_path / "hostile.h5", "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.15.0"
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = []
        weights.attrs["keras_version"] = "2.15.0"
    return ModelFiles("keras-h5", {"model": tmp_path / "hostile.h5"})


def _residual(mark):
    function = {"residual_fn": _code(mark), "residual_fn_type": "lambda", "residual_fn_module": None}
    return {
        "class_name": "RNN",
        "config": {"name": "r", "cell": {"class_name": "ResidualWrapper", "config": {"cell": _cell(), **function}}},
    }


def _residual_by_module(mark):
    layer = _residual(mark)
    layer["config"]["cell"] |= {
        "module": "tf_keras.src.layers.rnn.cell_wrappers",
        "registered_name": "ResidualWrapper",
    }
    return layer


def _residual_key_on_an_allowed_class(mark):
    layer = _residual(mark)
    layer["config"]["cell"]["class_name"] = "LSTMCell"
    return layer


def _dropout_visitor(mark):
    return {
        "class_name": "RNN",
        "config": {
            "name": "r",
            "cell": {
                "class_name": "DropoutWrapper",
                "config": {"cell": _cell(), "dropout_fn": _code(mark), "dropout_fn_type": "lambda"},
            },
        },
    }


def _lambda(mark):
    return {
        "class_name": "Lambda",
        "config": {"name": "l", "function": _code(mark), "function_type": "lambda", "arguments": {}},
    }


def _nested_lambda(mark):
    return {"class_name": "TimeDistributed", "config": {"name": "t", "layer": _lambda(mark)}}


def _lambda_as_activation(mark):
    function = {"class_name": "__lambda__", "config": {"value": _code(mark)}}
    return {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": function}}


def _module_as_activation(mark):
    return {"class_name": "Dense", "config": {"name": "d", "units": 3, "activation": "backend"}}


def _recorded_write(mark):
    return {"class_name": "TFOpLambda", "config": {"name": "t", "function": "io.write_file"}}


def _operator(mark):
    node = 'name: "w" op: "WriteFile" input: "a" input: "b"'
    return {
        "class_name": "TensorFlowOpLayer",
        "config": {"name": "t", "node_def": node, "constants": {"0": str(mark), "1": "x"}},
    }


def _class_method(mark):
    return {
        "class_name": "ClassMethod",
        "config": {"name": "c", "cls_symbol": "io.gfile.GFile", "method_name": "write"},
    }


def _vocabulary(mark):
    return {"class_name": "StringLookup", "config": {"name": "v", "vocabulary": "/etc/hostname"}}


@pytest.mark.parametrize(
    "attack",
    [
        _residual,
        _residual_by_module,
        _residual_key_on_an_allowed_class,
        _dropout_visitor,
        _lambda,
        _nested_lambda,
        _lambda_as_activation,
        _module_as_activation,
        _recorded_write,
        _operator,
        _class_method,
        _vocabulary,
    ],
)
def test_an_old_keras_file_with_code_is_refused(tmp_path, attack):
    mark = tmp_path / "ran"
    with pytest.raises(ModelError, match="which zoolens does not run"):
        TensorFlow().open(_h5_with(tmp_path, attack(mark)))
    assert not mark.exists()


def test_a_plain_layer_written_by_the_same_means_opens(tmp_path):
    """So that the refusals above are about what the layers are."""
    TensorFlow().open(_h5_with(tmp_path, {"class_name": "Flatten", "config": {"name": "f"}})).close()


# --- files that are two things at once


def _archive(path, config, weights):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": keras.__version__}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights)


def _harmless():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    return json.loads(json.dumps(keras.saving.serialize_keras_object(network)))


def _no_weights():
    buffer = io.BytesIO()
    h5py.File(buffer, "w").close()
    return buffer.getvalue()


def test_a_file_that_is_an_archive_and_hdf5_at_once_is_refused(tmp_path):
    """Keras chooses the reader by the name: what was checked as one format must not be read as the other."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": {"name": "s", "layers": []}})
    _archive(tmp_path / "zip", _harmless(), _no_weights())
    both = buffer.getvalue() + (tmp_path / "zip").read_bytes()
    for format_, name in (
        ("keras", "both.h5"),
        ("keras-h5", "both.keras"),
        ("keras-h5", "both.h5"),
        ("keras", "b.keras"),
    ):
        (tmp_path / name).write_bytes(both)
        with pytest.raises(ModelError, match=r"does not end in|first bytes"):
            TensorFlow().open(ModelFiles(format_, {"model": tmp_path / name}))


@pytest.mark.parametrize("entry", ["assets/vocabulary.txt", "model.weights.npz", "config.json", "../escape"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_other_entries_of_an_archive_are_refused(tmp_path, entry):
    files = models.keras(tmp_path)
    with zipfile.ZipFile(files.path(), "a") as archive:
        archive.writestr(entry, b"{}")
    with pytest.raises(ModelError, match=r"the entry|two entries"):
        TensorFlow().open(files)


# --- weights that are kept elsewhere


def _external(group, secret):
    group.create_dataset("w", (4,), np.uint8, external=[(str(secret), 0, 4)])


def _linked(group, secret):
    group["w"] = h5py.ExternalLink(str(secret), "/")


def _virtual(group, secret):
    layout = h5py.VirtualLayout((4,), np.uint8)
    layout[:] = h5py.VirtualSource(str(secret), "w", (4,))
    group.create_virtual_dataset("w", layout)


@pytest.mark.parametrize("elsewhere", [_external, _linked, _virtual])
@pytest.mark.parametrize("format_", ["keras-h5", "keras", "weights"])
def test_weights_in_another_file_are_refused(tmp_path, elsewhere, format_):
    secret = tmp_path / "secret"
    secret.write_bytes(b"1234")
    architecture = None
    if format_ == "keras":
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            elsewhere(file, secret)
        path = tmp_path / "m.keras"
        _archive(path, _harmless(), buffer.getvalue())
    else:
        path = tmp_path / "m.weights.h5"
        with h5py.File(path, "w") as file:
            elsewhere(file.create_group("model_weights"), secret)
        architecture = {"library": "keras", "name": "MobileNet", "arguments": {}} if format_ == "weights" else None
    kind = "keras" if format_ == "keras" else "keras-h5"
    with pytest.raises(ModelError, match="another file"):
        TensorFlow().open(ModelFiles(kind, {"model": path}, architecture))


# --- configurations of Keras 3


def _layer(config):
    return config["config"]["layers"][1]


def _set(path, value):
    def change(config):
        found = _layer(config)
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set(["module"], "subprocess"), "class 'Dense' of subprocess"),
        (_set(["module"], "keras.utils"), "class 'Dense' of keras.utils"),
        (_set(["class_name"], "TFSMLayer"), "class 'TFSMLayer'"),
        (_set(["class_name"], "TorchModuleWrapper"), "class 'TorchModuleWrapper'"),
        (_set(["registered_name"], "package>Layer"), "registered class"),
        (_set(["spec_name"], "x"), "key 'spec_name'"),
        (_set(["compile_config"], {"loss": "mse"}), "compiled model inside"),
        (_set(["config", "vocabulary"], "/etc/passwd"), "configuration key 'vocabulary'"),
        (_set(["config", "activation"], "get_file"), "activation 'get_file'"),
        (
            _set(["config", "activation"], {"module": "os", "class_name": "function", "config": "system"}),
            "function 'system' of os",
        ),
        (
            _set(["config", "activation"], {"module": "builtins", "class_name": "function", "config": "eval"}),
            "function 'eval' of builtins",
        ),
        (
            _set(["config", "kernel_initializer"], {"class_name": "__typespec__", "config": []}),
            "class '__typespec__'",
        ),
        (_set(["build_config"], {"input_shape": {"class_name": "Lambda"}}), "where a shape belongs"),
        (
            _set(["inbound_nodes"], [{"args": [{"class_name": "__lambda__", "config": {}}], "kwargs": {}}]),
            "class '__lambda__'",
        ),
    ],
)
def test_names_that_are_not_listed_are_refused(change, words):
    config = _harmless()
    check_configuration("m.keras", config)
    change(config)
    with pytest.raises(ModelError, match=words):
        check_configuration("m.keras", config)


@pytest.mark.parametrize("library", [keras, pytest.param(tf_keras, marks=pytest.mark.slow)], ids=["keras", "tf_keras"])
def test_real_networks_pass(library):
    """Layers, nested models, operators written as arithmetic, activations as functions."""
    layers = library.layers
    image = library.Input((8, 8, 3))
    x = layers.Rescaling(1 / 255)(layers.RandomFlip()(image))
    x = layers.Conv2D(4, 3, activation="relu", kernel_regularizer=library.regularizers.L2(1e-4))(x)
    x = layers.SeparableConv2D(4, 3, activation=layers.LeakyReLU())(x)
    x = layers.Reshape((16, 4))(layers.LayerNormalization()(x))
    x = layers.MultiHeadAttention(2, 2)(x, x)
    x = layers.TimeDistributed(layers.Dense(3))(layers.Bidirectional(layers.LSTM(4, return_sequences=True))(x))
    x = layers.GRU(4)(x) * 2.0 + 1.0
    x = library.Sequential([library.Input((4,)), layers.Dense(4, activation="swish")])(x[:, :4])
    network = library.Model(image, layers.Activation(library.activations.gelu)(x))
    if library is keras:
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(network)))
    else:
        config = json.loads(network.to_json())
    check_configuration("m", config)


@pytest.mark.parametrize(
    "config",
    [
        {"class_name": ["Sequential"], "config": {}},
        {"class_name": {"a": 1}, "config": {}},
        ["Sequential"],
        {
            "class_name": "Sequential",
            "config": {
                "layers": [
                    {
                        "class_name": "Dense",
                        "module": "keras.layers",
                        "config": {"activation": {"class_name": "function", "module": "builtins", "config": ["relu"]}},
                    }
                ]
            },
        },
    ],
)
def test_names_that_are_no_text_are_refused_in_a_sentence(config):
    with pytest.raises(ModelError, match="which zoolens does not run"):
        check_configuration("m.keras", config)
