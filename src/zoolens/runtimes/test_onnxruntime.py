"""ONNX Runtime keeps the contract and computes the tiny network."""

from __future__ import annotations

import pytest

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
