"""Connections of uvicorn with limits that it lacks.

uvicorn itself waits for headers without end, so that a client that sends one byte a minute keeps a connection for ever;
and it starts and stops a timer for each request.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.transports.http import Application
from zoolens.faces.serving.transports.http_inference import HttpAnswer, error_answer

_MOST_HEADER_BYTES: Final = 1 << 16
_MOST_HEADERS: Final = 256
_CLOSING: Final = b"connection: close\r\n\r\n"
_WRITE_TOGETHER: Final = 1 << 16  # parts of an answer that are joined before they are written


class LimitedConnection(HttpToolsProtocol):
    """One connection: limited are the number of connections, the size of headers, and the time that a client may take
    to send them, to read an answer, and to send its next request. `application` is that of the server, which makes a
    subclass; so are `defaults`, uvicorn's headers for all answers, and the lines that they are."""

    application: Application
    defaults: tuple[list[tuple[bytes, bytes]], bytes] = [], b""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._options = self.application.options
        self._clock: asyncio.TimerHandle | None = None
        self._write_clock: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._idle_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._options.connections:
            error = ServingError(Refusal.UNAVAILABLE, "The server has as many connections as it may.")
            self._write(error_answer(error), keep_alive=False)
        else:
            self._start_clock(self._options.header_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self._idle_since = None
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

    def _unset_keepalive_if_required(self) -> None:
        """uvicorn would stop a timer at each request and start another one at its end. Ours runs on over many."""

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self._check_idle)

    def _check_idle(self) -> None:
        """Close a connection that has waited too long for its next request."""
        self.timeout_keep_alive_task = None
        if self._idle_since is None:
            # A request is on its way or being answered.
            return
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self.timeout_keep_alive_task = self.loop.call_later(left, self._check_idle)
        else:
            self.timeout_keep_alive_handler()

    def _start_clock(self, seconds: float) -> None:
        self._clock = self.loop.call_later(seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        """What the clock was started for did not come in time."""
        self._clock = None
        self.transport.abort()

    def _default_lines(self) -> bytes:
        """The headers that every answer has: the date, which changes once a second."""
        headers = self.server_state.default_headers
        if self.defaults[0] is not headers:
            type(self).defaults = headers, b"".join(b"%b: %b\r\n" % header for header in headers)
        return self.defaults[1]

    def _write(self, answer: HttpAnswer, *, keep_alive: bool, announce_close: bool = False) -> None:
        """Write an answer, and close the connection unless it is kept alive. `announce_close`: the client is told that
        the connection ends, and the caller ends it."""
        closing = (not keep_alive or announce_close) and "Connection" not in answer.fields
        head = (STATUS_LINE[answer.status], self._default_lines(), answer.lines, _CLOSING if closing else b"\r\n")
        if len(answer) > _WRITE_TOGETHER:
            self.transport.writelines([b"".join(head), *answer.parts])
        else:
            self.transport.write(b"".join((*head, *answer.parts)))
        if not keep_alive:
            self.transport.close()
