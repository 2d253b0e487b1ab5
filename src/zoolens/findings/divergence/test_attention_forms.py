"""A language model in a GGUF file and its copy in ONNX are one structure, whatever each writes out."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.findings.divergence.alignment import aligned
from zoolens.findings.graph.importers.gguf.gguf_import import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.testing import language_models

onnx = pytest.importorskip("onnx")
IDS = np.random.default_rng(5).integers(0, language_models.VOCABULARY, (1, 9))


def read(importer, path):
    return canonical(importer.load(Request(str(path), weights=True, extents={"": IDS.shape})))


def computed(graph):
    return run(graph, {graph.inputs[0].name: IDS})[graph.outputs[0]]


def test_both_are_aligned_node_by_node(tmp_path):
    from zoolens.testing.onnx_language_models import onnx_copy

    source = language_models.gguf(tmp_path).path()
    copy = onnx_copy(source, tmp_path / "copy.onnx")
    own, theirs = read(GGUF, source), read(ONNX, copy)
    together = aligned(own, theirs)
    assert together.same_structure
    assert len(together.pairs) == len(together.a) == len(together.b)
    for graph in (together.a, together.b):
        np.testing.assert_allclose(computed(graph)[0], language_models.reference(IDS[0]), atol=2e-5)
    model = onnx.load(copy)
    (node,) = (node for node in model.graph.node if node.op_type == "LessOrEqual")
    node.op_type = "Less"
    onnx.save(model, copy)
    other = aligned(own, read(ONNX, copy))
    masked = [node for node in other.b if node.op == "attention" and len(node.inputs) == 4 and not node.get("causal")]
    assert len(masked) == language_models.LAYERS
