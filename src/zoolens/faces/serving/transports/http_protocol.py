"""Connections with a short way for inference.

A request takes uvicorn two tasks, an event and two writes to the socket, which is more than a small model takes. So an
inference whose length is declared is read here, straight into one buffer, answered without a task and written at once.
Whatever is unusual about a request (compression, chunks, pipelining, a path with escapes) goes uvicorn's way.

The base class is private to uvicorn, which has no public way to read a request without its tasks. What it buys, with
benchmarks/serve_overhead.py --payload "3 kB" on two busy ARM cores, medians of three runs: REST adds 0.50 ms (p50) to a
call here, and 0.75 ms with uvicorn's own class.

A client says the same again and again. So a head (the request line and the headers) that was parsed and accepted is
kept, byte by byte, with what it says, and is not parsed again. Heads without the token are not kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

import httptools

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import check_body
from zoolens.faces.serving.options import check_access
from zoolens.faces.serving.transports.bodies import HeldBytes
from zoolens.faces.serving.transports.http_exchange import Exchange, Usual, usual_request
from zoolens.faces.serving.transports.http_inference import HttpAnswer, error_answer
from zoolens.faces.serving.transports.http_limits import LimitedConnection

log = logging.getLogger("zoolens.serving")

_LINGER_SECONDS: Final = 5.0
_END_OF_HEAD: Final = b"\r\n\r\n"
_LARGE_BODY: Final = 1 << 17  # bytes that are still to come: it then pays to read them where they belong
_KEPT: Final = 256
_KEPT_BYTES: Final = 1024


class BodyReceiver(asyncio.BufferedProtocol):
    """Stands in for a connection while the rest of a large body arrives: the event loop then reads straight into the
    place where the body belongs, and nothing is copied."""

    def __init__(self, connection: Connection, exchange: Exchange) -> None:
        self._connection, self._exchange = connection, exchange

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._exchange.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.body_received(self._exchange, nbytes)

    def eof_received(self) -> None:
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


class Connection(LimitedConnection):
    """One connection. `heads` is what is known of heads by their bytes; the server's subclass has it for all."""

    heads: dict[bytes, Usual]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._exchange: Exchange | None = None
        self._refused = False  # whatever comes now is thrown away
        # The parser has seen the end of a request, and nothing of the next one.
        self._between = True
        self._taken: tuple[Usual, Exchange] | None = None

    # --- the connection

    def connection_lost(self, exc: Exception | None) -> None:
        exchange = self._exchange
        if exchange is not None:
            exchange.disconnected = True
            if exchange.task is not None:
                exchange.task.cancel()
            else:
                if exchange.cancel is not None:
                    exchange.cancel()
                self._finish(exchange)
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._between = False

    def _too_slow(self) -> None:
        exchange = self._exchange
        if exchange is None:
            super()._too_slow()
            return
        # The headers of the next request are slow, and this one is still being answered.
        if not exchange.missing:
            self._start_clock(self._options.header_seconds)
            return
        self._clock = None
        seconds = self._options.body_seconds
        error = ServingError(Refusal.TOO_SLOW, f"The body of the request did not arrive within {seconds:g} seconds.")
        self._refuse(exchange, error)

    # --- how a request arrives

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        exchange = self._exchange
        if exchange is not None and exchange.missing:
            self._receive_body(exchange, data)
        elif self._between and (self.cycle is None or self.cycle.response_complete):
            self._receive_head(data)
        else:
            super().data_received(data)
            self._await_body()

    def _receive_head(self, data: bytes) -> None:
        """The beginning of a request, where no other is being answered."""
        end = data.find(_END_OF_HEAD, 0, _KEPT_BYTES)
        head = data[: end + len(_END_OF_HEAD)] if end > 0 else b""
        usual = self.heads.get(head)
        if usual is None or len(data) - len(head) > usual.size:
            self._taken = None
            super().data_received(data)
            if self._taken is not None and not self._refused:
                usual, exchange = self._taken
                # The parser, too, saw the head end there.
                if head and exchange.received == len(data) - len(head):
                    self._keep(head, usual)
            self._await_body()
        elif not self.transport.is_closing():
            if self._clock is not None:
                self._stop_clock()
            self._idle_since = None
            exchange = self._take(usual)
            if len(data) - len(head) < usual.size:
                if self._add(exchange, memoryview(data)[len(head) :]):
                    self._await_body()
            elif self._count_held(exchange, usual.size):
                exchange.add_whole(data[len(head) :])
                self._begin(exchange)

    def _keep(self, head: bytes, usual: Usual) -> None:
        if len(self.heads) >= _KEPT:
            self.heads.clear()
        self.heads[head] = usual

    def _await_body(self) -> None:
        exchange = self._exchange
        if exchange is not None and exchange.missing and self._clock is None:
            self._start_clock(self._options.body_seconds)
            if exchange.missing >= _LARGE_BODY:
                self._read_with(BodyReceiver(self, exchange))

    def _read_with(self, protocol: asyncio.BaseProtocol) -> None:
        # How a loop reads is settled when it begins to.
        self.transport.pause_reading()
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    def body_received(self, exchange: Exchange, size: int) -> None:
        """Called when this many bytes were put where the body had room."""
        if exchange.response_complete:  # it was refused
            self._read_with(self)
            return
        if not self._count_held(exchange, size):
            self._read_with(self)
            return
        exchange.fill(size)
        if not exchange.missing:
            self._read_with(self)
            self._complete_body(exchange)

    def _receive_body(self, exchange: Exchange, data: bytes) -> None:
        if len(data) < exchange.missing:
            self._add(exchange, data)
            return
        body, rest = data[: exchange.missing], data[exchange.missing :]
        if not self._add(exchange, body):
            return
        self._complete_body(exchange)
        if rest:
            self.data_received(rest)

    def _complete_body(self, exchange: Exchange) -> None:
        # The parser has seen only the beginning of this body: another one takes its place.
        if not self._between:
            self.parser = httptools.HttpRequestParser(self)
            self._between = True
        self._begin(exchange)

    def on_headers_complete(self) -> None:
        self._stop_clock()
        if self.transport.is_closing():
            return
        idle = self.cycle is None or self.cycle.response_complete
        if not idle or self.parser.get_method() != b"POST" or not self._take_parsed():
            super().on_headers_complete()

    def _take_parsed(self) -> bool:
        """Whether this is an inference without anything unusual, which goes the short way; or is refused here."""
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        try:
            usual = usual_request(self.url, self.headers, keep_alive)
        except ServingError:
            return False  # for the long way to say
        if usual is None:
            return False
        exchange = self._take(usual)
        try:
            check_access(self._options, usual.path, usual.headers)
            check_body(usual.size, self._options.limits)
        except ServingError as error:
            self._refuse(exchange, error)
        else:
            self._taken = usual, exchange
        return True

    def _take(self, usual: Usual) -> Exchange:
        exchange = Exchange(usual, HeldBytes(self.application.bodies))
        self.cycle = self._exchange = exchange  # type: ignore[assignment]
        return exchange

    def on_body(self, body: bytes) -> None:
        exchange = self._receiving()
        if exchange is None:
            super().on_body(body)
        else:
            self._add(exchange, body)

    def on_message_complete(self) -> None:
        self._between = True
        exchange = self._receiving()
        if exchange is None:
            super().on_message_complete()
        else:
            self._begin(exchange)

    def _receiving(self) -> Exchange | None:
        """The exchange whose body the parser reads; None where the request is uvicorn's, or was refused."""
        current: Any = self.cycle
        return current if isinstance(current, Exchange) and not current.response_complete else None

    def _add(self, exchange: Exchange, chunk: bytes | memoryview) -> bool:
        """Count and keep what has arrived; False where that is more than the server may hold."""
        if not self._count_held(exchange, len(chunk)):
            return False
        exchange.add(chunk)
        return True

    def _count_held(self, exchange: Exchange, size: int) -> bool:
        try:
            exchange.held.add(size)
        except ServingError as error:
            self._refuse(exchange, error)
            return False
        return True

    # --- how it is answered

    def _begin(self, exchange: Exchange) -> None:
        if self._clock is not None:
            self._stop_clock()
        exchange.cancel = self.application.inference.begin(
            exchange.head, exchange.content, partial(self._answered, exchange)
        )
        if exchange.cancel is None:
            self._spawn(exchange, self._answer(exchange))

    def _spawn(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        exchange.task = self.loop.create_task(work)
        self.tasks.add(exchange.task)
        exchange.task.add_done_callback(self.tasks.discard)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            answer = await self.application.inference.answer(exchange.head, exchange.content)
        except asyncio.CancelledError:
            self._finish(exchange)
            if not exchange.disconnected:
                raise
            return
        exchange.task = None
        self._answered(exchange, answer)

    def _answered(self, exchange: Exchange, answer: HttpAnswer) -> None:
        if exchange.response_complete:  # its client has gone
            return
        try:
            if not self.transport.is_closing():
                self._write(answer, keep_alive=exchange.keep_alive and "Connection" not in answer.fields)
        except (RuntimeError, OSError) as error:
            # The connection broke while the answer was written.
            log.info("An answer was cut off: %s", error)
            self.transport.abort()
        if self.flow.write_paused:
            self._spawn(exchange, self._drain(exchange))
        else:
            self._finish(exchange)

    async def _drain(self, exchange: Exchange) -> None:
        """Until the client has taken its answer, its next request waits."""
        try:
            await self.flow.drain()
        except asyncio.CancelledError:
            if not exchange.disconnected:
                raise
        finally:
            self._finish(exchange)

    def _refuse(self, exchange: Exchange, error: ServingError) -> None:
        """Answer before the body was read, and close the connection.

        Most clients send all of a body before they read anything. Were the connection closed at once, they would see a
        broken pipe instead of the answer, so what they send is thrown away for a while.
        """
        exchange.missing = 0
        self._refused = True
        self._write(error_answer(error), keep_alive=True, announce_close=True)
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
