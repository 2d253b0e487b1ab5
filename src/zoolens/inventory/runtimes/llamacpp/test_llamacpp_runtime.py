"""llama.cpp keeps the contract, and its logits are those that numpy computes."""

from __future__ import annotations

import numpy as np
import pytest

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.isolation.isolated import open_model
from zoolens.inventory.runtimes.llamacpp.llama_library import llama_library
from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
from zoolens.inventory.runtimes.runtime import ModelFiles, Options
from zoolens.testing import language_models
from zoolens.testing.runtime_contract import RuntimeContract

pytest.importorskip("xllamacpp")


def ids(count, *, batch=1, seed=0):
    return np.random.default_rng(seed).integers(0, language_models.VOCABULARY, (batch, count), dtype=np.int32)


class TestLlamaCpp(RuntimeContract):
    runtime_class = LlamaCpp

    def model(self, tmp_path):
        return language_models.gguf(tmp_path)

    @staticmethod
    def feeds(session, batch=None, seed=0):
        if session.inputs[0].dtype != "int32":
            return RuntimeContract.feeds(session, batch, seed)
        return {"tokens": ids(9, batch=batch or 1, seed=seed)}

    @staticmethod
    def other_shape(array):
        # One token more would be another text.
        return np.zeros((*array.shape, 1), array.dtype)


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    with LlamaCpp().open(
        language_models.gguf(tmp_path_factory.mktemp("exact")), Options(precision="float32")
    ) as session:
        yield session


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    with LlamaCpp().open(language_models.gguf(tmp_path_factory.mktemp("default"))) as session:
        yield session


@pytest.mark.parametrize("count", [1, 2, 33, 513])
def test_logits_at_every_position_are_those_of_numpy(exact, count):
    text = ids(count, seed=count)
    (answer,) = exact.predict({"tokens": text})["logits"]
    np.testing.assert_allclose(answer, language_models.reference(text[0]), atol=2e-5)


def test_a_cache_in_float16_is_near(session):
    text = ids(40)
    difference = session.predict({"tokens": text})["logits"][0] - language_models.reference(text[0])
    assert 1e-6 < np.abs(difference).max() < 2e-2
    assert session.effective().precision == "float32+float16"


def test_a_text_is_computed_from_an_empty_cache(session):
    """Whatever came before, also where it needed a larger context."""
    text, long = ids(30), ids(600, seed=3)
    first = session.predict({"tokens": text})["logits"]
    for other in (long, long[:, :1]):
        session.predict({"tokens": other})
        np.testing.assert_array_equal(session.predict({"tokens": text})["logits"], first)


def test_rows_of_a_batch_are_texts_of_their_own(session):
    texts = ids(12, batch=3)
    together = session.predict({"tokens": texts})["logits"]
    alone = [session.predict({"tokens": texts[place : place + 1]})["logits"][0] for place in range(3)]
    np.testing.assert_array_equal(together, np.stack(alone))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.array([[1, 64]], np.int32), "id 64"),
        (np.array([[1, -1]], np.int32), "id -1"),
        (np.zeros((1, 601), np.int32), "601 tokens"),
        (np.zeros((1, 0), np.int32), "without tokens"),
        (np.zeros((40_000, 600), np.int32), "would take"),
    ],
)
def test_texts_that_the_model_cannot_take_are_explained(session, given, words):
    with pytest.raises(ModelError, match=words):
        session.predict({"tokens": given})


def test_what_is_in_effect(session):
    effective = session.effective()
    assert effective.threads >= 1
    assert effective.details["weights"] == "20 F32"
    assert effective.details["context"] == "600"
    assert effective.details["cache"] == "float16"
    assert effective.details["llama.cpp"] == llama_library().version
    assert session.count_parameters() == sum(values.size for values in language_models.weights().values())


def test_a_closed_session_says_so(tmp_path):
    session = LlamaCpp().open(language_models.gguf(tmp_path))
    session.close()
    with pytest.raises(ModelError, match="closed"):
        session.predict({"tokens": ids(2)})


def test_an_architecture_that_llama_cpp_does_not_know(tmp_path):
    files = language_models.gguf(tmp_path, general__architecture="no-such-architecture")
    with pytest.raises(ModelError, match="no-such-architecture"):
        LlamaCpp().open(files)


def test_a_key_that_is_missing_is_named(tmp_path):
    files = language_models.gguf(tmp_path, llama__block_count=None)
    with pytest.raises(ModelError, match="block_count"):
        LlamaCpp().open(files)


def test_a_library_with_other_defaults_is_not_called(monkeypatch):
    library = llama_library()
    context = library._library.llama_context_default_params()
    context.key_type = 2
    monkeypatch.setattr(library._library, "llama_context_default_params", lambda: context)
    with pytest.raises(ModelError, match="C interface"):
        library._check_layout()


def test_it_runs_in_the_sandbox(tmp_path):
    text = ids(5)
    with open_model(LlamaCpp(), language_models.gguf(tmp_path), Options(threads=1)) as isolated:
        assert isolated.sandbox.startswith("landlock")
        (answer,) = isolated.predict({"tokens": text})["logits"]
    np.testing.assert_allclose(answer, language_models.reference(text[0]), atol=2e-2)
    assert isinstance(isolated.inputs, tuple)


def test_a_model_in_parts_is_refused(tmp_path):
    files = language_models.gguf(tmp_path, split__count=np.uint32(2))
    with pytest.raises(ModelError, match="was split"):
        LlamaCpp().open(ModelFiles("gguf", files.files))


def after(text):
    """Log-probabilities of the token after a text, by numpy."""
    logits = language_models.reference(text)[-1]
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def test_a_sequence_is_continued_as_numpy_computes_it(exact):
    text = ids(40)
    first = exact.extend(text[:, :9], 0)
    np.testing.assert_allclose(first[0], after(text[0, :9]), atol=2e-5)
    for end in range(10, 40):
        found = exact.extend(text[:, end - 1 : end])
    np.testing.assert_allclose(found[0], after(text[0, :39]), atol=2e-5)
    np.testing.assert_allclose(np.exp(found.astype(float)).sum(), 1, atol=1e-5)


def test_a_sequence_is_cut_and_goes_on_otherwise(exact):
    text, other = ids(40)[0], ids(40, seed=5)[0]
    exact.extend(text[None], 0)
    found = exact.extend(other[None, 20:30], 20)
    np.testing.assert_allclose(found[0], after([*text[:20], *other[20:30]]), atol=2e-5)


def test_a_sequence_outlives_other_texts_and_a_larger_context(exact):
    text = ids(600, seed=8)
    exact.extend(text[:, :400], 0)
    exact.predict({"tokens": ids(33)})
    np.testing.assert_allclose(exact.extend(text[:, 400:500])[0], after(text[0, :500]), atol=2e-5)
    np.testing.assert_allclose(exact.extend(text[:, 500:])[0], after(text[0]), atol=2e-5)


def test_several_sequences_are_continued_at_once(exact):
    texts = ids(200, batch=5, seed=2)
    exact.extend(texts[:, :150], 0)
    found = exact.extend(texts[:, 150:])
    for row, text in zip(found, texts, strict=True):
        np.testing.assert_allclose(row, after(text), atol=2e-5)
    np.testing.assert_allclose(exact.extend(texts[:1], 0)[0], after(texts[0]), atol=2e-5)


@pytest.mark.parametrize(
    ("given", "kept", "words"),
    [
        (np.array([[64]]), None, "id 64"),
        (np.array([[-1]]), None, "id -1"),
        (np.zeros((1, 600), int), None, "would have 604 tokens, and the context of tiny.gguf has 600"),
        (np.zeros((1, 0), int), None, "one token at least"),
        (np.zeros((2, 1), int), None, "1 sequences cannot be continued with 2 rows"),
        (np.zeros((1, 1), int), 5, "5 tokens cannot stay of a sequence of 4"),
        (np.zeros((65, 1), int), 0, "65 sequences"),
        (np.zeros(1, int), None, "rows × tokens"),
        (np.zeros((1, 1)), None, "whole numbers"),
    ],
)
def test_tokens_that_cannot_follow_are_explained_and_change_nothing(exact, given, kept, words):
    text = ids(5)
    exact.extend(text[:, :4], 0)
    with pytest.raises(ModelError, match=words):
        exact.extend(given, kept)
    np.testing.assert_allclose(exact.extend(text[:, 4:])[0], after(text[0]), atol=2e-5)


def test_a_sequence_is_continued_in_the_sandbox(tmp_path):
    text = ids(9)
    with open_model(LlamaCpp(), language_models.gguf(tmp_path), Options(threads=1, precision="float32")) as isolated:
        isolated.extend(text[:, :4], 0)
        np.testing.assert_allclose(isolated.extend(text[:, 4:])[0], after(text[0]), atol=2e-5)
        with pytest.raises(ModelError, match="id 99"):
            isolated.extend(np.array([[99]]))
