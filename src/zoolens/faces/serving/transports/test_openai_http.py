"""The API of OpenAI over a socket: a tiny language model writes what numpy says, and refusals have OpenAI's form."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest

from zoolens.base.protocol.limits import Limits
from zoolens.faces.serving.conftest import write_fake
from zoolens.faces.serving.serve import serve
from zoolens.inventory.catalog.draft import draft_manifest
from zoolens.inventory.manifests.files import write_manifest
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.testing import language_models

pytest.importorskip("xllamacpp")
pytest.importorskip("tokenizers")
pytest.importorskip("uvicorn")

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('No tools.') }}{% endif %}{{ m.content }}"
    "{% endfor %}:{% if messages[0].content == 'forever' %}{% for a in range(99999) %}{% for b in range(99999) %}"
    "{% endfor %}{% endfor %}{% endif %}"
)
PROMPT = "AB 12"
_END = language_models.VOCABULARY - 1


def write_alphabet(folder, name="alphabet", dtype=np.float32):
    """A model of one table in ONNX: after token n comes n + 1, and with less probability n + 2. AB is followed by 3."""
    onnx = pytest.importorskip("onnx")
    size = language_models.VOCABULARY
    table = np.full((size, size), -100, dtype)
    for number in range(size):
        table[number, [(number + 1) % size, (number + 2) % size]] = 1, 0
    merged = language_models.tokens().index("AB")
    table[merged] = -100
    table[merged, [3, 4]] = 1, 0
    helper, kinds = onnx.helper, onnx.TensorProto
    kind = helper.np_dtype_to_tensor_dtype(table.dtype)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["logits"])],
        name,
        [helper.make_tensor_value_info("ids", kinds.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("logits", kind, ["batch", "tokens", size])],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / f"{name}.onnx")
    tokenizer = Tokenizer(max_length=50, vocabulary=size, padding="none", end_ids=(_END,))
    files = ({"location": f"{name}.onnx"}, {"location": "tiny.tokenizer.json", "role": "tokenizer"})
    manifest = Manifest(
        name=name,
        inputs=(Input(name="ids", modality="text", shape=(None, None), dtype="int64", tokenizer=tokenizer),),
        outputs=({"name": "logits", "task": "language-model"},),
        assets=({"format": "onnx", "files": files},),
    )
    write_manifest(manifest, folder / f"{name}.yaml")
    return str(folder / f"{name}.yaml")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    files = language_models.gguf(folder, tokenizer__chat_template=TEMPLATE)
    write_manifest(draft_manifest(files.path()), folder / "tiny.yaml")
    plain = language_models.gguf(folder, name="plain.gguf")
    write_manifest(draft_manifest(plain.path()), folder / "plain.yaml")
    models = [
        str(folder / "tiny.yaml"),
        str(folder / "plain.yaml"),
        write_fake(folder, "classes"),
        write_alphabet(folder),
        write_alphabet(folder, "whole", np.int8),
    ]
    with serve(models, http=0, grpc=None, limits=Limits(body_bytes=100_000)) as running:
        yield running


def connect(server):
    return http.client.HTTPConnection(urlsplit(server.urls["http"]).netloc, timeout=60)


def ask(server, path, body=None, headers=None, method=None):
    connection = connect(server)
    try:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, content, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def answer(server, path, **body):
    status, headers, content = ask(server, path, {"model": "tiny", **body})
    assert (status, headers["content-type"]) == (200, "application/json"), content
    return json.loads(content)


def events(server, path, **body):
    status, headers, content = ask(server, path, {"model": "tiny", "stream": True, **body})
    assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8"), content
    *told, done, nothing = content.decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in told]


def refused(server, path, body, headers=None, method=None):
    status, fields, content = ask(server, path, body, headers, method)
    assert fields["content-type"] == "application/json"
    (error,) = json.loads(content).values()
    assert set(error) == {"message", "type", "param", "code"}
    return status, error


def ids_of(text):
    words = language_models.tokens()
    merged = text.replace("AB", "\0").replace(" ", "Ġ").replace("\n", "Ċ")
    return [words.index("AB" if letter == "\0" else letter) for letter in merged]


def greedy(ids, count):
    """The most likely tokens by numpy, with their log-probabilities; without the one that ends a text."""
    ids, told = list(ids), []
    for _ in range(count):
        logits = language_models.reference(ids)[-1]
        logs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        ids.append(int(logs.argmax()))
        if ids[-1] == _END:
            break
        told.append((ids[-1], float(logs.max())))
    return told


def text_of(ids):
    words = language_models.tokens()
    return "".join("" if number == _END - 1 else words[number] for number in ids).replace("Ġ", " ").replace("Ċ", "\n")


def test_models_that_write(server):
    status, _, content = ask(server, "/v1/models")
    listed = json.loads(content)
    assert (status, listed["object"]) == (200, "list")
    assert [model["id"] for model in listed["data"]] == ["alphabet", "plain", "tiny", "whole"]
    assert json.loads(ask(server, "/v1/models/tiny")[2])["object"] == "model"
    assert refused(server, "/v1/models/classes", None)[0] == 404


def test_the_most_likely_tokens_are_those_of_numpy(server):
    expected = greedy(ids_of(PROMPT), 12)
    found = answer(server, "/v1/completions", prompt=PROMPT, temperature=0, max_tokens=12, logprobs=3)
    (choice,) = found["choices"]
    assert choice["text"] == text_of([number for number, _ in expected])
    assert found["usage"]["prompt_tokens"] == len(ids_of(PROMPT))
    assert found["object"] == "text_completion"
    told = choice["logprobs"]
    np.testing.assert_allclose(told["token_logprobs"], [logarithm for _, logarithm in expected], atol=5e-3)
    assert all(len(likely) == 3 for likely in told["top_logprobs"])
    assert told["text_offset"][:2] == [0, len(told["tokens"][0])]
    again = answer(server, "/v1/completions", prompt=ids_of(PROMPT), temperature=0, max_tokens=12)
    assert again["choices"][0]["text"] == choice["text"]
    assert again["choices"][0]["logprobs"] is None


def test_a_long_prompt_is_read_in_pieces(server):
    prompt = "123456789:" * 54
    expected = text_of([number for number, _ in greedy(ids_of(prompt), 4)])
    found = [answer(server, "/v1/completions", prompt=prompt, temperature=0, max_tokens=4) for _ in range(2)]
    assert [one["choices"][0]["text"] for one in found] == [expected] * 2
    assert found[0]["usage"]["prompt_tokens"] == 540


def test_a_conversation_is_what_the_template_makes_of_it(server):
    messages = [{"role": "system", "content": "AB "}, {"role": "user", "content": "12"}]
    expected = greedy(ids_of("AB 12:"), 6)
    asked = {"messages": messages, "temperature": 0, "max_completion_tokens": 6}
    found = answer(server, "/v1/chat/completions", **asked, logprobs=True, top_logprobs=1)
    (choice,) = found["choices"]
    text = text_of([number for number, _ in expected])
    assert choice["message"] == {"role": "assistant", "content": text, "refusal": None}
    first = choice["logprobs"]["content"][0]
    assert bytes(first["bytes"]).decode() == first["token"] == text_of([expected[0][0]])
    assert first["top_logprobs"][0]["logprob"] == first["logprob"]
    assert found["usage"]["prompt_tokens"] == len(ids_of("AB 12:"))
    told = events(server, "/v1/chat/completions", **asked, stream_options={"include_usage": True})
    assert told[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in told[:-1]) == text
    assert told[-2]["choices"][0]["finish_reason"] == choice["finish_reason"]
    assert (told[-1]["choices"], told[-1]["usage"]) == ([], found["usage"])
    assert {event["object"] for event in told} == {"chat.completion.chunk"}
    assert len({event["id"] for event in told}) == 1


def test_streams_stops_and_seeds(server):
    asked = {"prompt": PROMPT, "max_tokens": 20, "seed": 5}
    whole = answer(server, "/v1/completions", **asked)["choices"][0]
    told = events(server, "/v1/completions", **asked)
    assert "".join(event["choices"][0]["text"] for event in told) == whole["text"]
    assert told[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]
    assert answer(server, "/v1/completions", **{**asked, "seed": 6})["choices"][0]["text"] != whole["text"]
    stop = whole["text"][3:5]
    stopped = answer(server, "/v1/completions", **asked, stop=stop)["choices"][0]
    assert stopped["text"] == whole["text"][: whole["text"].index(stop)]
    assert stopped["finish_reason"] == "stop"
    nothing = answer(server, "/v1/completions", prompt=PROMPT, max_tokens=0)
    assert (nothing["choices"][0]["text"], nothing["choices"][0]["finish_reason"]) == ("", "length")


def test_texts_at_a_time_and_inferences_between_their_tokens_change_nothing(server):
    def text(prompt):
        return answer(server, "/v1/completions", prompt=prompt, max_tokens=25, seed=1)["choices"][0]["text"]

    prompts = [PROMPT, PROMPT + "3", "3" + PROMPT, PROMPT]
    alone = [text(prompt) for prompt in prompts]
    assert alone[0] == alone[3] != alone[1]
    ids = {"name": "tokens", "datatype": "INT32", "shape": [1, 3], "data": [1, 2, 3]}
    with ThreadPoolExecutor(5) as threads:
        texts = [threads.submit(text, prompt) for prompt in prompts]
        others = [threads.submit(ask, server, "/v2/models/tiny/infer", {"inputs": [ids]}) for _ in range(10)]
        assert [one.result() for one in texts] == alone
        assert {one.result()[0] for one in others} == {200}


def test_a_model_whose_runtime_keeps_nothing_writes_too(server):
    """Each token is followed by the next one of the alphabet, or by the one after that, which is less likely."""
    found = answer(server, "/v1/completions", model="alphabet", prompt="AB", temperature=0, max_tokens=4, logprobs=2)
    (choice,) = found["choices"]
    words = language_models.tokens()
    assert choice["text"] == "".join(words[number] for number in (3, 4, 5, 6))
    np.testing.assert_allclose(choice["logprobs"]["token_logprobs"], [-np.log(1 + np.exp(-1))] * 4, atol=1e-5)


def test_a_prompt_is_told_with_what_the_model_foresees_of_it(server):
    ids = ids_of(PROMPT)
    asked = {"echo": True, "logprobs": 2, "temperature": 0, "return_tokens_as_token_ids": True}
    found = answer(server, "/v1/completions", prompt=[ids, ids[:1]], max_tokens=1, **asked)
    (choice, short) = found["choices"]
    told = choice["logprobs"]
    expected = greedy(ids, 1)
    assert [int(name.removeprefix("token_id:")) for name in told["tokens"]] == [*ids, expected[0][0]]
    logits = language_models.reference(ids)
    logs = logits - logits.max(1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(1, keepdims=True))
    wanted = [logs[place, number] for place, number in enumerate(ids[1:])]
    assert told["token_logprobs"][0] is None
    np.testing.assert_allclose(told["token_logprobs"][1:], [*wanted, expected[0][1]], atol=5e-3)
    best = [max(likely, key=likely.get) for likely in told["top_logprobs"][1:]]
    assert best == [f"token_id:{number}" for number in logs.argmax(1)]
    assert told["top_logprobs"][0] is None
    assert choice["text"] == PROMPT + text_of([expected[0][0]])
    assert told["text_offset"] == [0, 2, 3, 4, 5]
    assert (short["index"], short["text"][:2], len(short["logprobs"]["tokens"])) == (1, "AB", 2)
    assert found["usage"] == {"prompt_tokens": len(ids) + 1, "completion_tokens": 2, "total_tokens": len(ids) + 3}
    plain = answer(server, "/v1/completions", prompt=PROMPT, max_tokens=0, echo=True)["choices"][0]
    assert (plain["text"], plain["logprobs"]) == (PROMPT, None)
    streamed = events(server, "/v1/completions", prompt=["AB", "12"], max_tokens=2, echo=True, seed=1)
    for place, prompt in enumerate(("AB", "12")):
        own = [event["choices"][0] for event in streamed if event["choices"][0]["index"] == place]
        assert own[0]["text"] == prompt
        assert own[-1]["finish_reason"] in ("stop", "length")


def test_what_is_refused_has_openais_form(server):
    path = "/v1/completions"
    status, error = refused(server, path, {"model": "tiny", "prompt": "AB", "mirostat": 1})
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", "mirostat")
    assert refused(server, path, {"model": "absent", "prompt": "AB"})[0] == 404
    status, error = refused(server, path, {"model": "classes", "prompt": "AB"})
    assert (status, "its task is classification" in error["message"]) == (400, True)
    assert "no tokens" in refused(server, path, {"model": "tiny", "prompt": ""})[1]["message"]
    assert "knows 0 to 63" in refused(server, path, {"model": "tiny", "prompt": [64]})[1]["message"]
    long = refused(server, path, {"model": "tiny", "prompt": "1" * 700, "stream": True})
    assert (long[0], "700 tokens" in long[1]["message"]) == (400, True)
    assert refused(server, path, b"{")[0] == 400
    assert refused(server, path, {"model": "tiny", "prompt": "1" * 110_000})[0] == 413
    assert refused(server, path, None, method="GET")[0] == 404
    assert refused(server, "/v1/embeddings", {"model": "tiny"})[0] == 404
    assert refused(server, "/v1/models", None, {"Origin": "https://a.example"})[1]["type"] == "permission_error"
    assert refused(server, path, {"model": "tiny", "prompt": "AB"}, {"zoolens-timeout-ms": "0.001"})[0] == 504


def test_whole_numbers_are_no_scores(server):
    """They would be read without the scale that the quantised model has for them."""
    status, error = refused(server, "/v1/completions", {"model": "whole", "prompt": "AB"})
    assert (status, "answers with INT8, not with scores as floats" in error["message"]) == (503, True)


def test_conversations_that_are_refused(server):
    path = "/v1/chat/completions"
    status, error = refused(server, path, {"model": "tiny", "messages": [{"role": "tool", "content": "1"}]})
    assert (status, error["message"]) == (400, "The chat template refuses the conversation: No tools.")
    talk = [{"role": "user", "content": "1"}]
    assert "has no chat template" in refused(server, path, {"model": "plain", "messages": talk})[1]["message"]


def test_a_client_that_leaves_ends_the_text(server):
    def calls():
        return json.loads(ask(server, "/v2/models/tiny/stats")[2])["model_stats"][0]["inference_count"]

    connection = connect(server)
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 590, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    response.close()
    connection.close()
    before, deadline = -1, time.monotonic() + 30
    while (now := calls()) != before and time.monotonic() < deadline:
        before = now
        time.sleep(0.3)
    assert now == before
    assert answer(server, "/v1/completions", prompt="AB", max_tokens=1)["usage"]["completion_tokens"] == 1


def test_a_body_is_held_until_its_text_is_written(server):
    connection = connect(server)
    body = json.dumps({"model": "tiny", "prompt": [PROMPT] * 100, "max_tokens": 590, "stream": True})
    connection.request("POST", "/v1/completions", body)
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    assert server.bodies.held == len(body)
    response.close()
    connection.close()
    deadline = time.monotonic() + 30
    while server.bodies.held and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.bodies.held == 0


def test_half_a_surrogate_pair_is_refused_and_not_repeated(server):
    path, half = "/v1/completions", "a\ud800"
    assert refused(server, path, {"model": half, "prompt": "AB"})[0] == 404
    status, error = refused(server, path, {"model": "tiny", "prompt": "AB", half: 1})
    assert (status, error["param"]) == (400, "a\\ud800")
    assert refused(server, path, {"model": "tiny", "prompt": "AB", "temperature": half})[0] == 400
    assert refused(server, path, {"model": "tiny", "prompt": half})[0] == 400
    talk = [{"role": "user", "content": half}]
    assert refused(server, "/v1/chat/completions", {"model": "tiny", "messages": talk})[0] == 400


def test_a_process_that_dies_loses_one_text_and_its_successor_writes_the_same(server):
    asked = {"prompt": PROMPT, "temperature": 0, "max_tokens": 12}
    before = answer(server, "/v1/completions", **asked)["choices"]
    connection = connect(server)
    body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 590, "stream": True, "seed": 1}
    connection.request("POST", "/v1/completions", json.dumps(body))
    response = connection.getresponse()
    assert response.readline().startswith(b"data: ")
    (instance,) = server.plane.endpoint("tiny").reference.model.instances
    os.kill(instance.process_id, signal.SIGKILL)
    events = response.read().decode().split("\n\n")
    connection.close()
    if events[-2].strip() != "data: [DONE]":  # or it had written the whole text
        error = json.loads(events[-2].strip().removeprefix("data: "))["error"]
        assert (error["type"], "Try again" in error["message"]) == ("server_error", True)
    assert answer(server, "/v1/completions", **asked)["choices"] == before


@pytest.mark.slow
def test_a_template_that_never_ends_is_refused(server):
    talk = [{"role": "system", "content": "forever"}]
    status, error = refused(server, "/v1/chat/completions", {"model": "tiny", "messages": talk})
    assert (status, "takes longer than 10 s" in error["message"]) == (400, True)


def test_a_server_that_stops_ends_the_texts_that_it_has_begun(tmp_path):
    path = language_models.gguf(tmp_path).path()
    with ThreadPoolExecutor(1) as threads:
        with serve(f"tiny={path}", http=0, grpc=None) as server:
            connection = connect(server)
            body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 500, "seed": 1, "stream": True}
            connection.request("POST", "/v1/completions", json.dumps(body))
            response = connection.getresponse()
            assert response.readline().startswith(b"data: ")
            reading = threads.submit(response.read)
        assert reading.result().endswith(b"data: [DONE]\n\n")
        connection.close()
