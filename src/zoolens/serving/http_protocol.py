"""Connections of uvicorn with limits on what comes before a body: the time for the headers, and their size.

uvicorn itself waits for headers without end, so that a client that sends one byte a minute keeps a connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_HEADER_BYTES: Final = 1 << 16
_MOST_HEADERS: Final = 256


class LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose next request does not have all its headers in time; set `header_seconds` in a subclass.

    The clock runs from the connection's begin, and from the first byte of each later request.
    """

    header_seconds: float = 10.0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._clock: asyncio.TimerHandle | None = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        if self._clock is None:
            self._start_clock()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._stop_clock()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """An error in the form that clients of the protocol read."""
        content = b'{"error":"This is not an HTTP request."}'
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
                b"content-length: %d\r\n\r\n%b" % (len(content), content)
            )
            self.transport.close()

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > _MOST_HEADER_BYTES or len(self.headers) > _MOST_HEADERS:
            self.transport.abort()

    def _start_clock(self) -> None:
        self._clock = self.loop.call_later(self.header_seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _too_slow(self) -> None:
        self._clock = None
        self.transport.abort()
