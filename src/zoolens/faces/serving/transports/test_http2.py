"""HTTP/2 below gRPC: frames as clients may send them, right and wrong, and what each costs the server."""

from __future__ import annotations

import asyncio
import random
import socket
import tracemalloc
from contextlib import closing
from urllib.parse import urlsplit

import numpy as np
import pytest

from zoolens.base.protocol.grpc_messages import request_to_protobuf
from zoolens.base.protocol.limits import Limits
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.protocol.protobuf import INFERENCE
from zoolens.faces.serving.transports.grpc_framing import Messages
from zoolens.faces.serving.transports.header_blocks import HeaderDecoder, encode_headers
from zoolens.faces.serving.transports.http2_frames import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME,
    FRAME_SIZE_ERROR,
    GOAWAY,
    GREETING,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    NUMBER,
    PADDED,
    PING,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    frame,
)
from zoolens.faces.serving.transports.http2_stream import STREAM_WINDOW

pytest.importorskip("google.protobuf")

X = np.random.default_rng(0).random((2, 4), np.float32)
START = GREETING + frame(SETTINGS, 0, 0)
NOTHING = f"/{INFERENCE}/SystemSharedMemoryUnregister"  # is answered with an empty message, whatever is sent


def block(path, **more):
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost", "te": "trailers"}
    headers |= {"content-type": "application/grpc"} | {name.replace("_", "-"): value for name, value in more.items()}
    return encode_headers(headers.items())


def message(content, compressed=0):
    return bytes([compressed]) + len(content).to_bytes(4, "big") + content


def asked(model="tiny", number=1):
    content = request_to_protobuf(InferRequest(model, {"input": X}, id="7")).SerializeToString()
    head = frame(HEADERS, END_HEADERS, number, block(f"/{INFERENCE}/ModelInfer"))
    return head + frame(DATA, END_STREAM, number, message(content))


class Client:
    """A socket that speaks frames."""

    def __init__(self, url, *parts):
        address = urlsplit(url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=20)
        self.reader = self.socket.makefile("rb")
        self.decoder = HeaderDecoder(1 << 16, 256)
        self.send(*parts)

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def frames(self):
        """What comes until the connection ends: kind, flags, number and content."""
        while True:
            head = self.reader.read(FRAME.size)
            if len(head) < FRAME.size:
                return
            high, low, kind, flags, number = FRAME.unpack(head)
            yield kind, flags, number, self.reader.read(high << 16 | low)

    def first(self, *kinds):
        return next(each for each in self.frames() if each[0] in kinds)

    def trailers(self):
        """The headers that end the first stream that ends, and the data before them."""
        data = b""
        for kind, flags, _, content in self.frames():
            if kind == DATA:
                data += content
            elif kind == HEADERS:
                headers = dict(self.decoder.decode(content))
                if flags & END_STREAM:
                    return headers, data
        raise AssertionError("the connection has ended")

    def ends_with(self):
        """The error with which the server ends the connection."""
        _, _, _, content = self.first(GOAWAY)
        return NUMBER.unpack_from(content, 4)[0]

    def close(self):
        self.reader.close()
        self.socket.close()


@pytest.fixture
def connect(server):
    clients = []

    def connected(*parts):
        clients.append(Client(server.urls["grpc"], *parts))
        return clients[-1]

    yield connected
    for client in clients:
        client.close()


def test_a_call_in_any_pieces_is_answered(connect):
    whole = START + asked()
    expected = connect(whole).trailers()
    assert expected[0] == {"grpc-status": "0"}
    client = connect()
    for place in range(len(whole)):
        client.send(whole[place : place + 1])
    assert client.trailers() == expected


def test_padding_priorities_continued_headers_and_frames_of_no_meaning(connect):
    head = block(NOTHING)
    parts = [
        frame(HEADERS, PADDED | WITH_PRIORITY, 1, b"\x02" + bytes(5) + head[:20] + bytes(2)),
        frame(CONTINUATION, 0, 1, head[20:40]),
        frame(CONTINUATION, END_HEADERS, 1, head[40:]),
        frame(0x77, 0xFF, 1, b"what nobody knows is ignored"),
        frame(DATA, PADDED, 1, b"\x03" + message(b"ab")[:3] + bytes(3)),
        frame(DATA, 0, 1, b""),
        frame(DATA, 0, 1, message(b"ab")[3:]),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers([("its-trailer", "1")])),
    ]
    assert connect(START, *parts).trailers() == ({"grpc-status": "0"}, message(b""))


def test_pings_and_settings_are_answered(connect):
    client = connect(START, frame(PING, 0, 0, b"12345678"))
    assert client.first(SETTINGS)[1] == 0
    assert client.first(SETTINGS)[1] == ACK
    assert client.first(PING) == (PING, ACK, 0, b"12345678")


def test_an_answer_waits_until_the_client_takes_it(connect):
    nothing = SETTING.pack(INITIAL_WINDOW_SIZE, 0)
    client = connect(GREETING, frame(SETTINGS, 0, 0, nothing), asked())
    assert client.first(HEADERS)[1] == END_HEADERS
    client.send(frame(PING, 0, 0, bytes(8)))
    assert client.first(DATA, PING)[0] == PING
    client.send(frame(WINDOW_UPDATE, 0, 1, NUMBER.pack(10)))
    assert len(client.first(DATA)[3]) == 10
    client.send(frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1 << 20)))
    headers, data = client.trailers()
    assert headers == {"grpc-status": "0"}
    assert len(data) > 10


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", PROTOCOL_ERROR),
        (START + frame(DATA, 0, 1, b"x"), PROTOCOL_ERROR),
        (START + frame(HEADERS, END_HEADERS, 2, block(NOTHING)), PROTOCOL_ERROR),
        (START + frame(HEADERS, 0, 1, b"") + frame(PING, 0, 0, bytes(8)), PROTOCOL_ERROR),
        (START + frame(CONTINUATION, END_HEADERS, 1, b""), PROTOCOL_ERROR),
        (START + frame(HEADERS, END_HEADERS | PADDED, 1, b"\x09abc"), PROTOCOL_ERROR),
        (START + frame(PUSH_PROMISE, 0, 1, bytes(4)), PROTOCOL_ERROR),
        (START + frame(RST_STREAM, 0, 1, bytes(4)), PROTOCOL_ERROR),
        (START + frame(WINDOW_UPDATE, 0, 0, bytes(4)), PROTOCOL_ERROR),
        (START + frame(WINDOW_UPDATE, 0, 0, NUMBER.pack((1 << 31) - 1)), FLOW_CONTROL_ERROR),
        (START + frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1 << 31)), FLOW_CONTROL_ERROR),
        (START + frame(PING, 0, 0, b"short"), FRAME_SIZE_ERROR),
        (START + frame(SETTINGS, 0, 0, b"odd"), FRAME_SIZE_ERROR),
        (START + FRAME.pack(0xFF, 0xFFFF, DATA, 0, 1), FRAME_SIZE_ERROR),
        (START + FRAME.pack(2, 0, HEADERS, 0, 1), ENHANCE_YOUR_CALM),
        (START + frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff\xff"), 9),
        (START + frame(HEADERS, 0, 1, b"") + frame(CONTINUATION, 0, 1) * 100, ENHANCE_YOUR_CALM),
        (START + frame(SETTINGS, 0, 0) * 200, ENHANCE_YOUR_CALM),
        (START + frame(HEADERS, END_HEADERS, 0, block(NOTHING)), PROTOCOL_ERROR),
        (START + frame(HEADERS, END_HEADERS, 1, b"\x20" * 60_000), 9),
        (
            START
            + frame(HEADERS, END_HEADERS, 1, block(NOTHING))
            + frame(WINDOW_UPDATE, 0, 1, NUMBER.pack((1 << 31) - 1 - 65_535))
            + frame(SETTINGS, 0, 0, SETTING.pack(INITIAL_WINDOW_SIZE, 1 << 20)),
            FLOW_CONTROL_ERROR,
        ),
    ],
)
def test_connections_that_cannot_be_read_any_further_end(connect, sent, code):
    assert connect(sent).ends_with() == code


@pytest.mark.parametrize(
    ("path", "headers", "data", "status"),
    [
        (f"/{INFERENCE}/Absent", {}, message(b""), "12"),
        (f"/{INFERENCE}/ModelInfer", {}, b"", "3"),
        (f"/{INFERENCE}/ModelInfer", {}, message(b"abc")[:-1], "3"),
        (f"/{INFERENCE}/ModelInfer", {}, message(b"") * 2, "3"),
        (f"/{INFERENCE}/ModelInfer", {}, b"\x07" + message(b"")[1:], "3"),
        (f"/{INFERENCE}/ModelInfer", {}, message(b"x", 1), "12"),
        (f"/{INFERENCE}/ModelInfer", {"grpc_encoding": "gzip"}, message(b"x", 1), "3"),
        (f"/{INFERENCE}/ModelInfer", {"grpc_timeout": "soon"}, message(b""), "3"),
        (f"/{INFERENCE}/ModelStreamInfer", {}, message(b"abc")[:-1], "3"),
    ],
)
def test_calls_that_are_none_get_a_status(connect, path, headers, data, status):
    head = frame(HEADERS, END_HEADERS, 1, block(path, **headers))
    found, _ = connect(START, head, frame(DATA, END_STREAM, 1, data)).trailers()
    assert found["grpc-status"] == status
    assert found["grpc-message"]


def test_what_is_not_grpc_gets_a_status_of_http(connect):
    unlike = (
        (":method", "GET", "405"),
        ("content-type", "text/html", "415"),
        ("content-type", "application/grpc-web", "415"),
    )
    for name, value, status in unlike:
        headers = {":method": "POST", ":path": NOTHING, "content-type": "application/grpc", name: value}
        head = frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers(headers.items()))
        assert connect(START, head).trailers()[0] == {":status": status}


@pytest.mark.parametrize(
    "more",
    [("X-Upper", "1"), ("with space", "1"), ("", "1"), ("x", "two\r\nlines"), ("x", "\0"), (":path", NOTHING)],
)
def test_headers_that_others_would_read_differently_are_refused(connect, more):
    headers = [(":method", "POST"), (":path", NOTHING), ("content-type", "application/grpc"), more]
    head = frame(HEADERS, END_HEADERS | END_STREAM, 1, encode_headers(headers))
    assert connect(START, head).trailers()[0] == {":status": "400"}


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
@pytest.mark.parametrize(("timeout", "status"), [("0S", "4"), ("0n", "4"), ("99999999H", "0"), ("9" * 99 + "H", "3")])
def test_deadlines_without_measure(connect, method, timeout, status):
    content = request_to_protobuf(InferRequest("tiny", {"input": X}, id="7")).SerializeToString()
    head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/{method}", grpc_timeout=timeout))
    found, _ = connect(START, head, frame(DATA, END_STREAM, 1, message(content))).trailers()
    assert found["grpc-status"] == status


def test_padding_counts_in_the_windows(connect):
    """Otherwise a client that pads would have no window left one day, although the server has taken everything."""
    head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/ModelStreamInfer"))
    padded = frame(DATA, PADDED, 1, b"\xff" + bytes(255))
    client = connect(START, head, padded * (STREAM_WINDOW // 2 // 256 + 1))
    while True:
        _, _, number, more = client.first(WINDOW_UPDATE)
        if number == 1:
            break
    assert NUMBER.unpack(more)[0] >= STREAM_WINDOW // 2


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(connect):
    head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/ModelInfer"))
    client = connect(START, head, frame(DATA, 0, 1, bytes([0]) + (100_001).to_bytes(4, "big")))
    assert client.trailers()[0]["grpc-status"] == "8"
    # What it had sent before it knew is thrown away.
    client.send(frame(DATA, 0, 1, bytes(10_000)), asked(number=3))
    assert client.trailers()[0] == {"grpc-status": "0"}


def test_a_call_that_is_reset_is_cancelled(connect, server):
    statistics = server.plane.endpoint("slow").counters
    before = sum(statistics.refusals.values())
    client = connect(START, asked("slow"))
    client.send(frame(RST_STREAM, 0, 1, NUMBER.pack(CANCEL)), asked(number=3))
    assert client.trailers()[0] == {"grpc-status": "0"}
    assert sum(statistics.refusals.values()) == before + 1


def test_spoilt_frames_leave_the_server_as_it_is(connect, server):
    rng = random.Random(1)
    address = urlsplit(server.urls["grpc"])
    for _ in range(300):
        content = bytearray(START + asked() + asked(number=3))
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(GREETING), len(content))
            change = rng.randrange(3)
            if change == 0:
                del content[place : place + rng.randint(1, 20)]
            elif change == 1:
                content[place:place] = rng.randbytes(rng.randint(1, 20))
            else:
                content[place] ^= 1 << rng.randrange(8)
        with closing(socket.create_connection((address.hostname, address.port))) as spoilt:
            spoilt.sendall(content)
    assert connect(START, asked()).trailers()[0] == {"grpc-status": "0"}


async def _serve(tmp_path, monkeypatch, talk, at_end=None, **options):
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    chosen = ServerOptions(http_port=None, grpc_port=0, drain_seconds=1, **options)
    async with open_plane() as plane, Server(plane, chosen) as server:
        found = await asyncio.to_thread(talk, server.urls["grpc"])
        if at_end is not None:
            await at_end()
        return found


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"PRI * HTTP", "header_seconds"),
        (START + FRAME.pack(0, 100, HEADERS, END_HEADERS, 1) + b"x", "header_seconds"),
        (START + frame(HEADERS, 0, 1, b"x"), "header_seconds"),
        (START, "idle_seconds"),
    ],
)
def test_clients_that_are_silent_are_left(tmp_path, monkeypatch, sent, limit):
    def talk(url):
        with closing(Client(url, sent)) as client:
            return [kind for kind, *_ in client.frames()]

    assert asyncio.run(_serve(tmp_path, monkeypatch, talk, **{limit: 0.05}))[0] == SETTINGS


def test_messages_that_come_too_slowly_are_refused_and_others_are_not(tmp_path, monkeypatch):
    def talk(url):
        head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/ModelInfer"))
        other = frame(HEADERS, END_HEADERS, 3, block(NOTHING)) + frame(DATA, END_STREAM, 3, message(b""))
        with closing(Client(url, START, head, frame(DATA, 0, 1, message(b"abc")[:-1]), other)) as client:
            return client.trailers()[0], client.trailers()[0]

    first, second = asyncio.run(_serve(tmp_path, monkeypatch, talk, body_seconds=0.05))
    assert first == {"grpc-status": "0"}
    assert second["grpc-status"] == "4"


def test_a_stream_that_is_too_slow_leaves_no_task(tmp_path, monkeypatch):
    def talk(url):
        head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/ModelStreamInfer"))
        with closing(Client(url, START, head, frame(DATA, 0, 1, message(b"abc")[:-1]))) as client:
            return client.trailers()[0]["grpc-status"]

    async def emptied():
        async with asyncio.timeout(5):
            while any("_Service._stream" in repr(task) or "StreamCall" in repr(task) for task in asyncio.all_tasks()):
                await asyncio.sleep(0)

    assert asyncio.run(_serve(tmp_path, monkeypatch, talk, emptied, body_seconds=0.05)) == "4"


@pytest.fixture
def connected():
    """A connection whose client takes nothing, and what it is connected with."""
    from types import SimpleNamespace
    from unittest.mock import Mock

    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.transports.http2 import Connection

    def made():
        transport = Mock()
        transport.is_closing.return_value = False
        transport.close.side_effect = lambda: setattr(transport.is_closing, "return_value", True)
        connection = Connection(SimpleNamespace(options=ServerOptions(), heads={}, connections=set(), waiting=0))
        connection.connection_made(transport)
        connection.data_received(START)
        return connection, transport

    return made


def test_settings_are_limited_in_a_time_and_not_in_a_life(connected):
    """Clients that measure the line say a new window now and then, for as long as they are connected."""

    async def main():
        connection, transport = connected()
        for _ in range(5):
            connection.data_received(frame(SETTINGS, 0, 0) * 90)
            connection._look()
        transport.close.assert_not_called()
        connection.data_received(frame(SETTINGS, 0, 0) * 101)
        transport.close.assert_called_once()

    asyncio.run(main())


def test_a_connection_that_ends_waits_only_so_long_for_its_client(connected):
    async def main():
        connection, transport = connected()
        connection.leave()
        connection._look()
        transport.abort.assert_not_called()
        now = connection.now()
        connection.now = lambda: now + 61
        connection._look()
        transport.abort.assert_called_once()
        connection.connection_lost(None)

    asyncio.run(main())


def test_bytes_of_messages_that_are_not_complete_are_counted(tmp_path, monkeypatch):
    """A client may announce what it likes: it is refused when the bytes that have arrived are too many."""

    def talk(url):
        head = frame(HEADERS, END_HEADERS, 1, block(f"/{INFERENCE}/ModelInfer"))
        piece = frame(DATA, 0, 1, bytes([0]) + (60_000_000).to_bytes(4, "big") + bytes(10_000))
        with closing(Client(url, START, head, piece)) as client:
            return client.trailers()[0]

    assert asyncio.run(_serve(tmp_path, monkeypatch, talk, held_bytes=5000))["grpc-status"] == "8"


@pytest.mark.slow
def test_answers_that_nobody_takes_do_not_pile_up(tmp_path, monkeypatch):
    """A client that opens every window and reads nothing: what the socket does not take is counted, and is too much."""
    from zoolens.faces.serving.conftest import write_fake
    from zoolens.faces.serving.options import ServerOptions
    from zoolens.faces.serving.plane.data_plane import open_plane
    from zoolens.faces.serving.plane.plane_settings import EndpointSettings
    from zoolens.faces.serving.server import Server

    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path))
    most = SETTING.pack(INITIAL_WINDOW_SIZE, (1 << 31) - 1)
    requests = [asked("wide", number) for number in range(1, 61, 2)]  # whose answers have 800 kB

    async def main():
        options = ServerOptions(http_port=None, grpc_port=0, drain_seconds=1, held_bytes=5_000_000)
        async with (
            open_plane([write_fake(tmp_path, "wide", classes=100_000)], EndpointSettings(max_batch=2)) as plane,
            Server(plane, options) as server,
        ):
            window = frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(1 << 30))
            url = server.urls["grpc"]
            with closing(Client(url, GREETING, frame(SETTINGS, 0, 0, most), window, *requests)) as client:
                while plane.endpoint("wide").counters.successes < len(requests):
                    await asyncio.sleep(0.01)
                service = server._grpc._service
                waiting = service.waiting
                [connection] = service.connections
                buffered = connection._transport.get_write_buffer_size()
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            while service.connections:
                await asyncio.sleep(0.01)
            return waiting, buffered, service.waiting

    waiting, buffered, after = asyncio.run(asyncio.wait_for(main(), 30))
    assert 0 < waiting <= 5_000_000
    assert buffered < 5_000_000
    assert after == 0


def test_connections_have_a_limit(tmp_path, monkeypatch):
    def talk(url):
        with closing(Client(url, START)) as first, closing(Client(url, START)) as second:
            code = second.ends_with()
            first.send(frame(HEADERS, END_HEADERS, 1, block(NOTHING)), frame(DATA, END_STREAM, 1, message(b"")))
            return code, first.trailers()[0]

    assert asyncio.run(_serve(tmp_path, monkeypatch, talk, connections=1)) == (ENHANCE_YOUR_CALM, {"grpc-status": "0"})


def test_messages_in_small_pieces_take_no_more_memory_than_large_ones():
    messages = Messages(Limits())
    arrived = memoryview(bytes([0]) + (10_000).to_bytes(4, "big") + bytes(range(250)) * 40)
    tracemalloc.start()
    for place in range(len(arrived)):
        assert not messages.complete()
        messages.add(arrived[place : place + 1])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert messages.complete()
    assert held < 40_000
    assert messages.take() == (False, bytes(range(250)) * 40)
    assert not messages.incomplete


def test_a_piece_does_not_keep_what_arrived_with_it():
    messages = Messages(Limits())
    tracemalloc.start()
    messages.add(memoryview(bytes(1_000_000))[:10_000])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 50_000


def test_many_messages_in_one_piece_are_taken_in_their_order():
    messages = Messages(Limits())
    contents = [bytes([place % 256]) * (place % 7) for place in range(20_000)]
    messages.add(memoryview(b"".join(map(message, contents))))
    taken = []
    while messages.complete():
        taken.append(messages.take()[1])
    assert taken == contents
