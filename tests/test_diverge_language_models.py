"""Two stacks of one language model: a fault is found in the layer that has it, and an honest pair is the same."""

import numpy as np
import pytest
from scripts.copy_language_model import copies, onnx_folder, transformers_folder

from zoolens.base.errors import ModelError
from zoolens.base.verdicts import Outcome
from zoolens.findings.divergence.divergence_causes import Kind
from zoolens.findings.divergence.divergence_words import lines
from zoolens.findings.divergence.diverging import diverge
from zoolens.findings.graph.structures.weighted_graph import raw_graph
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.language_models import language_model
from zoolens.inventory.zoos.zoo import Entry, Weights
from zoolens.testing import language_models

pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

pytestmark = pytest.mark.usefixtures("trusted_models")

FLOAT32 = "llamacpp:precision=float32"


def permuted():
    held = language_models.weights()["blk.1.ffn_up.weight"]
    return {"blk.1.ffn_up.weight": np.ascontiguousarray(held[::-1])}


FAULTS = {
    "rope": ({"llama.rope.freq_base": np.float32(500)}, {}, "blk.0.rope_"),
    "epsilon": ({"llama.attention.layer_norm_rms_epsilon": np.float32(1e-3)}, {}, "blk.0.attn_norm"),
    "permuted": ({}, permuted(), "blk.1.ffn_up"),
}


# The first layer in the order of computation whose exact values differ.
FIRST = {
    "rope": "model.layers.0.self_attn (mul)",
    "epsilon": "model.layers.0.input_layernorm (rms_norm)",
    "permuted": "model.layers.1.mlp.up_proj (dense)",
}


@pytest.fixture
def model(tmp_path):
    """Writes a GGUF file with other settings and tensors, and names it."""

    def write(name, settings=None, tensors=None):
        path = tmp_path / f"{name}.gguf"
        entries = language_models.metadata() | (settings or {})
        path.write_bytes(language_models.gguf_bytes(entries, language_models.weights() | (tensors or {})))
        return path

    return write


def compared(a, b):
    return diverge(a, b, "demo:passages", limit=1)


@pytest.mark.parametrize(
    "fault", ["permuted", *(pytest.param(fault, marks=pytest.mark.slow) for fault in ("rope", "epsilon"))]
)
def test_what_differs_between_two_files_is_named(model, fault):
    settings, tensors, place = FAULTS[fault]
    other = model(fault, settings, tensors)
    found = compared(f"{model('honest')}@{FLOAT32}", f"{other}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert all(cause.proved for cause in found.causes)
    assert place in found.causes[0].words


def test_a_token_in_front_is_named(model):
    begun = model("begun", {"tokenizer.ggml.add_bos_token": np.bool_(True)})
    found = compared(f"{model('honest')}@{FLOAT32}", f"{begun}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.DIFFERENT
    (cause,) = found.causes
    assert cause.kind is Kind.PREPROCESSING
    assert cause.proved
    assert f"from token 1 on (51 in A, {language_models.VOCABULARY - 2} in B)" in cause.words
    assert "without that one token, B's are the same as A's" in cause.words
    assert any("have other shapes" in line for line in lines(found))


@pytest.fixture
def in_torch(model, tmp_path):
    """The honest model as a folder of transformers, with its manifest."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = transformers_folder(model("honest"), tmp_path / "folder", "float32")
    manifest = folder / "model.yaml"
    manifest.write_text(language_model(folder / "model.safetensors").model_dump_json(exclude_none=True))
    return f"{manifest}@torch"


def test_a_network_that_takes_a_mask_too_is_not_traced_without_it(model, tmp_path):
    folder = transformers_folder(model("honest"), tmp_path / "folder", "float32")
    manifest = language_model(folder / "model.safetensors")
    entry = Entry("file", manifest, Weights.PRESENT, folder)
    with pytest.raises(ModelError, match="takes 2 inputs"):
        raw_graph(entry, manifest.assets[0], {"input_ids": (1, 4), "attention_mask": (1, 4)})


@pytest.fixture
def in_onnx(model, tmp_path):
    """The honest model in ONNX with past keys and values, with its manifest."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = onnx_folder(model("honest"), tmp_path / "onnx")
    manifest = folder / "model.yaml"
    manifest.write_text(draft_manifest(folder / "model.onnx").model_dump_json(exclude_none=True))
    return f"{manifest}@onnxruntime"


@pytest.mark.slow  # two runtimes
def test_a_copy_in_onnx_is_the_same(in_onnx, model):
    found = compared(in_onnx, f"{model('honest')}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.SAME
    assert not found.causes


@pytest.mark.slow  # two runtimes
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("rope", "rotary positions turn by the base 10,000 → the base 500"),
        ("epsilon", "epsilon 1e-05 → 0.001"),
        ("permuted", "kernel holds the same numbers in another order"),
    ],
)
def test_what_a_file_says_otherwise_than_its_copy_in_onnx_is_named(in_onnx, model, fault, told):
    settings, tensors, _ = FAULTS[fault]
    found = compared(in_onnx, f"{model(fault, settings, tensors)}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert all(cause.proved for cause in found.causes)
    assert told in found.causes[0].words


@pytest.mark.slow  # transformers and llama.cpp, several times
def test_an_honest_pair_of_stacks_is_the_same(in_torch, model):
    found = compared(in_torch, f"{model('honest')}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.SAME
    assert not found.causes
    shown = [fact.layer for fact in found.layers if fact.layer.a is not None]
    assert len(shown) > 25 * language_models.LAYERS
    assert not any(layer.faulty for layer in shown)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "kind", "place"),
    [
        ("rope", Kind.WEIGHTS, "model.layers.0.self_attn"),
        ("epsilon", Kind.STRUCTURE, "model.layers.0.input_layernorm (rms_norm): epsilon 1e-05 → 0.001"),
        (
            "permuted",
            Kind.WEIGHTS,
            "model.layers.1.mlp.up_proj (dense): kernel holds the same numbers in another order",
        ),
    ],
)
def test_what_a_file_says_otherwise_than_a_folder_is_named(in_torch, model, fault, kind, place):
    settings, tensors, _ = FAULTS[fault]
    found = compared(in_torch, f"{model(fault, settings, tensors)}@{FLOAT32}")
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert {cause.kind for cause in found.causes} == {kind}
    assert all(cause.proved for cause in found.causes)
    assert place in found.causes[0].words
    first = next(fact for fact in found.layers if fact.layer.files_beyond)
    assert first.label.startswith(FIRST[fault])
    assert any(f"first differ at {first.label}" in line for line in lines(found))
    assert any("llamacpp does not show the tensors inside a model" in line for line in lines(found))


@pytest.mark.slow
def test_quantisation_is_named_with_what_it_costs(in_torch, model, tmp_path):
    (quantised,) = copies(model("honest"), tmp_path / "copies", ["Q4_0"])
    found = compared(in_torch, f"{quantised}@llamacpp")
    cause = found.causes[0]
    assert (cause.kind, cause.proved) == (Kind.QUANTISATION, True)
    assert "13 of 20 tensors (81.6 % of the numbers), rounded to Q8_0 and Q4_0" in cause.words
    assert "other weights in 14 of 21 layers" in cause.words
    assert "model.layers.*.self_attn.v_proj (dense)" in cause.words
    assert sum(fact.in_trunk for fact in found.layers) == 2 * language_models.LAYERS


@pytest.mark.slow
def test_another_rotation_is_not_taken_for_quantisation(in_torch, model, tmp_path):
    (quantised,) = copies(model("turned", FAULTS["rope"][0]), tmp_path / "copies", ["Q4_0"])
    found = compared(in_torch, f"{quantised}@llamacpp")
    cosines, sines, weights = found.causes[:3]
    for rotation in (cosines, sines):
        assert (rotation.kind, rotation.proved) == (Kind.WEIGHTS, True)
        assert "in B blk.0.rope_" in rotation.words
    assert weights.kind is Kind.QUANTISATION
