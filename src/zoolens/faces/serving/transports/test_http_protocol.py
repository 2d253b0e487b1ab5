"""The short way of an inference over a connection: heads that come again, large bodies, several requests at once."""

from __future__ import annotations

import http.client
import select
import threading
import time

import numpy as np
import pytest

from zoolens.base.protocol.messages import InferRequest
from zoolens.base.protocol.rest import HEADER_LENGTH, decode_response, encode_request
from zoolens.faces.serving.transports.test_http import X, get, infer, outputs, raw


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

    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

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
    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.serve import serve

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


def test_pipelined_requests_are_answered_in_order(server):
    messages = [f"GET /v2/health/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for name in ("live", "ready")]
    with raw(server, b"".join(messages)) as connection:
        content = b""
        end = time.monotonic() + 20
        while b"ready" not in content and time.monotonic() < end:
            content += connection.recv(1000)
    assert content.index(b'{"live":true}') < content.index(b'{"ready":true}')


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
