"""Real llama.cpp servers with tiny models, and servers that do what llama.cpp does not do when a test wants it to."""

from __future__ import annotations

import itertools
import json
import time
import urllib.request
from functools import partial

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import RunKind
from zoolens.base.store.series import read_series
from zoolens.base.store.store import open_store
from zoolens.base.verdicts.verdict import Outcome
from zoolens.findings.endpoints.verification_words import as_data, limits, sentence
from zoolens.findings.endpoints.verify_endpoint import verify_endpoint
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.testing import language_models
from zoolens.testing.endpoint_server import Reply, answering
from zoolens.testing.llama_server import llama_server
from zoolens.testing.temperature_proxy import cooled

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")

SLOW = partial(pytest.param, marks=pytest.mark.slow)  # a second case of one kind: each starts a model and a server


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("endpoints")


def described(path):
    """A manifest of the file beside it: without one, each opening would read the file for a manifest first."""
    manifest = path.with_suffix(".yaml")
    write_manifest(draft_manifest(path), manifest)
    return str(manifest)


@pytest.fixture(scope="module")
def own(folder):
    return described(language_models.gguf(folder, name="own.gguf").path())


@pytest.fixture(scope="module")
def other(folder):
    return described(language_models.gguf(folder, name="other.gguf", seed=8).path())


@pytest.fixture(scope="module")
def data(folder):
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ,.0123456789      "))
    path = folder / "texts.txt"
    path.write_text("".join(np.random.default_rng(0).choice(letters, 20_000)))
    return f"passages:{path}"


@pytest.fixture(scope="module")
def served(own):
    from pathlib import Path

    with llama_server(Path(own).with_suffix(".gguf"), n_ctx=600) as address:
        yield address


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))


def verified(address, model, others=(), **settings):
    usual = {"context": 100, "threads": 1, "keep": False, "seed": 5}
    return verify_endpoint(address, model, others, **usual | settings)


def test_an_honest_server_has_the_model(served, own, data):
    found = verified(served, own, data=data)
    assert found.verdict.outcome is Outcome.SAME
    assert "or a model within a total variation of 0.02 of it at more than 80 % of short prompts" in sentence(found)
    assert len(found.asked) < 40
    assert max(found.named.distances) < 0.02
    assert sum(each.long for each in found.asked) >= 5


def test_other_weights_are_not_the_model_and_are_named(served, own, other, data):
    found = verified(served, other, [own], data=data)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert "It is not file:other" in sentence(found)
    assert "It answers as file:own" in sentence(found)
    assert found.verdict.outcome.exit_code == 1


@pytest.mark.slow  # two models
def test_two_names_of_one_model_are_not_told_apart(served, own, folder, data):
    twin = folder / "twin.gguf"
    twin.write_bytes((folder / "own.gguf").read_bytes())
    found = verified(served, str(folder / "own.gguf"), [str(twin)], data=data)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "could be file:own.gguf or file:twin.gguf" in sentence(found)


def test_a_shorter_context_is_found(own, data):
    from pathlib import Path

    with llama_server(Path(own).with_suffix(".gguf"), n_ctx=256) as address:
        found = verified(address, own, data=data, context=500)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert "refuses long prompts" in sentence(found)


CHAT = "{% for m in messages %}<s>{{ m.content | upper }}{% endfor %}</s>"
SWAPPED = "{% for m in messages %}</s>{{ m.content | upper }}{% endfor %}"


@pytest.mark.parametrize(("settings", "outcome"), [SLOW({}, "same"), ({"chat_template": SWAPPED}, "different")])
def test_a_chat_is_rendered_by_the_models_own_template(tmp_path, data, settings, outcome):
    own = language_models.gguf(tmp_path, name="own.gguf", tokenizer__chat_template=CHAT).path()
    with llama_server(own, n_ctx=600, **settings) as address:
        found = verified(address, str(own), data=data, chat=True, context=60)
    assert found.verdict.outcome.value == outcome
    assert found.by.value == "logprobs"


@pytest.mark.parametrize(("temperature", "outcome"), [SLOW(1.0, "not known"), (0.3, "different")])
def test_tokens_of_a_real_server_are_drawn_at_the_temperature_that_is_asked_for(
    served, own, data, temperature, outcome
):
    """llama.cpp tells log-probabilities before its temperature, which only the tokens show."""
    with cooled(served, temperature) as address:
        found = verified(address, own, data=data, by="tokens", context=20, most=100)
    assert found.verdict.outcome.value == outcome


def simulated(own_temperature=1.0, *, stall_after=None, lie=None):
    """A server of the tiny model in numpy, which tells tokens alone and chooses them at its own temperature."""
    random = np.random.default_rng(9)
    asked = []

    def answer(path, document, headers):
        if path.endswith("/models"):
            return Reply({"data": [{"id": "tiny"}]})
        asked.append(document)
        if stall_after is not None and len(asked) > stall_after:
            time.sleep(2)
        if lie is not None and len(asked) > 3:
            return Reply(lie)
        logits = language_models.reference(document["prompt"])[-1] / own_temperature
        chances = np.exp(logits - logits.max())
        token = int(random.choice(len(chances), p=chances / chances.sum()))
        text = language_models.tokens()[token].replace("Ġ", " ").replace("Ċ", "\n")
        return Reply({"choices": [{"index": 0, "text": "" if text in ("<s>", "</s>") else text}]})

    return answering(answer)


def changed(address, change, refuses=lambda number, prompt: False):
    """What stands before a server and changes its answers, whose number and document it is given."""
    count = itertools.count()

    def answer(path, document, headers):
        number = next(count) if document else -1
        if document and refuses(number, document["prompt"]):
            return Reply({"error": {"message": "not this one"}}, status=400)
        body = json.dumps(document).encode() if document else None
        request = urllib.request.Request(
            f"{address}{path.removeprefix('/v1')}", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            told = json.load(reply)
        return Reply(change(number, told) if body else told)

    return answering(answer)


def unchanged(number, told):
    return told


@pytest.mark.parametrize(
    "refuses",
    [SLOW(lambda number, prompt: len(prompt) > 50 and number > 8), lambda number, prompt: number > 6],
)
def test_refusals_that_are_not_for_length_reject_nobody(served, own, data, refuses):
    """A long prompt was taken before, or the same prompt is refused also where it is cut short."""
    with changed(served, unchanged, refuses) as address:
        found = verified(address, own, data=data)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "not this one" in sentence(found)


@pytest.mark.slow
def test_texts_that_are_too_short_for_long_prompts_leave_it_open(served, own, tmp_path):
    (tmp_path / "short.txt").write_text("AB CD EF GH IJ " * 30)
    found = verified(served, own, data=f"passages:{tmp_path / 'short.txt'}", context=600)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "no other piece of" in sentence(found)


def silent(number, told):
    return {"choices": [{"text": "A"}]} if number > 5 else told


def blurred(number, told):
    """Tells the least likely token alone."""
    entry = told["choices"][0]["logprobs"]["content"][0]
    entry["top_logprobs"] = entry["top_logprobs"][-1:]
    return told


def greedy(number, told):
    """Chooses the tenth likeliest token each time, and tells the truth of its log-probabilities."""
    entry = told["choices"][0]["logprobs"]["content"][0]
    entry |= entry["top_logprobs"][9]
    return told


def test_prompts_without_log_probabilities_are_not_left_out(served, own, data):
    with changed(served, silent) as address:
        found = verified(address, own, data=data)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "tells no log-probabilities of some prompts" in sentence(found)


def test_an_unlikely_token_alone_is_no_evidence(served, own, other, data):
    for model in (own, other):
        with changed(served, blurred) as address:
            found = verified(address, model, data=data, most=30)
        assert found.verdict.outcome is Outcome.NOT_KNOWN
        assert not found.named.distances
        assert found.named.untold == 30


def test_how_tokens_are_chosen_does_not_say_whose_log_probabilities_they_are(served, own, data):
    with changed(served, greedy) as address:
        found = verified(address, own, data=data)
    assert found.verdict.outcome is Outcome.SAME
    assert any("its tokens are not drawn from them" in line for line in limits(found))


def test_tokens_alone_tell_two_models_apart(own, other, data):
    with simulated() as address:
        found = verified(address, own, [other], data=data)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "of these models only file:own is left" in sentence(found)


def test_tokens_alone_never_say_that_it_is_the_only_model_there_is(own, data):
    with simulated() as address:
        found = verified(address, own, data=data, most=25)
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert "nothing found so far excludes it" in sentence(found)
    assert as_data(found)["by"] == "tokens"


def test_a_lower_temperature_is_found(own, data):
    with simulated(0.4) as address:
        found = verified(address, own, data=data, most=300)
    assert found.verdict.outcome is Outcome.DIFFERENT
    assert "temperature" in sentence(found)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"stall_after": 4}, "did not answer within 0.5 s"),
        SLOW({"lie": {"choices": [{"text": 5}]}}, "no text of one token"),
        SLOW({"lie": {}}, "gives 0 answers"),
    ],
)
def test_what_was_asked_before_a_server_failed_is_kept(own, data, settings, said, tmp_path):
    with simulated(**settings) as address:
        found = verified(address, own, data=data, seconds=0.5, keep=True, store=tmp_path / "s.sqlite")
    assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert said in sentence(found)
    assert len(found.asked) >= 3
    assert found.run is not None


def test_the_evidence_is_a_run_and_the_same_seed_asks_the_same(served, own, data, tmp_path):
    path = tmp_path / "store.sqlite"
    found, again = (verified(served, own, data=data, keep=True, store=path) for _ in range(2))
    assert found.run.id != again.run.id
    assert [each.tokens for each in found.asked] == [each.tokens for each in again.asked]
    with open_store(path) as store:
        (run, _) = store.runs(kind=RunKind.VERIFICATION)
        facts = {(each.metric, each.scope): each for each in store.observations(run.id)}
        assert facts["prompts_asked", ""].value == len(found.asked)
        assert facts["told_distance", found.named.name].value < 0.02
        assert len(read_series(store, run.id, "prompts")) == len(found.asked)
        assert run.resolved["verification"]["outcome"] == "same"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"error": 0.7}, "between 0 and 0.5"),
        ({"allowance": 0.9}, "from 0 to 0.5"),
        ({"most": 0}, "At least one prompt"),
        ({"chat": True}, "has no chat template"),
        ({"context": 1_000_000}, "tokens by its manifest"),
        ({"context": 1}, "no room for a prompt"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(served, own, data, settings, said):
    with pytest.raises(ZoolensError, match=said):
        verified(served, own, data=data, **settings)


def test_a_model_is_named_once_and_is_a_language_model(served, own, data):
    with pytest.raises(ZoolensError, match="named twice"):
        verified(served, own, [own], data=data)
    with pytest.raises(ZoolensError, match="no language model"):
        verified(served, "demo:lenet-wide", data=data)


@pytest.mark.slow  # two models
def test_models_with_other_tokenizers_are_asked_about_apart(served, own, folder, data):
    first, second, *rest = language_models.tokens()
    swapped = {"tokenizer.ggml.tokens": [second, first, *rest]}
    strange = language_models.gguf(folder, name="strange.gguf", **swapped)
    with pytest.raises(ZoolensError, match="splits texts into other tokens"):
        verified(served, own, [str(strange.path())], data=data)
