"""Language models in ONNX with past keys and values become the networks of texts that their GGUF files become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.cost.generation import generation
from zoolens.findings.graph.importers.gguf.gguf_import import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.testing import language_models
from zoolens.testing.onnx_language_models import onnx_copy

onnx = pytest.importorskip("onnx")

IDS = np.random.default_rng(5).integers(0, language_models.VOCABULARY, (1, 9), dtype=np.int64)


@pytest.fixture(params=[True, False], ids=["with positions", "without positions"])
def requests(tmp_path, request):
    """For the GGUF file and for its copy in ONNX."""
    source = language_models.gguf(tmp_path).path()
    copy = onnx_copy(source, tmp_path / "copy.onnx", position_ids=request.param)
    return tuple(Request(str(path), weights=True, extents={"": IDS.shape}) for path in (source, copy))


def test_it_computes_what_numpy_does(requests):
    graph = ONNX.load(requests[1])
    assert [node.source for node in graph.inputs] == ["input_ids"]
    for one in (graph, canonical(graph)):
        (output,) = one.outputs
        answer = run(one, {one.inputs[0].source: IDS})[output][0]
        np.testing.assert_allclose(answer, language_models.reference(IDS[0]), atol=2e-5)


def test_it_costs_what_the_gguf_file_does(requests):
    own, theirs = (
        canonical(load(replace(request, weights=False)))
        for load, request in zip((GGUF.load, ONNX.load), requests, strict=True)
    )
    assert cost(own).macs == cost(theirs).macs
    of_gguf, of_onnx = (replace(generation(graph), context_length=None) for graph in (own, theirs))
    assert (of_gguf.cache_bytes_each, of_onnx.cache_bytes_each) == (2, 4)
    assert replace(of_onnx, cache_bytes_each=2) == of_gguf


def test_a_text_has_128_tokens_where_nothing_else_is_said(requests):
    graph = ONNX.load(replace(requests[1], weights=False, extents={}))
    assert graph.inputs[0].shape == (1, 128)


def test_a_window_is_no_causal_mask(requests):
    """A mask that hides more than what comes later leaves unknown how the network's cost grows."""
    model = onnx.load(requests[1].subject)
    (node,) = (node for node in model.graph.node if node.op_type == "LessOrEqual")
    node.op_type = "Equal"
    onnx.save(model, requests[1].subject)
    assert generation(canonical(ONNX.load(replace(requests[1], weights=False)))) is None


def test_a_file_of_another_form_is_read_as_it_is(requests):
    model = onnx.load(requests[1].subject)
    model.graph.input.append(onnx.helper.make_tensor_value_info("more", 1, [1]))
    onnx.save(model, requests[1].subject)
    shapes = {"input_ids": IDS.shape, "attention_mask": (1, 12), "position_ids": IDS.shape}
    shapes |= {f"past_key_values.{layer}.{part}": (1, 2, 3, 8) for layer in range(2) for part in ("key", "value")}
    graph = ONNX.load(replace(requests[1], weights=False, extents=shapes))
    assert len(graph.inputs) > 5
    assert graph.by_name[graph.outputs[0]].shape == (*IDS.shape, language_models.VOCABULARY)
