"""Servers that lie, stall, babble and send elsewhere: one sentence each, and the key goes nowhere else."""

from __future__ import annotations

import itertools
import json
import time

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient
from zoolens.inventory.runtimes.openai.endpoint_connection import key_for
from zoolens.testing.endpoint_server import Reply, answering


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    for name in ("ZOOLENS_OPENAI_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def asked(reply, *, seconds=5.0, top=3):
    """What a client makes of a server that answers every completion with this reply."""
    with answering(lambda path, document, headers: reply) as address:
        client = EndpointClient(parse_endpoint(f"{address}/models/net"), seconds)
        return client.complete([[1, 2]], top=top)[0]


def position(*logs, ids=None, **changed):
    entries = [
        {"id": number, "token": chr(97 + place), "bytes": [97 + place], "logprob": log}
        for place, (log, number) in enumerate(zip(logs, ids or range(len(logs)), strict=True))
    ]
    first = {**entries[0], "top_logprobs": entries, **changed}
    return Reply({"choices": [{"index": 0, "text": "a", "logprobs": {"content": [first]}}]})


def test_an_answer_is_read():
    told = asked(position(-0.5, -1.5))
    assert (told.token.id, told.token.text, told.token.exact, told.log) == (0, b"a", True, -0.5)
    assert [(token.id, log) for token, log in told.top] == [(0, -0.5), (1, -1.5)]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (position(float("nan")), "gives 'nan' as a log-probability"),
        (position(0.5), "which is above 0"),
        (position(10**400), "as a log-probability"),
        (position(-(10**400)), "as a log-probability"),
        (position("-1"), "gives '-1' as a log-probability"),
        (position(-0.1, -0.2), "whose sum is 1.724"),
        (position(-1, -2, ids=[7, 7]), "one token twice"),
        (position(-1, id=-4), "as the number of a token"),
        (position(-1, id=1.5), "as the number of a token"),
        (position(-1, bytes=[300]), "bytes of a token that are none"),
        (position(-1, token=None), "a token without its text"),
        (position(-1, top_logprobs={}), "1 token"),
        (position(-1, top_logprobs=3), "no list"),
        (Reply({"choices": []}), "asked 1 prompts and gives 0"),
        (Reply({"choices": [{"index": 4, "text": "a"}]}), "numbers its answers wrongly"),
        (Reply({"choices": ["a"]}), "no object"),
        (Reply({"choices": [{"text": 5}]}), "no text of one token"),
        (Reply({"choices": [{"text": "a", "logprobs": {"tokens": ["a"]}}]}), "in a form that is not known"),
        (Reply([1]), "JSON that is no object"),
        (Reply(content=b"<html>"), "no JSON"),
        (Reply(content=b"[" * 50_000), "nested too deeply"),
        (Reply(content=b"data: {}\n\n", headers={"Content-Type": "text/event-stream"}), "streams its answer"),
        (Reply({"error": {"message": "prompt too long"}}, status=400), "status 400: prompt too long."),
        (Reply({"error": "busy\n\x1b[2J"}, status=503), r"status 503: busy \[2J."),
        (Reply(status=307, headers={"Location": "http://elsewhere/"}), "sends elsewhere"),
        (Reply(content=b'{"choices"', headers={"Content-Length": "999"}), "no JSON|cut off|speak HTTP"),
    ],
)
def test_what_is_wrong_with_an_answer_is_one_sentence(reply, said):
    if said == "1 token":
        assert asked(reply).top == ()
        return
    with pytest.raises(ZoolensError, match=said) as caught:
        asked(reply)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def drops():
    while True:
        time.sleep(0.05)
        yield b" "


@pytest.mark.parametrize("pieces", [drops(), itertools.repeat(b"x" * 4096), iter(lambda: time.sleep(3) or b"", b"")])
def test_a_server_that_never_ends_is_left(pieces):
    began = time.monotonic()
    with pytest.raises(ZoolensError, match=r"did not answer within 0.5 s|more than the .* bytes"):
        asked(Reply(pieces=pieces), seconds=0.5)
    assert time.monotonic() - began < 2.5


def test_a_server_that_is_gone_is_one_sentence():
    with answering(lambda *_: Reply({})) as address:
        pass
    with pytest.raises(ZoolensError, match="No answer from"):
        _ = EndpointClient(parse_endpoint(address)).address


def test_a_model_is_the_only_one_or_must_be_named():
    for names, said in ((["a"], None), (["a", "b"], "has the models a, b"), ([], "does not list")):
        with answering(lambda *_, names=names: Reply({"data": [{"id": name} for name in names]})) as address:
            client = EndpointClient(parse_endpoint(address))
            if said is None:
                assert client.address.model == "a"
                continue
            with pytest.raises(ZoolensError, match=said):
                _ = client.address


def test_what_a_strict_server_does_not_know_is_left_out():
    seen = []

    def answer(path, document, headers):
        seen.append(document)
        if "top_k" in document:
            return Reply({"error": {"message": "top_k is not known"}}, status=400)
        return position(-0.5)

    with answering(answer) as address:
        client = EndpointClient(parse_endpoint(f"{address}/models/net"))
        client.complete(["a"], top=1)
        client.complete(["b"], top=1)
    assert ["top_k" in document for document in seen] == [True, False, False]
    assert seen[-1]["prompt"] == "b"
    assert seen[-1]["temperature"] == 1


@pytest.mark.parametrize("fresh", [True, False])
def test_a_server_computes_a_prompt_as_a_whole_where_it_is_asked_to(fresh):
    seen = []

    def answer(path, document, headers):
        seen.append((path, document.get("cache_prompt")))
        return position(-0.5)

    with answering(answer) as address:
        client = EndpointClient(parse_endpoint(f"{address}/models/net"))
        client.complete(["a"], top=1, fresh=fresh)
        client.chat([{"role": "user", "content": "a"}], top=1, fresh=fresh)
    assert [path.rpartition("/v1")[2] for path, _ in seen] == ["/completions", "/chat/completions"]
    assert [cached for _, cached in seen] == [False if fresh else None] * 2


@pytest.mark.parametrize("known", [True, False])
def test_a_seed_is_kept_where_a_strict_server_knows_it(known):
    """A server with a seed of its own would otherwise draw the same place of every distribution."""
    seen = []

    def answer(path, document, headers):
        seen.append(document)
        strange = "top_k" in document or ("seed" in document and not known)
        return Reply({"error": {"message": "not known"}}, status=422) if strange else position(-0.5)

    with answering(answer) as address:
        client = EndpointClient(parse_endpoint(f"{address}/models/net"))
        for seed in (3, 4):
            client.complete(["a"], top=1, seed=seed)
    asked = [(document.get("seed"), "top_k" in document) for document in seen]
    later = [(4, False)] if known else [(None, False)] * 2
    assert asked == [(3, True), (3, False), *later]


def test_a_prompt_of_a_megabyte_travels_and_a_refusal_is_a_sentence():
    sizes = []

    def answer(path, document, headers):
        sizes.append(len(document["prompt"]))
        return Reply({"error": {"message": "x" * 100_000}}, status=400)

    with answering(answer) as address, pytest.raises(ZoolensError) as caught:
        EndpointClient(parse_endpoint(f"{address}/models/net")).complete(["a" * (1 << 20)], top=1)
    assert sizes[0] == 1 << 20
    assert len(str(caught.value)) < 500


# --- the key


def test_the_key_comes_from_the_environment_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", "sk-123456")
    seen = []

    def answer(path, document, headers):
        seen.append(headers.get("Authorization"))
        return Reply({"error": {"message": f"bad key {headers.get('Authorization')}"}}, status=401)

    with answering(answer) as address, pytest.raises(ZoolensError) as caught:
        EndpointClient(parse_endpoint(f"{address}/models/net")).complete(["a"], top=1)
    assert seen == ["Bearer sk-123456"]
    assert "sk-123456" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize(
    "entry", [{"id": "net", "owned_by": "a sk-123456"}, {"id": "sk-123456"}, {"id": "net", "meta": {"sk-123456": 1}}]
)
def test_an_answer_that_repeats_the_key_is_not_used(monkeypatch, entry):
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", "sk-123456")
    escaped = json.dumps({"data": [entry]}).replace("sk-", "\\u0073k-").encode()
    for reply in (Reply({"data": [entry]}), Reply(content=escaped)):
        with answering(lambda *_, reply=reply: reply) as address:
            client = EndpointClient(parse_endpoint(address))
            with pytest.raises(ZoolensError, match="repeats the key") as caught:
                _ = client.about
        assert "sk-123456" not in str(caught.value)


def test_what_is_stated_of_a_model_is_short():
    entry = {"id": "net", "owned_by": "x" * 1000, "meta": {"n_ctx": 512, "huge": 10**400, "endless": float("inf")}}
    with answering(lambda *_: Reply({"data": [entry]})) as address:
        about = EndpointClient(parse_endpoint(address)).about
    assert about == {"owned_by": "x" * 200, "n_ctx": 512}


def test_the_key_is_not_sent_on(monkeypatch):
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", "sk-123456")
    stolen = []
    with answering(lambda path, document, headers: stolen.append(headers) or Reply({})) as thief:
        redirect = Reply(status=307, headers={"Location": f"{thief}/completions"})
        with answering(lambda *_: redirect) as address, pytest.raises(ZoolensError, match="sends elsewhere"):
            EndpointClient(parse_endpoint(f"{address}/models/net")).complete(["a"], top=1)
    assert stolen == []


def test_keys_of_openai_are_for_openai_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    assert key_for(parse_endpoint("https://api.openai.com/v1")) == "sk-openai"
    assert key_for(parse_endpoint("https://api.openai.com.evil.example/v1")) == ""
    assert key_for(parse_endpoint("http://127.0.0.1:8000/v1")) == ""


def test_a_key_does_not_travel_unencrypted(monkeypatch):
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", "sk-123456")
    assert key_for(parse_endpoint("http://127.0.0.1:8000/v1")) == "sk-123456"
    with pytest.raises(ZoolensError, match="unencrypted") as caught:
        key_for(parse_endpoint("http://127.example.org/v1"))
    assert "sk-123456" not in str(caught.value)


def test_a_key_cannot_smuggle_a_header(monkeypatch):
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", "a\r\nX: b")
    with pytest.raises(ZoolensError, match="cannot be a key"):
        key_for(parse_endpoint("https://example.org/v1"))


@pytest.mark.parametrize("log", [float("-inf"), -3.4e38, -9999.0])
def test_a_token_that_cannot_come_has_a_finite_log_probability(log):
    assert asked(position(-0.1, log)).top[1][1] == -9999.0
