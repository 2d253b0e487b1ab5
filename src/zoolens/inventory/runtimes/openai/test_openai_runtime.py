"""The runtime keeps the contract in front of a real llama.cpp, and tells what llama.cpp's own library computes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.errors import ModelError, ZoolensError
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.runtimes.llamacpp.llamacpp_runtime import LlamaCpp
from zoolens.inventory.runtimes.openai.openai_runtime import OpenAi
from zoolens.inventory.runtimes.runtime import ModelFiles, TensorSpec
from zoolens.inventory.runtimes.runtime_names import runtime_named
from zoolens.inventory.tasks.scoring.next_tokens import kept_tokens
from zoolens.testing import language_models
from zoolens.testing.endpoint_server import Reply, answering
from zoolens.testing.llama_server import llama_server
from zoolens.testing.runtime_contract import RuntimeContract

pytest.importorskip("xllamacpp")

DECLARED = (TensorSpec("tokens", (None, None), "int32"),)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with llama_server(language_models.gguf(tmp_path_factory.mktemp("served")).path(), n_ctx=512) as address:
        yield address


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ZOOLENS_OPENAI_KEY", raising=False)


def manifest(*, top=5, vocabulary=language_models.VOCABULARY, task="language-model"):
    from zoolens.inventory.manifests.schema import Asset, Input, Manifest, Output
    from zoolens.inventory.manifests.tokenizer import Tokenizer

    tokenizer = Tokenizer(max_length=600, vocabulary=vocabulary, padding="none")
    step = {"op": "next_tokens", "top": top}
    return Manifest(
        name="tiny",
        version="1.0.0",
        inputs=(Input(name="tokens", modality="text", shape=(None, None), dtype="int32", tokenizer=tokenizer),),
        outputs=(Output.model_validate({"name": "logits", "task": task, "postprocess": [step]}),),
        assets=(
            Asset.model_validate(
                {"format": "gguf", "files": [{"location": "tiny.gguf"}, {"location": "tiny.json", "role": "tokenizer"}]}
            ),
        ),
    )


def files_of(runtime, **changed):
    asset = runtime.asset_of(manifest(**changed))
    path = Path(asset.files[0].location.removeprefix("file://"))
    return ModelFiles(asset.format, {"model": path}, inputs=DECLARED)


def ids(count, *, batch=1, seed=0):
    return np.random.default_rng(seed).integers(0, language_models.VOCABULARY, (batch, count), dtype=np.int32)


class TestOpenAi(RuntimeContract):
    runtime_class = OpenAi

    @pytest.fixture(autouse=True)
    def server(self, served):
        self.address = served

    @pytest.fixture
    def runtime(self):
        return OpenAi(self.address)

    def model(self, tmp_path):
        files = files_of(OpenAi(self.address))
        return replace(files, files={"model": Path(shutil.copy(files.path(), tmp_path / "endpoint.json"))})

    @staticmethod
    def feeds(session, batch=None, seed=0):
        if session.inputs[0].dtype != "int32":
            return RuntimeContract.feeds(session, batch, seed)
        return {"tokens": ids(5, batch=batch or 1, seed=seed)}

    @staticmethod
    def other_shape(array):
        return np.zeros((*array.shape, 1), array.dtype)


def test_what_is_kept_is_what_the_library_computes(served, tmp_path):
    """The log-probability of each following token and the most likely ones, to the rounding of a cache in float16."""
    text, top = ids(40), 5
    with OpenAi(served).open(files_of(OpenAi(served), top=top)) as session:
        told = session.predict({"tokens": text})["logits"][0]
    with LlamaCpp().open(language_models.gguf(tmp_path)) as session:
        own = session.predict({"tokens": text})["logits"][0]
    following = text[0, 1:].astype(np.int64)
    ours, theirs = (kept_tokens(scores[:-1], following, top) for scores in (own, told))
    np.testing.assert_allclose(theirs.true, ours.true, atol=5e-3)
    np.testing.assert_allclose(theirs.logs, ours.logs, atol=5e-3)
    assert (theirs.ids[:, 0] == ours.ids[:, 0]).mean() > 0.9
    np.testing.assert_allclose(np.exp(told.astype(np.float64)).sum(axis=1), 1, atol=1e-4)


def test_other_weights_under_the_same_name_are_another_model(served, tmp_path):
    first = files_of(OpenAi(served))
    assert files_of(OpenAi(served)).path() == first.path()
    with llama_server(language_models.gguf(tmp_path, seed=8).path(), n_ctx=512) as other:
        stranger = files_of(OpenAi(other)).path().read_text()
    answers = [text[text.index('"answers"') : text.index("]")] for text in (first.path().read_text(), stranger)]
    assert answers[0] != answers[1]


def test_a_model_that_was_replaced_is_noticed(served):
    files = files_of(OpenAi(served))
    files.path().write_text(files.path().read_text().replace('"vocabulary": 64', '"vocabulary": 63'))
    with pytest.raises(ModelError, match="is not the one"):
        OpenAi(served).open(files)


def test_it_is_named_with_its_address(served):
    assert runtime_named(f"openai:{served}").full_name == f"openai:{served}"
    assert OpenAi(served).version() == "llamacpp"
    with pytest.raises(ZoolensError, match="needs an address"):
        runtime_named("openai")


def test_a_model_of_another_task_is_not_run(served):
    assert OpenAi(served).asset_of(find("demo:lenet-wide").manifest) is None


@pytest.mark.parametrize(("text", "said"), [([[]], "without tokens"), ([[64]], "ends at 63"), ([[-1]], "the id -1")])
def test_texts_that_are_none_are_refused(served, text, said):
    with OpenAi(served).open(files_of(OpenAi(served))) as session, pytest.raises(ModelError, match=said):
        session.predict({"tokens": np.array(text, np.int32).reshape(1, -1)})


def test_a_text_beyond_the_servers_context_is_one_sentence(served):
    with OpenAi(served).open(files_of(OpenAi(served))) as session, pytest.raises(ZoolensError, match="status 400"):
        session._client.complete([ids(700)[0].tolist()], top=1)


# --- a server that echoes, as vLLM's does, and what others leave out


def completions(scores, *, echo=True, numbered=True, most=64):
    """A server of a distribution that depends on the last token only."""

    def likely(last, top):
        best = np.argsort(-scores[last], kind="stable")[: min(top, most)]
        return {f"token_id:{token}" if numbered else chr(97 + token): float(scores[last, token]) for token in best}

    def answer(path, document, headers):
        if path.endswith("/models"):
            return Reply({"data": [{"id": "net", "owned_by": "tests"}]})
        prompt, top = document["prompt"], document.get("logprobs", 0)
        prompts = prompt if isinstance(prompt[0], list) else [prompt]
        if document.get("echo") and not echo:
            return Reply({"error": {"message": "echo is not known"}}, status=400)
        choices = []
        for index, tokens in enumerate(prompts):
            shown = [None, *tokens] if document.get("echo") else [tokens[-1]]
            entries = [None if last is None else likely(last, top) for last in shown]
            names = [*map("token_id:{}".format, tokens), "token_id:0"][-len(shown) :]
            own = [
                None if last is None else float(scores[last, int(name[9:])])
                for last, name in zip(shown, names, strict=True)
            ]
            logs = {"tokens": names, "token_logprobs": own, "top_logprobs": entries}
            choices.append({"index": index, "text": "x", "logprobs": logs})
        return Reply({"choices": choices})

    return answering(answer)


def opened(address):
    return OpenAi(address).open(files_of(OpenAi(address), top=3, vocabulary=10))


@pytest.fixture(scope="module")
def scores():
    values = np.random.default_rng(3).normal(0, 2, (10, 10))
    return values - np.log(np.exp(values).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("echo", [True, False])
def test_a_text_at_once_or_each_beginning_is_the_same(scores, echo):
    text = np.array([[3, 1, 4, 1, 5, 9, 2, 6]], np.int32)
    with completions(scores, echo=echo) as address, opened(address) as session:
        told = session.predict({"tokens": text})["logits"][0]
        assert session._echoes == echo
    own = scores[text[0]]
    kept, wanted = (kept_tokens(each[:-1], text[0, 1:].astype(np.int64), 3) for each in (told, own))
    np.testing.assert_allclose(kept.true, wanted.true, atol=1e-5)
    np.testing.assert_array_equal(kept.ids, wanted.ids)


def test_too_few_likely_tokens_are_refused_and_not_made_up(scores):
    text = np.array([[3, 1, 4]], np.int32)
    with (
        completions(scores, most=2) as address,
        opened(address) as session,
        pytest.raises(ModelError, match="tells 2 likely tokens at a position, and the manifest keeps 3"),
    ):
        session.predict({"tokens": text})


def test_a_token_that_is_never_told_is_refused(scores):
    worst = int(scores[3].argmin())
    with (
        completions(scores, echo=False, most=3) as address,
        opened(address) as session,
        pytest.raises(ModelError, match="does not tell the log-probability of the text's own token"),
    ):
        session.predict({"tokens": np.array([[3, worst]], np.int32)})


def test_tokens_without_numbers_are_refused(scores):
    with (
        completions(scores, numbered=False) as address,
        opened(address) as session,
        pytest.raises(ModelError, match="without their numbers"),
    ):
        session.predict({"tokens": np.array([[3, 1]], np.int32)})


def test_numbers_outside_the_vocabulary_are_refused(scores):
    with completions(scores) as address, pytest.raises(ZoolensError, match="vocabulary of the model ends at 3"):
        OpenAi(address).asset_of(manifest(top=3, vocabulary=4))
