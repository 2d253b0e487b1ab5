"""REST: what a client sends over a socket, and what it gets."""

from __future__ import annotations

import gc
import gzip
import http.client
import json
import random
import socket
import time
import zlib
from urllib.parse import urlsplit

import numpy as np
import pytest

from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.base.protocol.rest import HEADER_LENGTH, decode_response, encode_request
from zoolens.faces.serving.plane.queue import Pending
from zoolens.faces.serving.transports import openai_http
from zoolens.inventory import catalog

X = np.random.default_rng(0).random((2, 4), np.float32)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def ask(server, method, path, body=None, headers=None):
    """Status, headers with names in small letters, and content."""
    connection = http.client.HTTPConnection(urlsplit(server.urls["http"]).netloc, timeout=20)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def get(server, path, status=200):
    found, _, content = ask(server, "GET", path)
    assert found == status, content
    return json.loads(content)


def error(answer):
    """The status and the one sentence of an error."""
    status, headers, content = answer
    assert headers["content-type"] == "application/json"
    (sentence,) = json.loads(content).values()
    return status, sentence


def infer(server, request, *, binary=True, path=None, headers=None):
    body = encode_request(request, binary=binary)
    fields = body.headers | (headers or {})
    return ask(server, "POST", path or f"/v2/models/{request.model}/infer", body.content(), fields)


def outputs(answer):
    status, headers, content = answer
    assert status == 200, content
    length = headers.get(HEADER_LENGTH.lower())
    return decode_response(content, None if length is None else int(length)).outputs


def raw(server, *parts):
    """A connection over which these bytes were sent."""
    address = urlsplit(server.urls["http"])
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    for part in parts:
        connection.sendall(part)
    return connection


@pytest.fixture(scope="module")
def expected(server, served_folder):
    with catalog.open_session(str(served_folder / "tiny.yaml")) as session:
        return session.predict({"input": X})["logits"]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_inference_in_json_and_binary(server, expected, binary_in, binary_out):
    request = InferRequest("tiny", {"input": X}, id="7", outputs=(RequestedOutput("logits", binary=binary_out),))
    answer = infer(server, request, binary=binary_in)
    np.testing.assert_array_equal(outputs(answer)["logits"], expected)
    assert (HEADER_LENGTH.lower() in answer[1]) == binary_out
    assert answer[1]["zoolens-model"] == "file:tiny@1.0.0"


def test_of_an_answered_request_nothing_is_left_for_the_garbage_collector(server):
    """Circles would keep the inputs of thousands of requests: Python looks for old ones once in many minutes."""

    def alive():
        return sum(type(found) is Pending for found in gc.get_objects())

    gc.collect()
    before, deadline = alive(), time.monotonic() + 10
    gc.disable()
    try:
        for _ in range(20):
            outputs(infer(server, InferRequest("tiny", {"input": X})))
        while alive() > before + 1 and time.monotonic() < deadline:
            time.sleep(0.05)  # the server sees in a moment that the last client has gone
        assert alive() <= before + 1
    finally:
        gc.enable()


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_bodies(server, expected, encoding, pack):
    body = encode_request(InferRequest("tiny", {"input": X}, parameters={"binary_data_output": True}))
    headers = body.headers | {"Content-Encoding": encoding, "Accept-Encoding": encoding}
    status, fields, content = ask(server, "POST", "/v2/models/tiny/infer", pack(body.content()), headers)
    assert (status, fields["content-encoding"]) == (200, encoding)
    unpacked = zlib.decompress(content, 47)
    np.testing.assert_array_equal(
        decode_response(unpacked, int(fields[HEADER_LENGTH.lower()])).outputs["logits"], expected
    )


def test_a_body_without_json_is_one_row(server, expected):
    answer = ask(server, "POST", "/v2/models/tiny/infer", X[:1].tobytes(), {HEADER_LENGTH: "0"})
    np.testing.assert_array_equal(outputs(answer)["logits"], expected[:1])
    assert error(ask(server, "POST", "/v2/models/tiny/infer", X.tobytes(), {HEADER_LENGTH: "0"}))[0] == 400
    assert error(ask(server, "POST", "/v2/models/absent/infer", X.tobytes(), {HEADER_LENGTH: "0"}))[0] == 404


def test_a_list_of_encodings_is_no_wish_for_compression(server):
    answer = infer(server, InferRequest("tiny", {"input": X}), headers={"Accept-Encoding": "gzip, deflate, br"})
    assert "content-encoding" not in answer[1]


@pytest.mark.parametrize(
    ("content", "encoding", "status"),
    [
        (gzip.compress(bytes(200_000)), "gzip", 413),
        (gzip.compress(b"{}")[:-4], "gzip", 400),
        (gzip.compress(b"{}") * 2, "gzip", 400),
        (b"{}", "gzip", 400),
        (b"{}", "br", 501),
    ],
    ids=["too large", "cut", "doubled", "not packed", "unknown"],  # packed bytes hold the time: no name of a test
)
def test_compressed_bodies_that_lie(server, content, encoding, status):
    assert error(ask(server, "POST", "/v2/models/tiny/infer", content, {"Content-Encoding": encoding}))[0] == status


def test_health_and_descriptions(server):
    assert get(server, "/v2/health/live") == {"live": True}
    assert get(server, "/v2/health/ready") == {"ready": True}
    assert get(server, "/v2/models/tiny/ready") == {"name": "tiny", "ready": True}
    assert get(server, "/v2/models/tiny/versions/1.0.0/ready")["ready"]
    assert get(server, "/v2")["name"] == "zoolens"
    assert get(server, "/v2/models/tiny")["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 4]}]
    assert get(server, "/v2/models/tiny/versions/1.0.0") == get(server, "/v2/models/tiny")
    assert get(server, "/v2/models/tiny/config")["input"][0]["dims"] == [4]
    assert {model["name"] for model in get(server, "/v2/models/stats")["model_stats"]} == {"tiny", "slow"}
    assert get(server, "/v2/models/tiny/stats")["model_stats"][0]["name"] == "tiny"
    assert get(server, "/v2/trace/setting") == get(server, "/v2/models/tiny/trace/setting")
    described = get(server, "/openapi.json")
    assert described["openapi"].startswith("3.")
    assert {*openai_http._READERS, "/v1/models"} <= {*described["paths"]}


@pytest.mark.parametrize("kind", ["system", "cuda"])
def test_no_memory_is_shared_and_clients_that_tidy_up_first_are_not_refused(server, kind):
    path = f"/v2/{kind}sharedmemory"
    assert get(server, f"{path}/status") == []
    for region in ("", "/region/input0"):
        assert ask(server, "POST", f"{path}{region}/unregister")[0] == 200
    assert error(ask(server, "GET", f"{path}/region/input0/status"))[0] == 400
    body = json.dumps({"key": "/input0", "byte_size": 4, "offset": 0})
    status, sentence = error(ask(server, "POST", f"{path}/region/input0/register", body))
    assert (status, sentence) == (501, "This server does not support shared memory. Send tensors as bytes.")


def test_the_repository(server):
    status, _, content = ask(server, "POST", "/v2/repository/index", b'{"ready": true}')
    assert status == 200
    assert {(entry["name"], entry["state"]) for entry in json.loads(content)} == {("tiny", "READY"), ("slow", "READY")}
    assert ask(server, "POST", "/v2/repository/models/tiny/load")[0] == 200
    assert error(ask(server, "POST", "/v2/repository/models/absent/load"))[0] == 404
    assert ask(server, "POST", "/v2/repository/models/tiny/unload", b'{"parameters": {}}')[0] == 200
    assert get(server, "/v2/models/tiny/ready", 400) == {"name": "tiny", "ready": False}
    assert ask(server, "POST", "/v2/repository/models/tiny/load", b"{}")[0] == 200
    assert get(server, "/v2/models/tiny/ready")["ready"]


@pytest.mark.parametrize(
    ("request_", "status", "part"),
    [
        (InferRequest("absent", {"input": X}), 404, "no model 'absent'"),
        (InferRequest("tiny", {"x": X}), 400, "'input' is missing"),
        (InferRequest("tiny", {"input": X, "y": X}), 400, "no input 'y'"),
        (InferRequest("tiny", {"input": X.astype(np.float64)}), 400, "FP64"),
        (InferRequest("tiny", {"input": X[:, :3]}), 400, "[2,3]"),
        (InferRequest("tiny", {"input": X}, outputs=(RequestedOutput("y"),)), 400, "no output 'y'"),
    ],
)
def test_requests_that_do_not_fit(server, request_, status, part):
    found, sentence = error(infer(server, request_))
    assert found == status
    assert part in sentence


def test_versions_in_the_path(server, expected):
    request = InferRequest("tiny", {"input": X})
    path = "/v2/models/tiny/versions/{}/infer"
    for version in ("1", "1.0.0"):
        np.testing.assert_array_equal(outputs(infer(server, request, path=path.format(version)))["logits"], expected)
    assert error(infer(server, request, path=path.format("3")))[0] == 404


def test_what_is_not_there(server):
    assert error(ask(server, "GET", "/absent"))[0] == 404
    assert error(ask(server, "GET", "/v2/models/tiny/infer"))[0] == 405
    status, headers, _ = ask(server, "DELETE", "/v2/health/live")
    assert (status, set(headers["allow"].split(", "))) == (405, {"GET", "HEAD"})
    assert error(ask(server, "POST", "/v2/models/tiny/feedback", b'{"labels": {"7": 1}}'))[0] == 501
    assert error(ask(server, "POST", "/v2/models/tiny/feedback", b'{"labels": 1}'))[0] == 400


def test_the_trace_is_returned(server):
    answer = infer(server, InferRequest("tiny", {"input": X}), headers={"traceparent": TRACE})
    assert answer[1]["traceparent"] == TRACE
    wrong = infer(server, InferRequest("tiny", {"input": X}), headers={"traceparent": "00-0-0-01"})
    assert wrong[0] == 200
    assert "traceparent" not in wrong[1]


def test_deadlines(server):
    """A model that takes a fifth of a second cannot answer within a hundredth of one."""
    # An answer that is there when the deadline is looked at is given all the same. On a crowded machine the server may
    # not run for a tenth of a second, so that a deadline of a tenth would be too close to a fifth.
    by_header = infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "10"})
    by_parameter = infer(server, InferRequest("slow", {"input": X}, parameters={"timeout": 10_000}))
    assert {error(by_header)[0], error(by_parameter)[0]} <= {504, 429}  # too late, or refused because it would be
    assert infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "20000"})[0] == 200
    assert error(infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "-1"}))[0] == 400


def test_what_is_no_http_is_refused(server):
    with raw(server, b"\x16\x03\x01\x02\x00nonsense\r\n\r\n") as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
    with raw(server, b"GET / HTTP/1.1\r\nA: " + b"a" * 100_000 + b"\r\n\r\n") as connection:
        assert not _received(connection)


def _received(connection):
    try:
        return connection.recv(1000)
    except ConnectionError:
        return b""


def test_spoilt_bodies_are_answered_with_one_sentence(server):
    """A short version of tests/test_serve_malformed.py: no answer is the server's fault, and it goes on answering."""
    rng = random.Random(0)
    good = encode_request(InferRequest("tiny", {"input": X}))
    connection = http.client.HTTPConnection(urlsplit(server.urls["http"]).netloc, timeout=20)
    for _ in range(200):
        content = bytearray(good.content())
        place = rng.randrange(len(content))
        content[place : place + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
        length = rng.choice([good.header_length, len(content), 0, 7])
        connection.request("POST", "/v2/models/tiny/infer", bytes(content), {HEADER_LENGTH: str(length)})
        response = connection.getresponse()
        answer = response.read()
        assert response.status in (200, 400, 501), answer
        assert response.status == 200 or json.loads(answer)["error"]
    connection.close()
    assert get(server, "/v2/health/ready")["ready"]


def test_web_pages_cannot_use_a_server_without_a_token(server):
    """Neither by a request to this machine's address, nor by a name of theirs that leads to it."""
    for headers in ({"Origin": "http://example.org"}, {"Host": "example.org"}, {"Host": "127.0.0.1.example.org:80"}):
        assert error(ask(server, "GET", "/v2", headers=headers))[0] == 403
        assert error(infer(server, InferRequest("tiny", {"input": X}), headers=headers))[0] == 403
    for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:8000", "10.0.0.1:1"):
        assert ask(server, "GET", "/v2", headers={"Host": host})[0] == 200


def test_metrics_are_there_for_prometheus(server):
    status, headers, content = ask(server, "GET", "/metrics")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert b"zoolens_requests_total" in content


def test_pipelined_inferences_are_answered_in_order(server, expected):
    bodies = [encode_request(InferRequest(name, {"input": X}, id=name)) for name in ("slow", "tiny", "slow", "absent")]
    messages = [
        f"POST /v2/models/{name}/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        f"{HEADER_LENGTH}: {body.header_length}\r\n\r\n".encode()
        + body.content()
        for name, body in zip(("slow", "tiny", "slow", "absent"), bodies, strict=True)
    ]
    stream = b"".join(messages)
    for size in (len(stream), 100, 7):
        with raw(server, *(stream[place : place + size] for place in range(0, len(stream), size))) as connection:
            content = b""
            while b"no model 'absent'" not in content:
                content += connection.recv(10_000)
        places = [content.index(part) for part in (b'"id":"slow"', b'"id":"tiny"', b"no model 'absent'")]
        assert places == sorted(places)
        assert content.count(b"HTTP/1.1 200 ") == 3
