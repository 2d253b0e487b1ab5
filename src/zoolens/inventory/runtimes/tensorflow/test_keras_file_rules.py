"""The rules for Keras files, rule by rule, on configurations that no Keras builds."""

from __future__ import annotations

import json
import zipfile

import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.tensorflow import keras_file
from zoolens.inventory.runtimes.tensorflow.keras_file import (
    check_configuration,
    check_h5_name,
    check_keras,
    check_keras_h5,
    check_name,
)


def _model(*layers, **more):
    return {"class_name": "Sequential", "config": {"name": "s", "layers": list(layers)}, **more}


def _dense(**changed):
    config = {"name": "d", "units": 3, "activation": "relu", **changed.pop("config", {})}
    return {"class_name": "Dense", "config": config, **changed}


def _said(layer):
    """What is said against a layer; None where nothing is."""
    try:
        check_configuration("m.keras", _model(layer))
    except ModelError as error:
        return str(error).partition("m.keras carries ")[2].partition(", which zoolens does not run.")[0]
    return None


def _function(name="relu", module="builtins", registered=None):
    return {"class_name": "function", "config": name, "module": module, "registered_name": registered}


TUPLE = {"class_name": "__tuple__", "items": [1, 2]}


@pytest.mark.parametrize(
    "layer",
    [
        _dense(),
        _dense(module="keras.layers", registered_name=None, build_config={"input_shape": [None, 4]}),
        _dense(module="keras.src.layers.core.dense", registered_name="Dense"),
        _dense(module="tf_keras.src.layers.core.dense", registered_name=""),
        _dense(name="d", inbound_nodes=[[["x", 0, 0, {}]]], shared_object_id=3, keras_version="3", backend="jax"),
        _dense(compile_config=None),
        _dense(compile_config={}),
        _dense(config={"activation": _function()}),
        _dense(config={"activation": _function(module="keras.activations")}),
        _dense(config={"activation": _function(module="keras.src.activations.activations")}),
        _dense(config={"activation": _function(module="tf_keras.activations", registered="relu")}),
        _dense(config={"activation": _function(registered="function")}),
        _dense(config={"activation": None}),
        _dense(config={"activation": {"class_name": "ReLU", "config": {"max_value": 6}}}),
        _dense(config={"kernel_initializer": {"class_name": "GlorotUniform", "config": {"seed": None}}}),
        _dense(config={"kernel_initializer": {"class_name": "Zeros", "config": {}, "module": "keras.initializers"}}),
        _dense(config={"kernel_regularizer": {"class_name": "L2", "config": {}, "module": "keras.regularizers"}}),
        _dense(config={"kernel_constraint": {"class_name": "NonNeg", "config": {}, "module": "keras.constraints"}}),
        _dense(config={"dtype": {"class_name": "DTypePolicy", "config": {"name": "x"}, "module": "keras"}}),
        _dense(config={"dtype": {"class_name": "Policy", "config": {}, "module": "keras.mixed_precision.policy"}}),
        _dense(config={"units": TUPLE}),
        _dense(config={"input_layers": [["a", 0, 0]], "output_layers": {"any key": ["a", 0]}}),
        _dense(build_config={"input_shape": TUPLE, "any/key-1:x.y": {"deep": [None, "text"]}}),
        _dense(inbound_nodes=[{"args": [{"class_name": "__keras_tensor__", "config": {"shape": [1]}}], "kwargs": {}}]),
        _dense(inbound_nodes=[{"args": [], "kwargs": {"any key": {"class_name": "__slice__", "config": {}}}}]),
        {"class_name": "InputLayer", "config": {}, "module": "keras"},
        {"class_name": "Functional", "config": {"layers": [_dense()]}, "module": "keras.src.models.functional"},
        {"class_name": "Model", "config": {}, "module": "keras.engine.training"},
        {"class_name": "LayerScale", "config": {}, "module": "keras.src.applications.convnext"},
        {"class_name": "Add", "config": {"name": "a"}, "module": "keras.src.ops.numpy"},
        {"class_name": "Zeros", "config": {}, "module": "tensorflow.python.ops.init_ops_v2"},
        {"class_name": "__numpy__", "config": {"value": [1], "dtype": "float32"}, "module": "builtins"},
        {"class_name": "TFOpLambda", "config": {"name": "t", "function": "math.add"}, "inbound_nodes": []},
        {"class_name": "SlicingOpLambda", "config": {"function": "__operators__.getitem"}, "module": "keras.layers"},
    ],
)
def test_layers_and_their_parts_pass(layer):
    assert _said(layer) is None


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"class_name": "Lambda", "config": {}}, "the class 'Lambda'"),
        ({"class_name": "Lambda", "config": {}, "module": "keras.layers"}, "the class 'Lambda' of keras.layers"),
        (_dense(module="os"), "the class 'Dense' of os"),
        (_dense(module="keras.layersX"), "the class 'Dense' of keras.layersX"),
        (_dense(module="xkeras.layers"), "the class 'Dense' of xkeras.layers"),
        (_dense(module="keras.utils"), "the class 'Dense' of keras.utils"),
        (_dense(module="builtins"), "the class 'Dense' of builtins"),
        (_dense(module=["keras.layers"]), "the class 'Dense' of ['keras.layers']"),
        (_dense(module=""), "the class 'Dense'"),
        ({"class_name": "L2", "config": {}, "module": "keras.layers"}, "the class 'L2' of keras.layers"),
        ({"class_name": "TFOpLambda", "config": {}, "module": "keras.models"}, "the class 'TFOpLambda'"),
        ({"class_name": "__numpy__", "config": {}, "module": "numpy"}, "the class '__numpy__' of numpy"),
        ({"class_name": None, "config": {}}, "the class 'None'"),
        ({"class_name": ["Dense"], "config": {}}, "the class \"['Dense']\""),
        (_dense(hook=1), "the key 'hook' of 'Dense'"),
        (_dense(zebra=1, hook=1), "the key 'hook' of 'Dense'"),
        (_dense(registered_name="package>Dense"), "the registered class 'package>Dense'"),
        (_dense(registered_name=0), "the registered class '0'"),
        (_dense(compile_config={"loss": "mse"}), "a compiled model inside another"),
        (_dense(config={"hook": 1}), "the configuration key 'hook'"),
        (_dense(config={"function": "x"}), "the configuration key 'function'"),
        (_dense(config={"layer": {"hook": 1}}), "the configuration key 'hook'"),
        (_dense(config={"layers": [{"hook": 1}]}), "the configuration key 'hook'"),
        (_dense(config={"activation": "get_file"}), "the activation 'get_file'"),
        (_dense(config={"recurrent_activation": "get_file"}), "the activation 'get_file'"),
        (_dense(config={"activation": ["relu", "get_file"]}), "the activation 'get_file'"),
        (_dense(config={"layer": {"activation": "get_file"}}), "the activation 'get_file'"),
        (_dense(config={"activation": _function("eval")}), "the function 'eval' of builtins"),
        (_dense(config={"activation": _function(module="os")}), "the function 'relu' of os"),
        (_dense(config={"activation": _function(module="keras.activationsX")}), "the function 'relu'"),
        (_dense(config={"activation": _function(module=None)}), "the function 'relu' of None"),
        (_dense(config={"activation": _function(registered="package>relu")}), "the function 'relu' of builtins"),
        (_dense(config={"activation": {**_function(), "hook": 1}}), "the key 'hook' of 'function'"),
        (_dense(config={"units": {"class_name": "__tuple__", "items": [{"hook": 1}]}}), "the configuration key 'hook'"),
        (_dense(config={"units": {"class_name": "__tuple__", "config": {"hook": 1}}}), "the configuration key 'hook'"),
        (_dense(config={"units": {"class_name": "Lambda", "items": []}}), "the key 'items' of 'Lambda'"),
        (_dense(config={"units": {**TUPLE, "config": {"a": 1}}}), "the key 'config' of a tuple"),
        (_dense(config={"units": {**TUPLE, "module": "os"}}), "the key 'module' of a tuple"),
        (_dense(build_config={"a": {**TUPLE, "registered_name": "x"}}), "the key 'registered_name' of a tuple"),
        (_dense(inbound_nodes=[{"args": [{**TUPLE, "hook": 1}]}]), "the key 'hook' of a tuple"),
        (_dense(config={"input_layers": [{"class_name": "Lambda"}]}), "the class 'Lambda' where a shape belongs"),
        (_dense(config={"output_layers": {"class_name": "Lambda"}}), "the class 'Lambda' where a shape belongs"),
        (_dense(config={"input_layers": {"a(b)": 1}}), "an argument named 'a(b)'"),
        (_dense(build_config={"a": [{"class_name": "Lambda"}]}), "the class 'Lambda' where a shape belongs"),
        (_dense(build_config={"a": {"b": {"c;d": 1}}}), "an argument named 'c;d'"),
        (_dense(build_config={"a" * 201: 1}), "an argument named 'aaa"),
        (_dense(inbound_nodes={"class_name": "Lambda", "config": {}}), "the class 'Lambda'"),
        (_dense(inbound_nodes=[{"kwargs": {"a;b": 1}}]), "an argument named 'a;b'"),
        (_dense(inbound_nodes=[[["x", 0, 0, {"a": {"class_name": "Lambda"}}]]]), "the class 'Lambda'"),
        ({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}}, "a call of tf.io.write_file"),
        ({"class_name": "TFOpLambda", "config": {"function": ["math.add"]}}, "a call of tf.['math.add']"),
        ({"class_name": "TFOpLambda", "config": {}}, "a call of tf.None"),
        ({"class_name": "TFOpLambda", "config": None}, "a call of tf.None"),
        ({"class_name": "SlicingOpLambda", "config": {"function": "io.write_file"}}, "a call of tf.io.write_file"),
        ({"class_name": "TFOpLambda", "config": {"function": "math.add", "hook": 1}}, "the configuration key 'hook'"),
    ],
)
def test_other_layers_are_refused_with_their_reason(layer, words):
    assert words in (_said(layer) or "")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"class_name": "Lambda", "config": {}}, "a model of class 'Lambda'"),
        ({"class_name": "Dense", "config": {}}, "a model of class 'Dense'"),
        ({}, "a model of class 'None'"),
        ([], "a model of class 'list'"),
        (None, "a model of class 'NoneType'"),
    ],
)
def test_what_is_no_model_is_refused(config, words):
    with pytest.raises(ModelError) as caught:
        check_configuration("m.keras", config)
    assert str(caught.value).startswith(f"m.keras carries {words}, which zoolens does not run. Ask the maker")


def test_how_a_model_was_trained_is_not_looked_at():
    check_configuration("m.keras", _model(_dense(), compile_config={"anything": {"class_name": "Lambda"}}))


def test_a_configuration_nested_too_deeply_is_refused():
    nested = inner = []
    for _ in range(3000):
        inner.append([])
        inner = inner[0]
    with pytest.raises(ModelError, match="a configuration nested too deeply"):
        check_configuration("m.keras", _model(_dense(config={"units": nested})))


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        ({"class_name": "A" * 99, "config": {}}, 80),
        (_dense(module="A" * 99), 80),
        (_dense(registered_name="A" * 99), 80),
        (_dense(**{"A" * 99: 1}), 80),
        (_dense(config={"A" * 99: 1}), 80),
        (_dense(config={"activation": "A" * 99}), 80),
        (_dense(config={"activation": _function("A" * 99)}), 80),
        (_dense(build_config={"A" * 99 + ";": 1}), 80),
        (_dense(inbound_nodes=[{"A" * 99 + ";": 1}]), 80),
        ({"class_name": "TFOpLambda", "config": {"function": "A" * 99}}, 80),
    ],
)
def test_long_names_are_cut(layer, shown):
    said = _said(layer)
    assert "A" * shown in said
    assert "A" * (shown + 1) not in said


# --- files


def _archive(tmp_path, entries, name="m.keras"):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)
    return path


def test_an_archive_of_the_three_entries_passes(tmp_path):
    config = json.dumps(_model(_dense()))
    check_keras(_archive(tmp_path, {"metadata.json": "{}", "config.json": config, "model.weights.h5": b""}))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"config.json": "{}", "assets/words.txt": ""}, "m.keras carries the entry 'assets/words.txt', which"),
        ({"config.json": "{}", "A" * 99: ""}, f"m.keras carries the entry '{'A' * 80}', which"),
        ({"metadata.json": "{}"}, "m.keras is not a complete .keras file: "),
        ({"config.json": "{"}, "m.keras is not a complete .keras file: "),
        ({"config.json": "[" * 100_000}, "m.keras is not a complete .keras file: "),
        ({"config.json": "{}"}, "m.keras carries a model of class 'None'"),
    ],
)
def test_other_archives_are_refused(tmp_path, entries, words):
    with pytest.raises(ModelError) as caught:
        check_keras(_archive(tmp_path, entries))
    assert str(caught.value).startswith(words)


def test_a_description_larger_than_texts_may_be_is_refused(tmp_path, monkeypatch):
    config = json.dumps(_model(_dense()))
    monkeypatch.setattr(keras_file, "MAX_TEXT_BYTES", len(config))
    check_keras(_archive(tmp_path, {"config.json": config}))
    with pytest.raises(ModelError, match="not a complete"):
        check_keras(_archive(tmp_path, {"config.json": config + " "}))


def test_a_broken_archive_is_said(tmp_path):
    path = tmp_path / "m.keras"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ModelError, match=r"m\.keras is not a complete \.keras file: .*Fetch it again"):
        check_keras(path)


def test_names_and_first_bytes_have_to_fit(tmp_path):
    for name in ("m.h5", "m.keras.zip", "mkeras"):
        with pytest.raises(ModelError, match=r"does not end in \.keras, as Keras needs it to"):
            check_keras(_archive(tmp_path, {"config.json": "{}"}, name))
    for name in ("m.h5", "m.hdf5"):
        (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n and more")
        check_h5_name(tmp_path / name)
        (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a")
        with pytest.raises(ModelError, match=rf"{name} is not a \.h5 file: its first bytes do not match"):
            check_h5_name(tmp_path / name)
    (tmp_path / "m.hdf").write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ModelError, match=r"does not end in \.h5 or \.hdf5, as"):
        check_h5_name(tmp_path / "m.hdf")
    (tmp_path / "m.keras").write_bytes(b"xPK\x03\x04")
    with pytest.raises(ModelError, match=r"is not a \.keras file"):
        check_name(tmp_path / "m.keras", (".keras",), b"PK\x03\x04")


def _h5(tmp_path, text):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "m.h5", "w") as file:
        if text is not None:
            file.attrs["model_config"] = text
    return tmp_path / "m.h5"


def test_hdf5_files_are_judged_by_their_configuration(tmp_path):
    check_keras_h5(_h5(tmp_path, json.dumps(_model(_dense()))))
    with pytest.raises(ModelError, match=r"m\.h5 carries the class 'Lambda', which"):
        check_keras_h5(_h5(tmp_path, json.dumps(_model({"class_name": "Lambda", "config": {}}))))
    with pytest.raises(ModelError, match=r"m\.h5 holds weights but no model\. Save the whole model"):
        check_keras_h5(_h5(tmp_path, None))
    for text in ("{", 7, "[" * 20_000):
        with pytest.raises(ModelError, match=r"m\.h5 is not a complete HDF5 file: .*Fetch it again"):
            check_keras_h5(_h5(tmp_path, text))
    content = bytearray(_h5(tmp_path, json.dumps(_model(_dense()))).read_bytes())
    content[96:104] = bytes(8)  # where the root's own object begins: h5py then raises a KeyError
    (tmp_path / "m.h5").write_bytes(content)
    with pytest.raises(ModelError, match=r"m\.h5 is not a complete HDF5 file"):
        check_keras_h5(tmp_path / "m.h5")
    (tmp_path / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(ModelError, match=r"m\.h5 is not a complete HDF5 file"):
        check_keras_h5(tmp_path / "m.h5")
