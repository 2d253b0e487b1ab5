"""Weights of ONNX files are compared with those of the files whose copies they are, tensor by tensor."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.gguf.gguf_import import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.weights.rounding import Kind
from zoolens.findings.graph.weights.tensor_pairs import tensor_pairs
from zoolens.findings.graph.weights.weight_diff import weight_diff
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.testing import language_models
from zoolens.testing.onnx_language_models import onnx_copy

onnx = pytest.importorskip("onnx")
pytest.importorskip("gguf")
pytestmark = pytest.mark.usefixtures("trusted_models")


@pytest.fixture
def source(tmp_path):
    return language_models.gguf(tmp_path).path()


@pytest.fixture
def copy(source, tmp_path):
    return onnx_copy(source, tmp_path / "copy.onnx")


def compared(a, b):
    graphs = [canonical((GGUF if path.suffix == ".gguf" else ONNX).load(Request(str(path)))) for path in (a, b)]
    return weight_diff(a, b, keys=tensor_pairs(diff(*graphs)))


def changed(path, change):
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        tensor.CopyFrom(onnx.numpy_helper.from_array(change(tensor.name, values), tensor.name))
    onnx.save(model, path)
    return path


def test_a_copy_has_equal_weights(source, copy):
    for pair in ((source, copy), (copy, source), (copy, copy)):
        found = compared(*pair)
        assert found.equal
        assert found.values >= sum(values.size for values in language_models.weights().values())


def test_a_rounded_copy_is_rounding(source, copy, tmp_path):
    target = tmp_path / "Q8_0.gguf"
    copy_gguf(source, target, lambda tensor: "Q8_0" if tensor.shape[-1] % 32 == 0 and len(tensor.shape) == 2 else "F32")
    found = compared(copy, target)
    assert found.is_rounding
    assert {pair.rounded for pair in found.pairs if pair.kind is Kind.ROUNDED} == {"B"}


@pytest.mark.parametrize("part", ["self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj", "embed_tokens", "norm"])
def test_another_tensor_is_named(source, copy, part):
    def change(name, values):
        return values + np.float32(0.3) * values.std() if part in name and values.dtype == np.float32 else values

    found = compared(source, changed(copy, change))
    trained = [pair.name for pair in found.pairs if pair.kind is Kind.TRAINED]
    assert trained
    assert not found.equal
    assert all(part in name for name in trained)


def test_two_tensors_in_the_place_of_each_other_are_found(source, copy):
    """Both have one shape, so that the structure stays the same."""
    values = {}
    pair = [f"model.layers.{layer}.mlp.up_proj.weight" for layer in (0, 1)]
    for tensor in onnx.load(copy).graph.initializer:
        if tensor.name in pair:
            values[tensor.name] = onnx.numpy_helper.to_array(tensor)

    def exchanged(name, own):
        return values[pair[1 - pair.index(name)]] if name in pair else own

    found = compared(source, changed(copy, exchanged))
    assert sum(pair.kind is Kind.TRAINED for pair in found.pairs) == 2


def test_other_structures_are_refused(tmp_path, copy):
    other = language_models.gguf(tmp_path, name="other.gguf", llama__rope__freq_base=np.float32(500)).path()
    with pytest.raises(ModelError, match="only where the structures are the same"):
        compared(other, copy)


def network(path, *nodes, **weights):
    """A file of ONNX over 8 tokens of 16 numbers."""
    texts = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8, 16]) for name in ("x", "y")]
    kept = [onnx.numpy_helper.from_array(values, name) for name, values in weights.items()]
    made = [onnx.helper.make_node(operator, inputs, [output]) for operator, inputs, output in nodes]
    graph = onnx.helper.make_graph(made, path.stem, texts[:1], texts[1:], kept)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_branches_that_only_their_weights_tell_apart_are_refused(tmp_path):
    numbers = np.random.default_rng(0)
    weights = {name: numbers.normal(size=(16, 16)).astype(np.float32) for name in ("one", "two")}
    nodes = [("MatMul", ["x", "one"], "left"), ("MatMul", ["x", "two"], "right")]
    a = network(tmp_path / "a.onnx", *nodes, ("Add", ["left", "right"], "y"), **weights)
    b = network(tmp_path / "b.onnx", *nodes[::-1], ("Add", ["right", "left"], "y"), **weights)
    with pytest.raises(ModelError, match="alike but for their weights"):
        compared(a, b)


def test_files_without_weights_are_refused(tmp_path):
    path = network(tmp_path / "relu.onnx", ("Relu", ["x"], "y"))
    with pytest.raises(ModelError, match="no weights that could be compared"):
        compared(path, path)


def test_axes_of_extent_one_are_no_other_shape(tmp_path):
    kernel, bias = np.eye(16, dtype=np.float32) * 3, np.arange(16, dtype=np.float32)
    nodes = [("MatMul", ["x", "kernel"], "made"), ("Add", ["made", "bias"], "y")]
    a = network(tmp_path / "a.onnx", *nodes, kernel=kernel, bias=bias)
    b = network(tmp_path / "b.onnx", *nodes, kernel=kernel, bias=bias.reshape(1, 1, 16))
    assert compared(a, b).equal
    assert compared(b, a).equal
