"""Sequences that networks of transformers continue answer as the whole forward does."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError, UnsupportedAbility
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.runtimes.isolation.isolated import open_isolated
from zoolens.inventory.runtimes.runtime import ModelFiles, Options, TensorSpec
from zoolens.inventory.runtimes.torch import torch_sequences
from zoolens.inventory.runtimes.torch.torch_runtime import Torch
from zoolens.testing import models

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LLAMA = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.4,
}  # fmt: skip
GPT2 = {"vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "initializer_range": 0.4}
LONGROPE = {
    **LLAMA, "max_position_embeddings": 32,
    "rope_parameters": {
        "rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 8, "factor": 4.0,
        "short_factor": [1.0, 1.0], "long_factor": [3.0, 9.0],
    },
}  # fmt: skip
MISTRAL = {**LLAMA, "sliding_window": 8}
BERT = {**LLAMA, "max_position_embeddings": 64, "type_vocab_size": 1}
del BERT["num_key_value_heads"]


def files(folder, name="LlamaForCausalLM", settings=LLAMA):
    # transformers imports it where it is installed.
    import_torchvision(with_compiler=False)
    torch.manual_seed(3)
    kind = getattr(transformers, name)
    path = folder / "model.pt"
    torch.save(kind(kind.config_class(**settings)).state_dict(), path)
    return ModelFiles(
        "torch-state-dict",
        {"model": path},
        architecture={"library": "transformers", "name": name, "arguments": settings},
        inputs=(TensorSpec("input_ids", (None, None), "int64"),),
        outputs=(TensorSpec("logits", (None, None, None), "float32"),),
    )


def ids(count, rows=1, seed=0):
    return np.random.default_rng(seed).integers(0, 40, (rows, count))


def after(session, texts):
    """Log-probabilities of the token after whole texts."""
    logits = session.predict({"input_ids": np.asarray(texts, np.int64)})
    return torch.log_softmax(torch.from_numpy(logits["logits"][:, -1]), -1).numpy()


@pytest.mark.parametrize(
    ("name", "settings"), [("LlamaForCausalLM", LLAMA), ("GPT2LMHeadModel", GPT2), ("MistralForCausalLM", MISTRAL)]
)
def test_a_sequence_is_continued_as_the_whole_forward_answers(tmp_path, name, settings):
    texts = ids(40, rows=3)
    with Torch().open(files(tmp_path, name, settings)) as session:
        np.testing.assert_allclose(session.extend(texts[:, :7]), after(session, texts[:, :7]), atol=2e-5)
        for end in range(8, 31):
            found = session.extend(texts[:, end - 1 : end])
        np.testing.assert_allclose(found, after(session, texts[:, :30]), atol=2e-5)
        other = np.concatenate([texts[:, :12], ids(9, rows=3, seed=4)], axis=1)
        np.testing.assert_allclose(session.extend(other[:, 12:], 12), after(session, other), atol=2e-5)
        np.testing.assert_allclose(session.extend(texts[:1], 0), after(session, texts[:1]), atol=2e-5)


@pytest.mark.parametrize("pieces", [False, True])
def test_keys_are_computed_anew_where_longrope_changes_its_factors(tmp_path, monkeypatch, pieces):
    text = ids(14, rows=2)
    monkeypatch.setattr(torch_sequences, "_PIECE", 4)
    with Torch().open(files(tmp_path, settings=LONGROPE)) as session:
        session.extend(text[:, :6])
        session._sequences._whole = not pieces
        for end in range(7, 15):
            np.testing.assert_allclose(session.extend(text[:, end - 1 : end]), after(session, text[:, :end]), atol=2e-5)
        np.testing.assert_allclose(session.extend(text[:, 5:7], 5), after(session, text[:, :7]), atol=2e-5)
        np.testing.assert_allclose(session.extend(text[:, 7:], 7), after(session, text), atol=2e-5)


def without_token(session):
    """The network rules one token out."""

    def rule_out(module, given, answer):
        answer.logits[..., 5] = -torch.inf

    session._module.register_forward_hook(rule_out)


def test_tokens_may_be_ruled_out(tmp_path):
    with Torch().open(files(tmp_path)) as session:
        without_token(session)
        found = session.extend(ids(5))
        np.testing.assert_allclose(found, after(session, ids(5)), atol=2e-5)
        assert np.isneginf(found[:, 5]).all()
    made = files(tmp_path, settings={**LLAMA, "is_causal": False})
    with Torch().open(made) as session:
        without_token(session)
        with pytest.raises(UnsupportedAbility, match="nats from those without"):
            session.extend(ids(4))


def test_tokens_that_stay_are_not_computed_again(tmp_path):
    with Torch().open(files(tmp_path)) as session:
        session.extend(ids(20))
        computed, forward = [], session._module.forward
        session._module.forward = lambda **given: computed.append(given["input_ids"].shape[1]) or forward(**given)
        session.extend(ids(2), 12)
        session.extend(ids(1))
        session.extend(ids(3), 14)
    assert computed == [2, 1, 3]


def test_a_long_text_is_computed_in_pieces(tmp_path, monkeypatch):
    text = ids(30, rows=2)
    with Torch().open(files(tmp_path)) as session:
        whole = session.extend(text)
        session._sequences._whole = False
        computed, forward = [], session._module.forward
        session._module.forward = lambda **given: computed.append(given["input_ids"].shape[1]) or forward(**given)
        monkeypatch.setattr(torch_sequences, "_PIECE", 24)
        np.testing.assert_allclose(session.extend(text, 0), whole, atol=2e-5)
    assert computed == [12, 12, 6]


def test_a_cache_that_broke_while_it_was_cut_is_made_anew(tmp_path):
    text = ids(20)
    with Torch().open(files(tmp_path)) as session:
        session.extend(text)

        def crop(count):
            raise RuntimeError("torn")

        session._sequences._keys.cache.crop = crop
        with pytest.raises(Exception, match="torn"):
            session.extend(text[:, 12:14], 12)
        np.testing.assert_allclose(session.extend(text[:, 12:14], 12), after(session, text[:, :14]), atol=2e-5)


@pytest.mark.parametrize(
    ("given", "kept", "words"),
    [([[40]], None, "id 40"), ([[0] * 61], None, "would have 65 tokens"), ([[0]], 5, "cannot stay")],
)
def test_tokens_that_cannot_follow_are_explained_and_change_nothing(tmp_path, given, kept, words):
    text = ids(5)
    with Torch().open(files(tmp_path)) as session:
        session.extend(text[:, :4])
        with pytest.raises(ModelError, match=words):
            session.extend(np.array(given), kept)
        np.testing.assert_allclose(session.extend(text[:, 4:]), after(session, text), atol=2e-5)


def test_networks_of_masked_tokens_are_refused(tmp_path):
    with (
        Torch().open(files(tmp_path, "BertLMHeadModel", BERT)) as session,
        pytest.raises(UnsupportedAbility, match="it keeps no keys and values"),
    ):
        session.extend(ids(4))


def test_other_networks_are_refused_in_a_worker_too(tmp_path):
    with (
        open_isolated("torch", models.torchscript(tmp_path)) as session,
        pytest.raises(UnsupportedAbility, match="only language models that transformers builds"),
    ):
        session.extend(ids(4))


@pytest.mark.slow  # torch and transformers in another process; llama.cpp is continued in one, too
def test_a_sequence_is_continued_in_a_worker(tmp_path):
    text = ids(9)
    with open_isolated("torch", files(tmp_path), Options(threads=1)) as session:
        session.extend(text[:, :5])
        np.testing.assert_allclose(session.extend(text[:, 5:]), after(session, text), atol=2e-5)


def test_networks_that_see_later_tokens_are_refused(tmp_path):
    made = files(tmp_path, settings={**LLAMA, "is_causal": False})
    with Torch().open(made) as session, pytest.raises(UnsupportedAbility, match="nats from those without"):
        session.extend(ids(4))


def test_a_profiled_continuation_reads_only_the_new_tokens(tmp_path):
    text = ids(8)
    with Torch().open(files(tmp_path)) as session:
        profiles = [session.profile_extend(text[:, :end], kept, 2) for end, kept in ((7, 0), (8, 7))]
        np.testing.assert_allclose(session.extend(text[:, 7:], 7), after(session, text), atol=2e-5)
    for calls, new in zip(profiles, (7, 1), strict=True):
        assert len(calls) == 2
        layers = [{operator.name: operator for operator in call.operators} for call in calls]
        assert layers[0].keys() == layers[1].keys()
        assert layers[0]["model.layers.1.self_attn.q_proj"].shapes == ((1, new, 16),)
        assert layers[0]["lm_head"].shapes == ((1, 1, 40),), "the last token alone is asked for"
