"""Limits of a connection: what clients may send, and how long they may take."""

from __future__ import annotations

import socket
import time
from urllib.parse import urlsplit

import pytest

from zoolens.base.protocol.messages import InferRequest
from zoolens.base.protocol.rest import HEADER_LENGTH, encode_request
from zoolens.faces.serving.transports.test_http import X, ask, error, get, infer, raw


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

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

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

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

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

    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

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
    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.serve import serve

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


def test_slow_clients_are_cut_off(tmp_path, monkeypatch):
    """Neither headers nor bodies that never end keep a connection."""
    import asyncio

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

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
    from zoolens.base.protocol.errors import Refusal, ServingError
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.transports.bodies import BodyReader

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

    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.plane.plane_settings import EndpointSettings
    from zoolens.faces.serving.serve import serve

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


def test_a_connection_that_only_sends_line_feeds_is_idle(server):
    """Empty lines before a request are allowed, and do not keep a connection for ever."""
    import asyncio

    from zoolens.faces.serving.transports.http_protocol import Connection

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

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.transports.http_protocol import Connection

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
