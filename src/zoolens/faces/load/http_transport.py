"""The load driver's HTTP: plain asyncio connections that are kept open, parsed by httptools."""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace
from functools import partial
from typing import Any

from zoolens.base.errors import MissingDependency
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.client_base import ANSWER_LIMITS
from zoolens.base.protocol.documents import error_from
from zoolens.base.protocol.messages import InferRequest, InferResponse
from zoolens.base.protocol.rest import HEADER_LENGTH, decode_response, encode_request, parse_header_length
from zoolens.faces.load.exchanges import Outcome, outcome_of_status
from zoolens.faces.load.transport_base import Reply, Transport

_HEADER_LENGTH = HEADER_LENGTH.lower().encode()


class HttpTransport(Transport):
    def __init__(self, address: Address, token: str, *, binary: bool) -> None:
        self.address, self._token, self._binary = address, token, binary
        self._context = ssl.create_default_context() if address.secure else None
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        _library()

    def encode(self, request: InferRequest) -> list[bytes]:
        if self._binary:
            request = replace(request, parameters={**request.parameters, "binary_data_output": True})
        body = encode_request(request, binary=self._binary)
        lines = [
            f"POST {self.address.at(request.model, request.version).model_path('infer')} HTTP/1.1",
            f"Host: {self.address.authority}",
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in body.headers.items()),
            *([f"Authorization: Bearer {self._token}"] if self._token else []),
        ]
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        # A small body travels in one packet with its head; a large one is not copied.
        content = body.parts
        return [head + body.content()] if len(body) < 1 << 16 else [head, *map(bytes, content)]

    async def open(self, connections: int) -> None:
        self._idle += [await self._connect() for _ in range(connections)]

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            _Connection, self.address.host, self.address.port, ssl=self._context
        )
        self._open.add(connection)
        return connection

    async def send(self, encoded: list[bytes], seconds: float) -> Reply:
        connection: _Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._free_connection()
                reply = await connection.exchange(encoded)
        except TimeoutError:
            self._drop(connection)
            return Reply(time.perf_counter(), Outcome.TIMED_OUT, f"There was no answer within {seconds:g} s.")
        except (OSError, ssl.SSLError) as error:
            self._drop(connection)
            return Reply(time.perf_counter(), Outcome.DISCONNECTED, getattr(error, "strerror", None) or str(error))
        if connection.reusable:
            self._idle.append(connection)
        else:
            self._drop(connection)
        return reply

    async def _free_connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
            self._drop(connection)
        return await self._connect()

    def _drop(self, connection: _Connection | None) -> None:
        if connection is not None:
            self._open.discard(connection)
            connection.abort()

    async def close(self) -> None:
        for connection in self._open:
            connection.abort()
        self._open.clear()
        self._idle.clear()
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """One request at a time. httptools calls the methods that begin with `on_`."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._parser = _library().HttpResponseParser(self)
        self._answer: asyncio.Future[Reply] | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._header_length: str | None = None
        self.reusable = False

    async def exchange(self, parts: list[bytes]) -> Reply:
        self._answer = asyncio.get_running_loop().create_future()
        self._body, self._size, self._header_length = [], 0, None
        self._transport.writelines(parts)
        return await self._answer

    def abort(self) -> None:
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: Any) -> None:
        self._transport, self.reusable = transport, True

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except _library().HttpParserError as error:
            self._finish(Reply(time.perf_counter(), Outcome.UNREADABLE, f"The answer is not HTTP: {error}."))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError("the server closed the connection before it answered"))

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == _HEADER_LENGTH:
            self._header_length = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > ANSWER_LIMITS.body_bytes:
            self._finish(Reply(time.perf_counter(), Outcome.UNREADABLE, "The answer is too large."))
            self.abort()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        at, status = time.perf_counter(), self._parser.get_status_code()
        # Such as 100 Continue: the answer is still to come.
        if status < 200:
            return
        self.reusable = self._parser.should_keep_alive() and not self._transport.is_closing()
        content, outcome = b"".join(self._body), outcome_of_status(status)
        if outcome is Outcome.ANSWERED:
            read = partial(_read, content, self._header_length)
            self._finish(Reply(at, outcome, read=read, size=len(content)))
        else:
            self._finish(Reply(at, outcome, str(error_from(status, content))))

    def _finish(self, reply: Reply) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)


def _read(content: bytes, header_length: str | None) -> InferResponse:
    return decode_response(content, parse_header_length(header_length), ANSWER_LIMITS)


def _library() -> Any:
    try:
        import httptools
    except ImportError as error:
        raise MissingDependency("zoolens load", "httptools", "serve") from error
    return httptools
