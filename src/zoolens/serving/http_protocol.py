"""Connections of uvicorn, with limits that it lacks and a short way for inference.

uvicorn itself waits for headers without end, so that a client that sends one byte a minute keeps a connection for ever.
And a request takes it two tasks, an event and two writes to the socket, which is more than a small model takes. So an
inference whose length is declared is read here, straight into one buffer, answered in one task and written at once.
Whatever is unusual about a request (compression, chunks, pipelining, a path with escapes) goes uvicorn's way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import httptools
import numpy as np
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from zoolens.protocol.errors import Refusal, ServingError
from zoolens.protocol.limits import check_body
from zoolens.serving.bodies import ALIGNMENT, Held
from zoolens.serving.http import Application
from zoolens.serving.http_inference import Answer, Head, error_answer, read_head
from zoolens.serving.options import check_access

log = logging.getLogger("zoolens.serving")

_MOST_HEADER_BYTES: Final = 1 << 16
_MOST_HEADERS: Final = 256
_LINGER_SECONDS: Final = 5.0
_KEPT: Final = 256
_KEPT_BYTES: Final = 1024
_WRITE_TOGETHER: Final = 1 << 16  # parts of an answer that are joined before they are written
_UNUSUAL: Final = frozenset({"content-encoding", "transfer-encoding", "expect", "upgrade"})


@dataclass(frozen=True)
class Usual:
    """A request to infer whose body is as long as declared, and neither compressed nor in chunks."""

    path: str
    headers: Mapping[str, str]
    head: Head
    size: int


def _usual(url: bytes, fields: tuple[tuple[bytes, bytes], ...]) -> Usual | None:
    path = url.decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
    length = headers.get("content-length", "")
    if "%" in path or not length.isdecimal() or not _UNUSUAL.isdisjoint(headers):
        return None
    head = read_head(path, headers)
    return None if head is None else Usual(path, headers, head, int(length))


_kept_usual = lru_cache(_KEPT)(_usual)  # a client says the same again and again


@lru_cache(_KEPT)
def _lines(fields: tuple[tuple[str, str], ...]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in fields).encode("latin-1")


class _Ignored:
    """The event that uvicorn sets for a request of its own."""

    def set(self) -> None:
        pass


class Exchange:
    """One inference on its way: its body as it arrives, and what uvicorn asks of a request when a connection ends."""

    message_event = _Ignored()

    def __init__(self, head: Head, size: int, held: Held) -> None:
        self.head, self.held = head, held
        self.keep_alive = True
        self.response_complete = False
        self.disconnected = False
        self.missing = self._size = size
        self.task: asyncio.Task[None] | None = None
        self._start = self._place = -head.offset % ALIGNMENT
        self._whole = b""
        self._view: memoryview | None = None

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the body. One chunk that is all of it is kept as it is."""
        if len(chunk) == self._size:
            self._whole = chunk
        else:
            if self._view is None:
                self._view = np.empty(self._start + self._size, np.uint8).data
            self._view[self._place : self._place + len(chunk)] = chunk
            self._place += len(chunk)
        self.missing -= len(chunk)

    @property
    def content(self) -> bytes | memoryview:
        return self._whole if self._view is None else self._view[self._start :]


class Connection(HttpToolsProtocol):
    """One connection. `application` is set by a subclass that the server makes."""

    application: Application

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._options = self.application.options
        self._clock: asyncio.TimerHandle | None = None
        self._write_clock: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._exchange: Exchange | None = None
        self._refused = False  # whatever comes now is thrown away

    # --- limits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._options.connections:
            error = ServingError(Refusal.UNAVAILABLE, "The server has as many connections as it may.")
            self._write(error_answer(error), keep_alive=False)
        else:
            self._start_clock(self._options.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self.resume_writing()
        exchange = self._exchange
        if exchange is not None:
            exchange.disconnected = True
            if exchange.task is not None:
                exchange.task.cancel()
            else:
                self._finish(exchange)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        if self._clock is None:
            self._start_clock(self._options.header_seconds)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > _MOST_HEADER_BYTES or len(self.headers) > _MOST_HEADERS:
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_clock is None:
            self._write_clock = self.loop.call_later(self._options.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_clock is not None:
            self._write_clock.cancel()
            self._write_clock = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """An error in the form that clients of the protocol read."""
        if not self.transport.is_closing():
            self._write(error_answer(ServingError(Refusal.INVALID, "This is not an HTTP request.")), keep_alive=False)

    def _start_clock(self, seconds: float) -> None:
        self._clock = self.loop.call_later(seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        self._clock = None
        exchange = self._exchange
        if exchange is None:
            self.transport.abort()
        elif not exchange.missing:  # the headers of the next request are slow, and this one is still being answered
            self._start_clock(self._options.header_seconds)
        else:
            seconds = self._options.body_seconds
            error = ServingError(
                Refusal.TOO_SLOW, f"The body of the request did not arrive within {seconds:g} seconds."
            )
            self._refuse(exchange, error)

    # --- the short way

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        exchange = self._exchange
        if exchange is None or not exchange.missing:
            super().data_received(data)
            exchange = self._exchange
            if exchange is not None and exchange.missing and self._clock is None:
                self._start_clock(self._options.body_seconds)
        elif len(data) < exchange.missing:
            self._add(exchange, data)
        else:  # the parser has seen only the beginning of this body, so that another one takes its place
            body, rest = data[: exchange.missing], data[exchange.missing :]
            if not self._add(exchange, body):
                return
            self.parser = httptools.HttpRequestParser(self)
            self._begin(exchange)
            if rest:
                super().data_received(rest)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        if not idle or self.parser.get_method() != b"POST" or not self._take():
            super().on_headers_complete()

    def _take(self) -> bool:
        """Whether this is an inference without anything unusual, which goes the short way; or is refused here."""
        read = _kept_usual if self._header_bytes <= _KEPT_BYTES else _usual
        try:
            usual = read(self.url, tuple(self.headers))
        except ServingError:
            return False  # for the long way to say
        if usual is None:
            return False
        exchange = Exchange(usual.head, usual.size, Held(self.application.bodies))
        exchange.keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        self.cycle = self._exchange = exchange  # type: ignore[assignment]
        try:
            check_access(self._options, usual.path, usual.headers)
            check_body(usual.size, self._options.limits)
        except ServingError as error:
            self._refuse(exchange, error)
        return True

    def on_body(self, body: bytes) -> None:
        exchange = self._receiving()
        if exchange is None:
            super().on_body(body)
        else:
            self._add(exchange, body)

    def on_message_complete(self) -> None:
        exchange = self._receiving()
        if exchange is None:
            super().on_message_complete()
        else:
            self._begin(exchange)

    def _receiving(self) -> Exchange | None:
        """The exchange whose body the parser reads; None where the request is uvicorn's, or was refused."""
        current: Any = self.cycle
        return current if isinstance(current, Exchange) and not current.response_complete else None

    def _add(self, exchange: Exchange, chunk: bytes) -> bool:
        """Count and keep what has arrived; False where that is more than the server may hold."""
        try:
            exchange.held.add(len(chunk))
        except ServingError as error:
            self._refuse(exchange, error)
            return False
        exchange.add(chunk)
        return True

    def _begin(self, exchange: Exchange) -> None:
        self._stop_clock()
        exchange.task = self.loop.create_task(self._answer(exchange))
        self.tasks.add(exchange.task)
        exchange.task.add_done_callback(self.tasks.discard)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            answer = await self.application.inference.answer(exchange.head, exchange.content)
            if not self.transport.is_closing():
                self._write(answer, keep_alive=exchange.keep_alive and "Connection" not in answer.fields)
                await self.flow.drain()  # until the client has taken it, its next request waits
        except asyncio.CancelledError:
            if not exchange.disconnected:
                raise
        except (RuntimeError, OSError) as error:  # the connection broke while the answer was written
            log.info("An answer was cut off: %s", error)
            self.transport.abort()
        finally:
            self._finish(exchange)

    def _refuse(self, exchange: Exchange, error: ServingError) -> None:
        """Answer before the body was read, and close the connection.

        Most clients send all of a body before they read anything. Were the connection closed at once, they would see a
        broken pipe instead of the answer, so what they send is thrown away for a while.
        """
        exchange.missing = 0
        self._refused = True
        self._write(error_answer(error), keep_alive=True)
        exchange.held.release()
        exchange.response_complete = True
        self._exchange = None
        patience = 0.0 if error.refusal is Refusal.TOO_SLOW else _LINGER_SECONDS
        self._clock = self.loop.call_later(patience, self.transport.close)

    def _finish(self, exchange: Exchange) -> None:
        exchange.held.release()
        exchange.response_complete = True
        self._exchange = None
        if not self.transport.is_closing():
            self.on_response_complete()

    def _write(self, answer: Answer, *, keep_alive: bool) -> None:
        lines = [STATUS_LINE[answer.status]]
        for name, value in self.server_state.default_headers:
            lines.append(b"%b: %b\r\n" % (name, value))
        lines.append(_lines(tuple(answer.fields.items())))
        if (not keep_alive or self._refused) and "Connection" not in answer.fields:
            lines.append(b"connection: close\r\n")
        size = len(answer)
        lines.append(b"content-length: %d\r\n\r\n" % size)
        if size > _WRITE_TOGETHER:
            self.transport.writelines([b"".join(lines), *answer.parts])
        else:
            self.transport.write(b"".join([*lines, *answer.parts]))
        if not keep_alive:
            self.transport.close()
