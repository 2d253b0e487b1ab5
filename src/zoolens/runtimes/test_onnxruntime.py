"""ONNX Runtime keeps the contract and computes the tiny network."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.errors import ModelError
from zoolens.runtimes.base import ModelFiles, Options
from zoolens.runtimes.onnxruntime import OnnxRuntime
from zoolens.testing import models
from zoolens.testing.runtime_contract import RuntimeContract
from zoolens.testing.tiny import ComputesTheTinyNetwork

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


class TestContract(RuntimeContract, ComputesTheTinyNetwork):
    runtime_class = OnnxRuntime

    def model(self, tmp_path):
        return models.onnx(tmp_path)


class TestFixedBatch(RuntimeContract):
    runtime_class = OnnxRuntime

    def model(self, tmp_path):
        return models.onnx(tmp_path, batch=1)


def test_weights_in_another_file_must_be_listed(tmp_path):
    """Else changed weights would be taken for the same model."""
    onnx = pytest.importorskip("onnx")
    from zoolens.catalog.lookup import find

    inside = models.onnx(tmp_path)
    graph = onnx.load(str(inside.path()))
    outside = tmp_path / "outside.onnx"
    onnx.save(graph, str(outside), save_as_external_data=True, location="outside.data", size_threshold=0)
    with pytest.raises(ModelError, match="does not list"):
        OnnxRuntime().open(ModelFiles("onnx", {"model": outside}))
    both = ModelFiles("onnx", {"model": outside, "weights": tmp_path / "outside.data"})
    with OnnxRuntime().open(both) as session, OnnxRuntime().open(inside) as whole:
        name = session.inputs[0].name
        shape = tuple(extent or 1 for extent in session.inputs[0].shape)
        feeds = {name: np.ones(shape, np.float32)}
        assert all((session.predict(feeds)[key] == whole.predict(feeds)[key]).all() for key in whole.predict(feeds))
    drafted = find(str(outside)).manifest.assets[0]
    assert {file.role for file in drafted.files} == {"model", "weights"}


def test_a_file_in_the_runtimes_own_format_is_not_taken_for_onnx(tmp_path):
    """One file can be both, and what our checks read as ONNX must be what runs."""
    import onnxruntime

    files = models.onnx(tmp_path)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.optimized_model_filepath = str(tmp_path / "m.ort")
    settings.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(files.path()), settings, providers=["CPUExecutionProvider"])
    other = (tmp_path / "m.ort").read_bytes()
    assert onnxruntime.InferenceSession(other, providers=["CPUExecutionProvider"]).get_inputs()
    with pytest.raises(Exception, match="protobuf"):
        OnnxRuntime().compile(other, files, Options())
