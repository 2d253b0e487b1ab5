"""GGUF files become graphs that compute what llama.cpp does; what is not known of a network is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.importers.gguf.gguf_import import GGUF
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.graph.structures.export_pool import ExportJob, export_locally
from zoolens.testing import language_models
from zoolens.testing.importer_contract import ImporterContract
from zoolens.testing.language_models import gguf_bytes

IDS = np.random.default_rng(5).integers(0, language_models.VOCABULARY, (1, 9), dtype=np.int32)


class TestGguf(ImporterContract):
    importer = GGUF

    def request(self, tmp_path):
        return Request(str(language_models.gguf(tmp_path).path()))


@pytest.fixture
def write(tmp_path):
    """Writes a model: metadata that are changed, or left out where None, and tensors likewise."""

    def write(tensors=None, **changed):
        entries = language_models.metadata() | {key.replace("__", "."): value for key, value in changed.items()}
        held = language_models.weights() | (tensors or {})
        path = tmp_path / "model.gguf"
        path.write_bytes(
            gguf_bytes(
                {key: value for key, value in entries.items() if value is not None},
                {key: value for key, value in held.items() if value is not None},
            )
        )
        return Request(str(path), weights=True, extents={"tokens": IDS.shape})

    return write


def logits(graph):
    return run(graph, {"tokens": IDS})[graph.outputs[0]][0]


def runs_in_llamacpp(request):
    pytest.importorskip("xllamacpp")
    from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
    from zoolens.inventory.runtimes.runtime import ModelFiles, Options

    files = ModelFiles("gguf", {"model": Path(request.subject)})
    with LlamaCpp().open(files, Options(precision="float32")) as session:
        return session.predict({"tokens": IDS})["logits"][0]


def of_family(name, **more):
    """The metadata of the tiny model under another architecture's name."""
    own = {key: value for key, value in language_models.metadata().items() if key.startswith("llama.")}
    renamed = {key.replace("llama.", f"{name}.").replace(".", "__"): value for key, value in own.items()}
    gone = dict.fromkeys(key.replace(".", "__") for key in own)
    return {**gone, **renamed, "general__architecture": name, **more}


def test_it_computes_what_numpy_does(write):
    graph = GGUF.load(write())
    for one in (graph, canonical(graph)):
        np.testing.assert_allclose(logits(one), language_models.reference(IDS[0]), atol=2e-5)


def drawn(*shape, seed=3):
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def biases(seed=3):
    widths = {"attn_q": 32, "attn_k": 16, "attn_v": 16}
    layers = range(language_models.LAYERS)
    return {f"blk.{layer}.{name}.bias": drawn(width) for layer in layers for name, width in widths.items()}


def head_norms():
    names = [f"blk.{layer}.attn_{part}_norm.weight" for layer in range(language_models.LAYERS) for part in "qk"]
    return {name: 1 + drawn(8, seed=place) for place, name in enumerate(names)}


@pytest.mark.parametrize(
    "case",
    ["llama", "bias", "output", "rope_freqs", "linear", "qwen2", "qwen3"],
)
def test_it_computes_what_llamacpp_does(write, case):
    tensors, changed = {}, {}
    if case == "bias":
        tensors = biases()
    if case == "output":
        tensors = {"output.weight": drawn(language_models.VOCABULARY, language_models.WIDTH)}
    if case == "rope_freqs":
        tensors = {"rope_freqs.weight": np.array([1, 2, 4, 8], np.float32)}
    if case == "linear":
        changed = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": np.float32(4)}
    if case == "qwen2":
        tensors, changed = biases(), of_family("qwen2")
    if case == "qwen3":
        lengths = {f"qwen3__attention__{part}_length": np.uint32(8) for part in ("key", "value")}
        tensors, changed = head_norms(), of_family("qwen3", **lengths)
    request = write(tensors, **changed)
    np.testing.assert_allclose(logits(GGUF.load(request)), runs_in_llamacpp(request), atol=3e-5)


def test_parameters_and_types_are_those_of_the_file(write):
    graph = GGUF.load(replace(write(), weights=False))
    assert graph.parameters == sum(values.size for values in language_models.weights().values())
    assert graph.facts["tensor_types"]["blk.1.ffn_up.weight"] == "F32"
    assert not graph.weights
    products = 9 * sum(values.size for name, values in language_models.weights().items() if "norm" not in name)
    attention = language_models.LAYERS * 2 * 9 * 9 * 32
    assert cost(canonical(graph)).macs == products + attention


def test_a_text_has_128_tokens_unless_the_context_is_shorter(write):
    assert GGUF.load(replace(write(), extents={})).inputs[0].shape == (1, 128)
    short = write(llama__context_length=np.uint32(5))
    assert GGUF.load(replace(short, extents={})).inputs[0].shape == (1, 5)
    with pytest.raises(ModelError, match="at most 5 tokens; got 9"):
        GGUF.load(short)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"general__architecture": "gemma3"}, "the architecture 'gemma3', whose structure is not known"),
        ({"general__architecture": None}, "the architecture ''"),
        ({"llama__expert_count": np.uint32(8)}, "the setting llama.expert_count"),
        ({"llama__logit_scale": np.float32(2)}, "the setting llama.logit_scale"),
        ({"llama__attention__causal": np.bool_(False)}, "see later ones"),
        ({"llama__block_count": np.uint32(1)}, "the tensor 'blk.1.attn_k.weight', which a llama .* and 8 more"),
        ({"llama__block_count": np.uint32(3)}, "lacks the tensor 'blk.2.attn_norm.weight'"),
        ({"llama__block_count": np.uint32(1 << 31)}, "2,147,483,648 blocks for 20 tensors"),
        ({"llama__block_count": np.uint32(0)}, "0 blocks for 20 tensors"),
        ({"llama__embedding_length": None}, "llama.embedding_length, or an impossible one"),
        ({"llama__feed_forward_length": np.uint32(47)}, "is 48×32; its settings make it 47×32"),
        ({"llama__attention__head_count": np.uint32(3)}, "heads of 10 numbers and llama.rope.dimension_count 8"),
        ({"llama__attention__head_count": np.uint32(2**31)}, "heads of 0 numbers"),
        ({"llama__attention__head_count_kv": np.uint32(3)}, "4 heads, which cannot share 3"),
        ({"llama__attention__head_count": "four"}, "is not a whole number"),
        ({"llama__attention__layer_norm_rms_epsilon": np.float32("nan")}, "layer_norm_rms_epsilon, or an impossible"),
        ({"llama__rope__dimension_count": np.uint32(4)}, "heads of 8 numbers and llama.rope.dimension_count 4"),
        ({"llama__rope__scaling__type": "yarn"}, "by the rule 'yarn'"),
    ],
)
def test_what_is_not_known_is_refused(write, changed, told):
    with pytest.raises(ModelError, match=told) as caught:
        GGUF.load(write(**changed))
    assert "\n" not in str(caught.value)


def test_a_tensor_too_many_is_refused(write):
    with pytest.raises(ModelError, match=r"'blk.0.ffn_gate_inp.weight', which a llama"):
        GGUF.load(write({"blk.0.ffn_gate_inp.weight": drawn(8, 32)}))


def test_it_is_read_in_a_sandbox(write):
    request = replace(write(), weights=False)
    (done,) = export_locally([ExportJob("x", "zoolens.findings.graph.importers.gguf:GGUF", request)])
    assert done.error is None
    assert done.graph.parameters == GGUF.load(request).parameters


def test_a_model_of_transformers_is_the_same_network(write):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from zoolens.findings.graph.diff.report import diff
    from zoolens.findings.graph.importers.torch import TRANSFORMERS

    own = language_models
    sizes = {
        "vocab_size": own.VOCABULARY, "hidden_size": own.WIDTH, "intermediate_size": own.INNER,
        "num_hidden_layers": own.LAYERS, "num_attention_heads": own.HEADS, "num_key_value_heads": own.KEY_HEADS,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "max_position_embeddings": own.CONTEXT,
    }  # fmt: skip
    theirs = canonical(TRANSFORMERS.load(Request("LlamaForCausalLM", arguments=sizes)))
    ours = canonical(GGUF.load(replace(write(), weights=False, extents={})))
    assert diff(ours, theirs).same
    sizes["rope_parameters"] = {"rope_type": "default", "rope_theta": 500.0}
    other = canonical(TRANSFORMERS.load(Request("LlamaForCausalLM", arguments=sizes)))
    compared = diff(ours, other, names=("A", "B"))
    assert "rotary positions turn by the base 500 in B instead of the base 10,000 in A" in compared.differences[0].text
