"""Weights of language models in folders of transformers: their drafts, what is refused, and what they answer."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.language_models import language_model
from zoolens.inventory.manifests.locations import resolve_asset
from zoolens.testing.text_models import write_tokenizer

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "vocab_size": 40,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.1",
    "_name_or_path": "somebody/some-model",
}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "small-model"
    place.mkdir()
    write_tokenizer(place / "tokenizer.json")
    (place / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    return place


def drafted(folder, **changed):
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changed}))
    return draft_manifest(folder / "model.safetensors")


def test_the_network_is_built_from_its_configuration_alone(folder):
    manifest = drafted(folder)
    (asset,), (taken,), (given,) = manifest.assets, manifest.inputs, manifest.outputs
    assert (manifest.name, given.task) == ("small-model", "language-model")
    assert (asset.architecture.library, asset.architecture.name) == ("transformers", "LlamaForCausalLM")
    assert asset.architecture.arguments["hidden_size"] == 16
    assert not {"_name_or_path", "torch_dtype", "architectures"} & set(asset.architecture.arguments)
    assert {file.role for file in asset.files} == {"model", "tokenizer"}
    assert (taken.tokenizer.max_length, taken.tokenizer.vocabulary, taken.tokenizer.padding) == (64, 40, "none")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"quantization_config": {"bits": 4}}, "quantised by another library"),
        ({"auto_map": {"AutoModel": "code.Mine"}}, "built by code of its own"),
        ({"architectures": ["LlamaModel"]}, "holds weights only"),
        ({"vocab_size": None}, "how many ids the model knows"),
    ],
)
def test_what_cannot_be_built_is_refused(folder, changed, says):
    with pytest.raises(ModelError, match=says):
        drafted(folder, **changed)


def test_the_chat_template_lies_in_a_file_of_its_own_or_among_the_settings(folder):
    assert drafted(folder).inputs[0].tokenizer.chat_template is None
    named = [{"name": "tools", "template": "T"}, {"name": "default", "template": "D"}]
    settings = {"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": None, "chat_template": named}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    declared = drafted(folder).inputs[0].tokenizer.chat_template
    assert (declared.template, declared.tokens) == ("D", {"bos_token": "<s>", "eos_token": "</s>"})
    (folder / "chat_template.jinja").write_text("{{ own }}\n")
    assert drafted(folder).inputs[0].tokenizer.chat_template.template == "{{ own }}\n"
    (folder / "chat_template.jinja").write_text("x" * 300_000)
    with pytest.raises(ModelError, match="longer than 262,144 characters"):
        drafted(folder)


def test_the_tokens_that_end_an_answer(folder):
    def ends(**changed):
        return drafted(folder, **changed).inputs[0].tokenizer.end_ids

    assert ends() is None
    assert ends(eos_token_id=3) == (3,)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 99, "6", 7]}))
    assert ends(eos_token_id=3) == (5, 7)


def test_a_folder_without_a_tokenizer_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="without which no text becomes numbers"):
        drafted(folder)


def test_a_tokenizer_with_more_ids_than_the_model_is_doubted(folder):
    highest = max(json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"].values())
    doubt = "it may be the tokenizer of another model"
    assert doubt not in drafted(folder, vocab_size=highest + 1).description
    said = drafted(folder, vocab_size=highest).description
    assert f"has ids up to {highest}, and the model knows 0 to {highest - 1}: {doubt}" in said


def test_files_in_the_cache_of_the_hub_are_links_to_files_called_by_digests(folder, tmp_path):
    (folder / "config.json").write_text(json.dumps(CONFIG))
    cache = tmp_path / "models--some--small-1B"
    snapshot, blobs = cache / "snapshots" / "0123abcd", cache / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for place, file in enumerate(sorted(folder.iterdir())):
        file.rename(blobs / f"9f8e{place}")
        (snapshot / file.name).symlink_to(f"../../blobs/9f8e{place}")
    manifest = draft_manifest(snapshot / "model.safetensors")
    assert manifest.name == "small-1B"
    locations = {file.role: file.location for file in manifest.assets[0].files}
    assert locations == {
        "model": f"file://{snapshot}/model.safetensors",
        "tokenizer": f"file://{snapshot}/tokenizer.json",
    }
    found = resolve_asset(manifest.assets[0], snapshot, fetch=False)
    assert {path.name for path in found.values()} == {"model.safetensors", "tokenizer.json"}


def test_other_weights_are_none_of_a_language_model(tmp_path):
    (tmp_path / "model.safetensors").touch()
    assert language_model(tmp_path / "model.safetensors") is None


@pytest.mark.slow
@pytest.mark.skipif(not (find_spec("transformers") and find_spec("torch")), reason="needs torch and transformers")
def test_weights_answer_as_in_transformers(folder):
    from zoolens.inventory.frameworks.torchvision_shim import import_torchvision

    import_torchvision(with_compiler=False)
    import torch
    import transformers

    from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
    from zoolens.inventory.runtimes.torch.torch_runtime import Torch

    torch.manual_seed(0)
    config = {key: value for key, value in CONFIG.items() if not key.startswith(("_", "torch_dtype"))}
    network = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    network.save_pretrained(folder)
    write_tokenizer(folder / "tokenizer.json")
    built = draft_manifest(folder / "model.safetensors").assets[0].architecture.model_dump()
    ids = np.array([[3, 7, 1, 12]])
    spec = TensorSpec("input_ids", (None, None), "int64")
    files = ModelFiles("torch-state-dict", {"model": folder / "model.safetensors"}, built, (spec,))
    with Torch().open(files, Options()) as session:
        answers = session.predict({"input_ids": ids})
    (given,) = answers.values()
    with torch.no_grad():
        np.testing.assert_array_equal(given, network(torch.tensor(ids)).logits.numpy())
    with pytest.raises(ModelError, match="has no network 'LlamaTokenizer'"):
        Torch().open(replace(files, architecture={**built, "name": "LlamaTokenizer"}), Options())
