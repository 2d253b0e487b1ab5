"""Rotary positions of two language models: another base or scaling is a difference, numbers not known are none."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.verdicts import Outcome
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.importers.gguf.gguf_import import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.importers.onnx.onnx_import import ONNX
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.testing import language_models

LINEAR = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": np.float32(4)}


def read(path, **changed):
    return canonical(GGUF.load(Request(str(language_models.gguf(path, **changed).path()))))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"llama__rope__freq_base": np.float32(10100)}, "the base 10,100 in B instead of the base 10,000 in A"),
        (LINEAR, "the base 10,000, positions divided by 4 in B instead of the base 10,000 in A"),
    ],
)
def test_other_positions_are_another_network(tmp_path, changed, told):
    compared = diff(read(tmp_path), read(tmp_path, **changed), names=("A", "B"))
    assert compared.decision.outcome is Outcome.DIFFERENT
    assert compared.verdict == "different networks: setting"
    (difference,) = compared.differences
    assert f"rotary positions turn by {told}" in difference.text
    assert len(difference.findings) == 2 * language_models.LAYERS


def test_the_same_positions_are_the_same_network(tmp_path):
    assert diff(read(tmp_path), read(tmp_path, llama__rope__freq_base=None)).same


def test_a_factor_without_a_rule_is_not_used(tmp_path):
    assert diff(read(tmp_path), read(tmp_path, **{**LINEAR, "llama__rope__scaling__type": "none"})).same


def test_a_rule_that_is_not_known_leaves_the_verdict_open(tmp_path):
    changed = {**LINEAR, "llama__rope__scaling__type": "yarn"}
    for own in (read(tmp_path), read(tmp_path, **changed)):
        compared = diff(own, read(tmp_path, **changed), names=("A", "B"))
        assert compared.decision.outcome is Outcome.NOT_KNOWN
        assert "the numbers of 4 of 4 tables of rotary positions in B" in compared.verdict


@pytest.fixture
def copy(tmp_path):
    """The graph of a copy in ONNX, in whose file operators are exchanged."""
    onnx = pytest.importorskip("onnx")
    from zoolens.testing.onnx_language_models import onnx_copy

    def copy(base=10000, extents=None, change=None, **operators):
        source = language_models.gguf(tmp_path, llama__rope__freq_base=np.float32(base)).path()
        path = onnx_copy(source, tmp_path / "copy.onnx")
        model = onnx.load(path)
        for node in model.graph.node:
            node.op_type = operators.get(node.op_type, node.op_type)
        if change is not None:
            change(model.graph)
        onnx.save(model, path)
        return canonical(ONNX.load(Request(str(path), extents=extents or {})))

    return copy


def test_a_copy_in_onnx_is_the_same_network(tmp_path, copy):
    compared = diff(read(tmp_path), copy())
    assert compared.same
    assert len(compared.forms) == 4
    assert diff(copy(), copy()).same


def test_what_a_file_does_with_past_keys_and_values_is_not_claimed(tmp_path, copy):
    """It is read as the network of texts that begin with none, so that "the same" is said of such texts alone."""
    wanted = "texts from their beginning on are compared, not how past keys and values are used"
    for pair in ((read(tmp_path), copy()), (copy(), copy())):
        assert wanted in diff(*pair).verdict
    assert wanted not in diff(read(tmp_path), read(tmp_path)).verdict


def test_another_base_in_onnx_is_another_network(tmp_path, copy):
    compared = diff(read(tmp_path), copy(5000), names=("A", "B"))
    assert compared.decision.outcome is Outcome.DIFFERENT
    assert len(compared.differences) == 1
    assert "the base 5,000 in B instead of the base 10,000 in A" in compared.differences[0].text


def test_exchanged_tables_are_another_network(tmp_path, copy):
    compared = diff(read(tmp_path), copy(Cos="Sin", Sin="Cos"), names=("A", "B"))
    assert compared.decision.outcome is Outcome.DIFFERENT
    assert any("rotary positions take" in difference.text for difference in compared.differences)


def test_tables_that_are_not_known_leave_the_verdict_open(tmp_path, copy):
    compared = diff(read(tmp_path), copy(Cos="Erf"), names=("A", "B"))
    assert compared.decision.outcome is Outcome.NOT_KNOWN
    assert "the numbers of 1 of 2 tables of rotary positions in B" in compared.verdict


def product(graph):
    """Positions × rates as a product of matrices, as exporters of transformers write it."""
    onnx = pytest.importorskip("onnx")
    (node,) = (node for node in graph.node if node.op_type == "Mul" and "constant_float32_4_1.0_" in node.input[1])
    rates = next(tensor for tensor in graph.initializer if tensor.name in node.input)
    values = onnx.numpy_helper.to_array(rates).reshape(1, 1, -1)
    graph.initializer.append(onnx.numpy_helper.from_array(values, "rates"))
    node.op_type = "MatMul"
    node.input[1] = "rates"


def test_rates_in_a_product_of_matrices_are_known(tmp_path, copy):
    assert diff(read(tmp_path), copy(change=product)).same
    assert diff(read(tmp_path), copy(500, change=product)).decision.outcome is Outcome.DIFFERENT


def window(graph):
    """A token sees itself and the three before it."""
    onnx = pytest.importorskip("onnx")
    (at,) = (place for place, node in enumerate(graph.node) if node.op_type == "LessOrEqual")
    keys, rows = graph.node[at].input
    seen = graph.node[at].output[0]
    graph.node[at].output[0] = "earlier"
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(3, np.int64), "reach"))
    added = [
        onnx.helper.make_node("Add", [keys, "reach"], ["last"]),
        onnx.helper.make_node("GreaterOrEqual", ["last", rows], ["near"]),
        onnx.helper.make_node("And", ["earlier", "near"], [seen]),
    ]
    for place, node in enumerate(added):
        graph.node.insert(at + 1 + place, node)


def small(graph):
    """Later tokens are weighed less, not hidden."""
    for tensor in graph.initializer:
        if tensor.name.startswith("constant_float32__-3.4"):
            tensor.CopyFrom(pytest.importorskip("onnx").numpy_helper.from_array(np.array(-60, np.float32), tensor.name))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"And": "Or"}, "attention causal False in B instead of True in A"),  # sees everything
        ({"LessOrEqual": "Less"}, "attention causal False in B instead of True in A"),  # nor itself
        ({"LessOrEqual": "GreaterOrEqual"}, "attention causal False in B instead of True in A"),  # sees what comes
        ({"change": window}, "attention causal False in B instead of True in A"),
        ({"change": small}, "attention causal False in B instead of True in A"),
    ],
)
def test_another_mask_is_another_network(tmp_path, copy, changed, told):
    compared = diff(read(tmp_path), copy(**changed), names=("A", "B"))
    assert compared.decision.outcome is Outcome.DIFFERENT
    assert any(told in difference.text for difference in compared.differences)


def test_a_mask_that_is_not_known_leaves_the_verdict_open(tmp_path, copy):
    """Masks of so many tokens are not computed."""
    context = {"llama__context_length": np.uint32(1100)}
    source = language_models.gguf(tmp_path, name="long.gguf", **context).path()
    own = canonical(GGUF.load(Request(str(source), extents={"": (1, 1100)})))
    compared = diff(own, copy(extents={"": (1, 1100)}), names=("A", "B"))
    assert compared.decision.outcome is Outcome.NOT_KNOWN
    assert "the numbers of 1 of 1 masks of attention in B" in compared.verdict


def attention(*, learned):
    """Attention with a mask that the network holds, and with a bias from a learned table."""
    torch = pytest.importorskip("torch")
    from zoolens.findings.graph.importers.torch.torch_library import graph_of_module

    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.project = torch.nn.Linear(6, 18)
            self.table = torch.nn.Parameter(torch.zeros(31, 3))
            self.register_buffer("places", torch.zeros(256, dtype=torch.int64))
            self.register_buffer("mask", torch.zeros(1, 1, 16, 16))

        def forward(self, tokens):
            query, keys, values = self.project(tokens).reshape(2, 16, 3, 3, 2).permute(2, 0, 3, 1, 4)
            mask = self.mask
            if learned:
                mask = mask + self.table[self.places].view(16, 16, 3).permute(2, 0, 1)[None]
            return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)

    with torch.device("meta"):
        return canonical(graph_of_module(Network(), [torch.zeros(2, 16, 6)], "network"))


def test_masks_without_numbers_leave_the_verdict_open():
    one, other = attention(learned=False), attention(learned=False)
    compared = diff(one, other, names=("A", "B"))
    assert compared.decision.outcome is Outcome.NOT_KNOWN
    assert "the numbers of 1 of 1 masks of attention in B" in compared.verdict


def test_biases_from_learned_tables_are_weights():
    assert diff(attention(learned=True), attention(learned=True)).same


BY_LENGTH = {"rope_type": "dynamic", "factor": 4.0}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sliding_window": 4096}, "what longer texts show (sliding_window 4096) in B"),
        ({"sliding_window": 16}, "the numbers of 1 of 1 masks of attention in B"),
        ({"rope_parameters": {**BY_LENGTH, "rope_theta": 10000.0}}, "positions by the rule dynamic from 256 tokens on"),
    ],
)
def test_what_longer_texts_would_show_leaves_the_verdict_open(changed, told):
    pytest.importorskip("transformers")
    from zoolens.findings.graph.importers.torch.torch_library import TRANSFORMERS

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "vocab_size": 50}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}

    def read(**own):
        arguments = {**sizes, **heads, "sliding_window": None, **own}
        return canonical(TRANSFORMERS.load(Request("MistralForCausalLM", arguments=arguments)))

    plain, other = read(), read(**changed)
    assert diff(plain, plain).same
    compared = diff(plain, other, names=("A", "B"))
    assert compared.decision.outcome is Outcome.NOT_KNOWN
    assert told in compared.verdict
