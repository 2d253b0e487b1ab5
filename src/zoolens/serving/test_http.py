"""REST: what a client sends over a socket, and what it gets."""

from __future__ import annotations

import gc
import gzip
import http.client
import json
import random
import select
import socket
import threading
import time
import zlib
from urllib.parse import urlsplit

import numpy as np
import pytest

from zoolens import catalog
from zoolens.protocol.messages import InferRequest, RequestedOutput
from zoolens.protocol.rest import HEADER_LENGTH, decode_response, encode_request
from zoolens.serving.plane.queue import Pending

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


def test_an_answer_is_sent_before_it_is_counted(server):
    """Whoever waits for it does not wait for statistics and observers, too."""
    body = binary_body(X)
    sent, seen = [], threading.Event()
    with raw(server) as connection:

        class Watcher:
            def answered(self, report):
                sent.append(bool(select.select([connection], [], [], 0)[0]))
                seen.set()

        observers = server.plane.endpoint("tiny").observers
        watcher = Watcher()
        observers.append(watcher)
        try:
            for _ in range(2):  # the second one has a head that is known
                seen.clear()
                connection.sendall(head_of("tiny", body) + body.content())
                assert seen.wait(20)
                assert next_answer(connection)[0] == 200
        finally:
            observers.remove(watcher)
    assert sent == [True, True]


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
    assert get(server, "/openapi.json")["openapi"].startswith("3.")


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
    """A model that takes a fifth of a second cannot answer within a tenth of one."""
    by_header = infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "100"})
    by_parameter = infer(server, InferRequest("slow", {"input": X}, parameters={"timeout": 100_000}))
    assert {error(by_header)[0], error(by_parameter)[0]} <= {504, 429}  # too late, or refused because it would be
    assert infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "20000"})[0] == 200
    assert error(infer(server, InferRequest("slow", {"input": X}), headers={"zoolens-timeout-ms": "-1"}))[0] == 400


def raw(server, *parts):
    """A connection over which these bytes were sent."""
    address = urlsplit(server.urls["http"])
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    for part in parts:
        connection.sendall(part)
    return connection


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(server):
    with raw(
        server, b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n"
    ) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_a_client_that_sends_all_of_a_large_body_still_reads_why_it_is_refused(server):
    for _ in range(3):
        status, sentence = error(ask(server, "POST", "/v2/models/tiny/infer", bytes(20_000_000)))
        assert status == 413
        assert "20,000,000" in sentence


def test_lengths_that_are_only_declared_take_no_memory_from_others(tmp_path, monkeypatch):
    import asyncio

    from zoolens.serving.options import ServerOptions
    from zoolens.serving.plane.data_plane import open_plane
    from zoolens.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n"

    async def session():
        options = ServerOptions(http_port=0, grpc_port=None, held_bytes=1_000_000, drain_seconds=1)
        async with open_plane() as plane, Server(plane, options) as server:
            silent = [
                raw(server, head.format(path).encode()) for path in ("/v2/models/m/infer", "/v2/trace/setting") * 3
            ]
            await asyncio.sleep(0.1)
            answer = await asyncio.to_thread(ask, server, "POST", "/v2/models/m/infer", bytes(200_000))
            for connection in silent:
                connection.close()
            return answer

    assert asyncio.run(session())[0] == 400


def test_connections_have_a_limit(tmp_path, monkeypatch):
    import asyncio

    from zoolens.serving.options import ServerOptions
    from zoolens.serving.plane.data_plane import open_plane
    from zoolens.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))

    async def session():
        async with (
            open_plane() as plane,
            Server(plane, ServerOptions(http_port=0, grpc_port=None, connections=2)) as server,
        ):
            address = urlsplit(server.urls["http"])
            pairs = [await asyncio.open_connection(address.hostname, address.port) for _ in range(3)]
            refused = await pairs[2][0].read()
            pairs[0][1].write(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            served = await pairs[0][0].readline()
            for _, writer in pairs:
                writer.close()
            return refused, served

    refused, served = asyncio.run(session())
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert served.startswith(b"HTTP/1.1 200 ")


def test_bodies_that_are_no_inference_are_small(server):
    assert error(ask(server, "POST", "/v2/repository/index", b"[" + b"1," * 600_000 + b"1]"))[0] == 413


def test_the_clock_of_the_next_request_does_not_end_the_one_that_is_answered(tmp_path, monkeypatch):
    import asyncio

    from zoolens.serving.conftest import write_fake
    from zoolens.serving.options import ServerOptions
    from zoolens.serving.plane.data_plane import open_plane
    from zoolens.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    body = encode_request(InferRequest("slow", {"input": X}))
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}{HEADER_LENGTH}: {body.header_length}\r\n\r\n".encode() + body.content() + b"GET /v2 HT"

    async def session():
        options = ServerOptions(http_port=0, grpc_port=None, header_seconds=0.05)
        models = [write_fake(tmp_path, "slow", latency_us=100_000)]
        async with open_plane(models) as plane, Server(plane, options) as server:
            address = urlsplit(server.urls["http"])
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(message)
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(session()).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_takes_no_answer_gets_no_further_ones(tmp_path, monkeypatch):
    """The server does not keep answers for it that it has not asked the socket to take."""
    from zoolens.serving.api import serve
    from zoolens.serving.conftest import write_fake

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    model = write_fake(tmp_path, "wide", classes=500_000)
    body = encode_request(InferRequest("wide", {"input": X}, parameters={"binary_data_output": True}))
    head = f"POST /v2/models/wide/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}{HEADER_LENGTH}: {body.header_length}\r\n\r\n".encode() + body.content()
    with serve(model, http=0, grpc=None) as server:
        with raw(server) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(20):  # answers of 4 MB, of which some fit into the sockets' own buffers
                connection.sendall(message)
                time.sleep(0.02)
            get(server, "/v2/health/live")
            (model,) = get(server, "/v2/models/wide/stats")["model_stats"]
        assert model["inference_stats"]["success"]["count"] < 15


def test_a_chunked_body_is_counted(server):
    chunk = b"4e20\r\n" + bytes(20_000) + b"\r\n"
    head = b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with raw(server, head, *[chunk] * 6) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


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


def test_a_client_that_leaves_is_not_answered(server):
    """Its request does not run: were it answered, it would be counted."""

    def counted():
        (model,) = get(server, "/v2/models/slow/stats")["model_stats"]
        return model["inference_stats"]["success"]["count"]

    body = encode_request(InferRequest("slow", {"input": X}))
    head = f"POST /v2/models/slow/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}{HEADER_LENGTH}: {body.header_length}\r\n\r\n".encode() + body.content()
    before = counted()
    first = raw(server, message)  # it runs; those behind it wait, and leave while they do
    for connection in [raw(server, message) for _ in range(5)]:
        connection.close()
    assert first.recv(1000).startswith(b"HTTP/1.1 200 ")
    first.close()
    assert infer(server, InferRequest("slow", {"input": X}))[0] == 200
    assert counted() - before == 2


def test_slow_clients_are_cut_off(tmp_path, monkeypatch):
    """Neither headers nor bodies that never end keep a connection."""
    import asyncio

    from zoolens.serving.options import ServerOptions
    from zoolens.serving.plane.data_plane import open_plane
    from zoolens.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    head = b"POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"

    async def answer(server, *parts):
        address = urlsplit(server.urls["http"])
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.writelines(parts)
        content = await reader.read()
        writer.close()
        return content

    async def answers():
        options = ServerOptions(http_port=0, grpc_port=None, header_seconds=0.2, body_seconds=0.2)
        async with open_plane() as plane, Server(plane, options) as server:
            return await asyncio.gather(answer(server), answer(server, b"GET / HT"), answer(server, head))

    nothing, half, body = asyncio.run(answers())
    assert nothing == half == b""
    assert body.startswith(b"HTTP/1.1 408 ")


def test_bodies_together_have_a_limit():
    from zoolens.protocol.errors import Refusal, ServingError
    from zoolens.serving.bodies import BodyReader
    from zoolens.serving.options import ServerOptions

    reader = BodyReader(ServerOptions(held_bytes=10))
    with reader.holding() as first:
        first.add(8)
        with reader.holding() as second, pytest.raises(ServingError) as caught:
            second.add(3)
        assert caught.value.refusal is Refusal.OVERLOADED
        assert reader.held == 8
    assert reader.held == 0


def test_a_full_queue_says_when_to_try_again(tmp_path, monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    from zoolens.serving.api import serve
    from zoolens.serving.conftest import write_fake
    from zoolens.serving.plane.settings import EndpointSettings

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    settings = EndpointSettings(max_queue=1, max_batch=2)
    with (
        serve(write_fake(tmp_path, "slow", latency_us=300_000), http=0, grpc=None, settings=settings) as server,
        ThreadPoolExecutor(8) as pool,
    ):
        answers = list(pool.map(lambda _: infer(server, InferRequest("slow", {"input": X})), range(8)))
    refused = [answer for answer in answers if answer[0] == 429]
    assert refused
    assert all(answer[0] in (200, 429) for answer in answers)
    assert all(answer[1]["retry-after"] == "1" for answer in refused)


def test_web_pages_cannot_use_a_server_without_a_token(server):
    """Neither by a request to this machine's address, nor by a name of theirs that leads to it."""
    for headers in ({"Origin": "http://example.org"}, {"Host": "example.org"}, {"Host": "127.0.0.1.example.org:80"}):
        assert error(ask(server, "GET", "/v2", headers=headers))[0] == 403
        assert error(infer(server, InferRequest("tiny", {"input": X}), headers=headers))[0] == 403
    for host in ("localhost", "localhost:80", "127.0.0.1", "[::1]:8000", "10.0.0.1:1"):
        assert ask(server, "GET", "/v2", headers={"Host": host})[0] == 200


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


def test_a_large_body_in_many_pieces_is_one_tensor(server):
    rows = np.random.default_rng(1).random((60, 4), np.float32)
    body = encode_request(InferRequest("tiny", {"input": rows}, parameters={"binary_data_output": True}))
    head = f"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}{HEADER_LENGTH}: {body.header_length}\r\n\r\n".encode() + body.content()
    whole = outputs(infer(server, InferRequest("tiny", {"input": rows})))["logits"]
    with raw(server, *(message[place : place + 333] for place in range(0, len(message), 333))) as connection:
        response = http.client.HTTPResponse(connection)
        response.begin()
        answer = decode_response(response.read(), int(response.headers[HEADER_LENGTH]))
    np.testing.assert_array_equal(answer.outputs["logits"], whole)


def head_of(model, body, *lines, end="\r\n"):
    fields = [f"Content-Length: {len(body)}", f"{HEADER_LENGTH}: {body.header_length}", *lines]
    return end.join([f"POST /v2/models/{model}/infer HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def binary_body(rows, model="tiny"):
    return encode_request(InferRequest(model, {"input": rows}, parameters={"binary_data_output": True}))


def next_answer(connection):
    """The status and the content of the next answer over a connection that stays open."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.headers, response.read()


def test_a_head_that_comes_again_is_taken_for_what_it_says(server):
    """Heads are remembered by their bytes: each of these comes twice, over one connection, with other values."""
    random = np.random.default_rng(2)
    pairs = [(random.random((2, 4), np.float32), random.random((1, 4), np.float32)) for _ in range(3)]
    for cut in (None, 10, 40):
        with raw(server) as connection:
            for rows in [rows for pair in pairs for rows in pair] * 2:
                body = binary_body(rows)
                message = head_of("tiny", body, f"X-Cut: {cut}") + body.content()
                for part in (message[:cut], message[cut:]) if cut else (message,):
                    connection.sendall(part)
                status, headers, content = next_answer(connection)
                assert status == 200, content
                answer = decode_response(content, int(headers[HEADER_LENGTH])).outputs["logits"]
                np.testing.assert_array_equal(
                    answer, outputs(infer(server, InferRequest("tiny", {"input": rows})))["logits"]
                )


@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n"])
@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_no_head_is_remembered_by_other_bytes_than_its_own(server, before, end):
    """What stands before a request, ends its lines or lies in its body is not taken for the end of its head."""
    rows = np.frombuffer(b"\r\n\r\n" * 4, np.float32).reshape(1, 4)
    body = binary_body(rows)
    message = before + head_of("tiny", body, end=end) + body.content()
    expected = outputs(infer(server, InferRequest("tiny", {"input": rows})))["logits"]
    for _ in range(3):
        with raw(server, message) as connection:
            status, headers, content = next_answer(connection)
            if status == 200:
                answer = decode_response(content, int(headers[HEADER_LENGTH])).outputs["logits"]
                np.testing.assert_array_equal(answer, expected)
                connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert next_answer(connection)[2] == b'{"live":true}'
            else:
                assert (status, end) == (400, "\n")


def test_a_remembered_head_is_closed_after_its_answer_where_it_says_so(server):
    body = binary_body(X)
    for _ in range(3):
        with raw(server, head_of("tiny", body, "Connection: close") + body.content()) as connection:
            content = b""
            while piece := connection.recv(10_000):
                content += piece
        assert content.startswith(b"HTTP/1.1 200 ")
        assert b"connection: close" in content


def test_a_remembered_head_still_needs_the_token(tmp_path, monkeypatch):
    import asyncio

    from zoolens.serving.conftest import write_fake
    from zoolens.serving.options import ServerOptions
    from zoolens.serving.plane.data_plane import open_plane
    from zoolens.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    body = binary_body(X)

    def statuses(server):
        lines = ["Authorization: Bearer " + "t" * 32, "Authorization: Bearer " + "f" * 32] * 2
        for line in lines:
            with raw(server, head_of("tiny", body, line) + body.content()) as connection:
                yield next_answer(connection)[0]

    async def session():
        options = ServerOptions(http_port=0, grpc_port=None, token="t" * 32)
        async with open_plane([write_fake(tmp_path, "tiny")]) as plane, Server(plane, options) as server:
            return await asyncio.to_thread(lambda: list(statuses(server)))

    assert asyncio.run(session()) == [200, 401, 200, 401]


def test_large_bodies_are_read_where_they_belong(tmp_path, monkeypatch):
    """One after the other over one connection, in one piece and in several, between small ones."""
    from zoolens.serving.api import serve
    from zoolens.serving.conftest import write_fake

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    model = write_fake(tmp_path, "large", input=[200_000])
    small = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serve(model, http=0, grpc=None) as server, raw(server) as connection:
        seen = []
        for seed, pause in ((0, 0), (1, 0), (2, 300_000), (0, 700_000)):
            rows = np.random.default_rng(seed).random((1, 200_000), np.float32)
            body = binary_body(rows, "large")
            message = head_of("large", body) + body.content()
            connection.sendall(message[:pause])
            time.sleep(0.01 if pause else 0)
            connection.sendall(message[pause:])
            status, headers, content = next_answer(connection)
            assert status == 200, content
            seen.append(decode_response(content, int(headers[HEADER_LENGTH])).outputs["logits"])
            connection.sendall(small)
            assert next_answer(connection)[2] == b'{"live":true}'
        connection.sendall(message[:-7])  # this client leaves in the middle of its body
    np.testing.assert_array_equal(seen[0], seen[3])
    assert not np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[1], seen[2])


def test_a_connection_that_only_sends_line_feeds_is_idle(server):
    """Empty lines before a request are allowed, and do not keep a connection for ever."""
    import asyncio

    from zoolens.serving.http_protocol import Connection

    class Patient(Connection):
        def __init__(self, loop):
            self.loop, self.timeout_keep_alive, self.timeout_keep_alive_task = loop, 0.05, None
            self._idle_since, self.closed = loop.time(), asyncio.Event()

        def timeout_keep_alive_handler(self):
            self.closed.set()

    async def closed():
        connection = Patient(asyncio.get_running_loop())
        connection._check_idle()
        connection._unset_keepalive_if_required()  # as uvicorn does when anything arrives
        await asyncio.wait_for(connection.closed.wait(), 5)

    asyncio.run(closed())


def test_a_client_that_reads_nothing_is_cut_off():
    """An answer that nobody takes does not stay in memory for ever."""
    import asyncio

    from uvicorn.protocols.http.flow_control import FlowControl

    from zoolens.serving.http_protocol import Connection
    from zoolens.serving.options import ServerOptions

    class Transport(asyncio.Transport):
        aborted = False

        def abort(self):
            self.aborted = True

    async def clocked():
        connection = Connection.__new__(Connection)
        connection.transport, connection.loop = Transport(), asyncio.get_running_loop()
        connection.flow, connection._write_clock = FlowControl(connection.transport), None
        connection._options = ServerOptions(write_seconds=0.01)
        connection.pause_writing()
        await asyncio.sleep(0.1)
        return connection.transport.aborted

    assert asyncio.run(clocked())


def test_pipelined_requests_are_answered_in_order(server):
    messages = [f"GET /v2/health/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for name in ("live", "ready")]
    with raw(server, b"".join(messages)) as connection:
        content = b""
        end = time.monotonic() + 20
        while b"ready" not in content and time.monotonic() < end:
            content += connection.recv(1000)
    assert content.index(b'{"live":true}') < content.index(b'{"ready":true}')


def test_metrics_are_there_for_prometheus(server):
    status, headers, content = ask(server, "GET", "/metrics")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    assert b"zoolens_requests_total" in content
