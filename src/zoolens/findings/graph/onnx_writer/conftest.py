"""Runs a graph as written in onnxruntime, beside the numpy reference."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.graph.onnx_writer.written_file import batch_is_free, onnx_bytes
from zoolens.findings.graph.passes.proof import random_inputs
from zoolens.findings.graph.reference.interpreter import run

TOLERANCE = 1e-4


def session(graph):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    content = onnx_bytes(graph)
    onnx.checker.check_model(content, full_check=True)  # shapes are inferred and must agree with those declared
    return runtime.InferenceSession(content, providers=["CPUExecutionProvider"])


def fed(graph, seed=0):
    return {name: _single(value) for name, value in random_inputs(graph, seed).items()}


def _single(values):
    return values.astype(np.float32) if values.dtype.kind == "f" else values


def difference(expected, found):
    """The largest difference, relative to the largest number."""
    return max(
        float(np.abs(a.astype(float) - b).max() / max(np.abs(a.astype(float)).max(), 1e-30))
        for a, b in zip(expected, found, strict=True)
    )


def check(graph, *, free=True):
    """Written and run, it computes what the reference does, for one example and for three."""
    opened = session(graph)
    one, other = fed(graph), fed(graph, 1)
    answers = opened.run(None, one)
    double = {name: value.astype(float) if value.dtype.kind == "f" else value for name, value in one.items()}
    assert difference(list(run(graph, double).values()), answers) <= TOLERANCE
    assert batch_is_free(graph) == free
    if free:
        three = opened.run(None, {name: np.concatenate([one[name], other[name], one[name]]) for name in one})
        each = [np.concatenate([a, b, a]) for a, b in zip(answers, opened.run(None, other), strict=True)]
        assert difference(each, three) <= TOLERANCE


@pytest.fixture
def checked():
    return check
