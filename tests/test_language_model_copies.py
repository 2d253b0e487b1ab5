"""Copies of a language model are the same network in other types."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scripts.copy_language_model import copies, off_grid, onnx_folder, transformers_folder

from zoolens.base.errors import ModelError
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.runtimes.llamacpp.gguf_copy import copy_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.inventory.runtimes.llamacpp.gguf_values import tensor_values
from zoolens.testing import language_models

IDS = list(range(9))
# Half of the largest step of a block in its type, by the largest number of the block; float16 rounds a step as well.
WORST = {"F32": 0, "F16": 2**-11, "BF16": 2**-8, "Q8_0": 0.57 / 127, "Q5_0": 1.01 / 16, "Q5_1": 1.01 / 31,
         "Q4_0": 1.01 / 8, "Q4_1": 1.01 / 15}  # fmt: skip


@pytest.fixture
def source(tmp_path) -> Path:
    return language_models.gguf(tmp_path).path()


def values_of(path: Path) -> dict:
    return {tensor.name: tensor_values(path, tensor) for tensor in read_gguf(path).tensors}


def test_every_type_rounds_as_it_should_and_no_more(source, tmp_path):
    pytest.importorskip("gguf")
    original = language_models.weights()
    errors = {}
    for path in copies(source, tmp_path / "copies"):
        file = read_gguf(path)
        types = {tensor.name: tensor.type.name for tensor in file.tensors}
        # Rows of 48 numbers are no whole blocks of 32.
        blocks = path.stem not in ("F32", "F16", "BF16")
        assert types["blk.0.ffn_down.weight"] == ("F32" if blocks else path.stem)
        assert types["token_embd.weight"] == ("Q8_0" if blocks else path.stem)
        assert types["blk.1.ffn_norm.weight"] == "F32"
        assert types["blk.1.attn_q.weight"] == path.stem
        name = "blk.1.attn_q.weight"
        rounded = values_of(path)[name]
        largest = np.abs(original[name]).max(axis=1, keepdims=True)
        assert (np.abs(rounded - original[name]) <= WORST[path.stem] * largest).all()
        errors[path.stem] = float(np.square(rounded - original[name]).mean())
    assert sorted(errors, key=errors.get)[:4] == ["F32", "F16", "BF16", "Q8_0"]
    assert errors["Q5_1"] < errors["Q4_1"] < errors["Q4_0"]


def test_metadata_stay_but_for_the_type_of_the_file(source, tmp_path):
    pytest.importorskip("gguf")
    (path,) = copies(source, tmp_path / "copies", ["Q8_0"])
    before, after = read_gguf(source).metadata, read_gguf(path).metadata
    assert after["general.file_type"] == 7
    assert {key: after[key] for key in after if np.ndim(after[key]) == 0 and key != "general.file_type"} == {
        key: before[key] for key in before if np.ndim(before[key]) == 0 and key != "general.file_type"
    }
    assert after["tokenizer.ggml.tokens"] == before["tokenizer.ggml.tokens"]


def test_the_network_off_the_grid_computes_the_same_from_other_numbers(source, tmp_path):
    moved = values_of(off_grid(source, tmp_path / "reference.gguf"))
    original = language_models.weights()
    answers = [language_models.reference(IDS, tensors) for tensors in (original, moved)]
    np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)
    assert (moved["blk.0.ffn_norm.weight"] == 1).all()
    for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        name = f"blk.0.{name}.weight"
        assert np.isclose(moved[name], original[name], rtol=1e-3).mean() < 0.05


def test_what_cannot_be_written_is_refused(source, tmp_path):
    with pytest.raises(ModelError, match="no whole blocks of Q8_0"):
        copy_gguf(source, tmp_path / "x.gguf", lambda _: "Q8_0")
    with pytest.raises(ModelError, match="no type 'Q9'"):
        copy_gguf(source, tmp_path / "x.gguf", lambda _: "Q9")
    pytest.importorskip("gguf")
    with pytest.raises(ModelError, match="no whole blocks of Q1_0"):
        copy_gguf(source, tmp_path / "x.gguf", lambda _: "Q1_0")
    assert not (tmp_path / "x.gguf").exists()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_folder_of_transformers_is_the_same_network(source, tmp_path, dtype):
    torch = pytest.importorskip("torch")
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    import_torchvision()
    transformers = pytest.importorskip("transformers")
    changed = language_models.gguf(tmp_path, name="other.gguf", llama__rope__freq_base=np.float32(70000)).path()
    for path in (source, changed):
        folder = transformers_folder(path, tmp_path / f"{path.stem}-{dtype}", dtype)
        assert json.loads((folder / "tokenizer.json").read_text())["model"]["type"] == "BPE"
        model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            answer = model(torch.tensor([IDS])).logits[0].numpy()
        if path is source:
            tolerance = 2e-5 if dtype == "float32" else 0.2
            np.testing.assert_allclose(answer, language_models.reference(IDS), atol=tolerance)
        else:
            assert np.abs(answer - language_models.reference(IDS)).max() > 1e-3


def test_the_onnx_folder_is_the_same_network_and_says_how_it_is_fed(source, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    folder = onnx_folder(source, tmp_path / "onnx")
    model = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    none = {spec.name: np.zeros((1, 2, 0, 8), np.float32) for spec in model.get_inputs() if "past" in spec.name}
    ids = np.array([IDS])
    (answer,) = model.run(["logits"], {"input_ids": ids, "attention_mask": ids * 0 + 1, "position_ids": ids, **none})
    np.testing.assert_allclose(answer[0], language_models.reference(IDS), atol=2e-5)
    manifest = draft_manifest(folder / "model.onnx")
    (given,), (made,) = manifest.inputs, manifest.outputs
    assert (given.name, made.name, made.task) == ("input_ids", "logits", "language-model")
    tokenizer = given.tokenizer
    assert (tokenizer.max_length, tokenizer.padding, tokenizer.vocabulary) == (600, "none", 64)
    assert tokenizer.tensors.names == {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    assert tokenizer.end_ids == (63,)
    words = [word.decode() for word in read_gguf(source).texts("tokenizer.ggml.tokens")]
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert settings["eos_token"] == words[63]
    assert settings.get("chat_template") == read_gguf(source).text("tokenizer.chat_template")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 131072}))
    assert draft_manifest(folder / "model.onnx").inputs[0].tokenizer.max_length == 4096


def test_what_onnx_cannot_hold_is_refused(tmp_path):
    scaled = language_models.gguf(tmp_path, llama__rope__scaling__type="linear").path()
    with pytest.raises(ModelError, match="no llama with positions as they are"):
        onnx_folder(scaled, tmp_path / "onnx")
