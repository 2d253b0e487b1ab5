"""HTTP/2 (RFC 9113) on the event loop: as much of a server as calls of gRPC need, with limits.

Python's gRPC package takes two threads of its own and the event loop in turns for a call, which is as long as a small
model takes, and holds messages that nobody counts before they are complete. Here a call that arrives in one piece is
read, begun and answered in the turn of the event loop in which it arrives, and bytes count as they do.

Whatever a client may do without end has a limit: headers, frames that are not complete, calls at a time, answers that
it does not take, time without a call. A client that does not take what is written to it is not read from either, so
that frames that must be answered (pings, settings) fill no memory. A stream that is reset is cancelled at once, so that
opening and resetting many costs no more than asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final, Protocol

from zoolens.base.protocol.datatypes import Buffer
from zoolens.faces.serving.options import ServerOptions
from zoolens.faces.serving.transports.header_blocks import Header, HeaderDecoder, HeaderError
from zoolens.faces.serving.transports.http2_frames import (
    ACK,
    CANCEL,
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    FIRST_FRAME,
    FIRST_WINDOW,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADER_TABLE_SIZE,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    MOST_WINDOW,
    NO_ERROR,
    NUMBER,
    PING,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    REFUSED_STREAM,
    RST_STREAM,
    SETTING,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    BrokenRule,
    frame,
)
from zoolens.faces.serving.transports.http2_reader import MOST_FRAME, MOST_HEADER_BYTES, FrameReader
from zoolens.faces.serving.transports.http2_stream import STREAM_WINDOW, Receiver, Stream

_CONNECTION_WINDOW: Final = 1 << 30  # what all streams together hold is counted elsewhere
_MOST_HEADERS: Final = 256
_MOST_SETTINGS: Final = 100  # frames between two looks; each may change the windows of all streams
_PING_BYTES: Final = 8
_KEPT: Final = 256
_KEPT_BYTES: Final = 1024
_LOOKS: Final = 4  # at what may take too long, in the time that it may take


class Application(Protocol):
    """What answers. `heads` is what is known of blocks of headers by their bytes, `waiting` the bytes of answers that
    clients do not take yet; the connections keep both."""

    options: ServerOptions
    heads: dict[bytes, Any]
    connections: set[Connection]
    waiting: int

    def head(self, headers: Sequence[Header]) -> tuple[Any, bool]:
        """What headers say, and whether that may be kept."""
        ...

    def open(self, stream: Stream, head: Any) -> Receiver: ...


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, application: Application) -> None:
        self._application, self._options = application, application.options
        self._loop = asyncio.get_running_loop()
        self.window, self.most_frame = FIRST_WINDOW, FIRST_FRAME
        self._first_window = FIRST_WINDOW
        self._transport: asyncio.Transport | None = None
        self._decoder = HeaderDecoder(MOST_HEADER_BYTES, _MOST_HEADERS)
        self.streams: dict[int, Stream] = {}
        self._last = 0  # the highest number of a stream
        self._room = _CONNECTION_WINDOW
        self._reader = FrameReader(self)
        self._leaving = False
        self._settings = 0  # frames of them since it was last looked
        # When the client last had a call, began a frame that is not complete, or took nothing of what was written; and
        # when it was to be closed.
        self._idle_since: float | None = self.now()
        self._partial_since: float | None = self.now()
        self._paused_since: float | None = None
        self._closing_since: float | None = None
        options = self._options
        self._look_seconds = (
            min(options.header_seconds, options.body_seconds, options.idle_seconds, options.write_seconds) / _LOOKS
        )
        self._looking: asyncio.TimerHandle | None = None

    # --- the connection

    def now(self) -> float:
        return self._loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._application.connections.add(self)
        settings = {
            # With a table, equal headers would have other bytes each time, and would have to be read again.
            HEADER_TABLE_SIZE: 0,
            MAX_CONCURRENT_STREAMS: self._options.connections,
            INITIAL_WINDOW_SIZE: STREAM_WINDOW,
            MAX_FRAME_SIZE: MOST_FRAME,
            MAX_HEADER_LIST_SIZE: MOST_HEADER_BYTES,
        }
        payload = b"".join(SETTING.pack(*setting) for setting in settings.items())
        more = NUMBER.pack(_CONNECTION_WINDOW - FIRST_WINDOW)
        self.write([frame(SETTINGS, 0, 0, payload), frame(WINDOW_UPDATE, 0, 0, more)])
        if len(self._application.connections) > self._options.connections:
            self._end(ENHANCE_YOUR_CALM)
        else:
            self._looking = self._loop.call_later(self._look_seconds, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._application.connections.discard(self)
        self._transport = None
        if self._looking is not None:
            self._looking.cancel()
        for stream in list(self.streams.values()):
            stream.lose()

    def pause_writing(self) -> None:
        if self._transport is not None and self._paused_since is None:
            self._paused_since = self.now()
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused_since = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._flush_all()

    @property
    def paused(self) -> bool:
        return self._paused_since is not None

    def write(self, parts: Sequence[Buffer]) -> None:
        transport = self._transport
        if parts and transport is not None and not transport.is_closing():
            transport.write(parts[0] if len(parts) == 1 else b"".join(parts))

    def keep(self, size: int) -> bool:
        if self._application.waiting + size > self._options.held_bytes:
            return False
        self._application.waiting += size
        return True

    def sent(self, size: int) -> None:
        self._application.waiting -= size

    def leave(self) -> None:
        """Take no more calls, and close when those that run are answered."""
        self._leaving = True
        self.write([frame(GOAWAY, 0, 0, NUMBER.pack(self._last) + NUMBER.pack(NO_ERROR))])
        if not self.streams:
            self._close()

    def _close(self) -> None:
        """Close when what was written has been sent, or the client does not take it in time."""
        if self._transport is not None and not self._transport.is_closing():
            self._closing_since = self.now()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _end(self, code: int, message: str = "") -> None:
        """Say why the connection ends, and end it."""
        payload = NUMBER.pack(self._last) + NUMBER.pack(code) + message.encode()
        self.write([frame(GOAWAY, 0, 0, payload)])
        self._leaving = True
        self._close()

    def _look(self) -> None:
        """Look for whatever takes too long. One timer runs on: one for each call would cost time."""
        options, now = self._options, self.now()
        self._looking = self._loop.call_later(self._look_seconds, self._look)
        self._settings = 0

        def late(since: float | None, seconds: float) -> bool:
            return since is not None and now - since > seconds

        takes_nothing = late(self._paused_since, options.write_seconds) or late(
            self._closing_since, options.write_seconds
        )
        if takes_nothing or late(self._partial_since, options.header_seconds):
            self.abort()
            return
        if late(self._idle_since, options.idle_seconds):
            self.leave()
            return
        for stream in list(self.streams.values()):
            if late(stream.stalled_since, options.write_seconds):
                stream.reset(CANCEL)
            elif late(stream.reading_since, options.body_seconds) and stream.receiver is not None:
                stream.receiver.too_slow()

    def forget(self, stream: Stream) -> None:
        """A stream is closed."""
        stream.closed = True
        # Both refer to one another.
        stream.receiver = None
        self.streams.pop(stream.number, None)
        if not self.streams:
            self._idle_since = self.now()
            if self._leaving:
                # What ends the stream is written behind this.
                self._loop.call_soon(self._close)

    # --- what arrives

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        try:
            completed = self._reader.feed(data)
        except (BrokenRule, HeaderError) as error:
            self._end(error.code if isinstance(error, BrokenRule) else COMPRESSION_ERROR, str(error))
            return
        if completed:
            self._partial_since = None
        if self._partial_since is None and self._reader.waits:
            self._partial_since = self.now()

    def count(self, number: int, length: int) -> None:
        """Count a frame of data, also one for a stream that is closed, and let the client send more."""
        if number == 0 or number > self._last:
            raise BrokenRule(PROTOCOL_ERROR, "data for a stream that was not opened")
        self._room -= length
        if self._room < 0:
            raise BrokenRule(FLOW_CONTROL_ERROR, "more data than there is a window for")
        if self._room < _CONNECTION_WINDOW // 2:
            self.write([frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(_CONNECTION_WINDOW - self._room))])
            self._room = _CONNECTION_WINDOW

    def on_data(self, number: int, chunk: memoryview, ended: bool, padding: int = 0) -> None:
        stream = self.streams.get(number)
        if stream is None:  # it is closed: what the client had sent before it knew
            return
        if stream.ended:
            stream.reset(STREAM_CLOSED)
            return
        stream.ended = ended
        stream.count(len(chunk) + padding)
        if stream.receiver is not None:
            stream.receiver.received(chunk, ended)

    def on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == RST_STREAM:
            self._on_reset(number, payload)
        elif kind == WINDOW_UPDATE:
            self._on_window(number, payload)
        elif kind == SETTINGS:
            self._on_settings(flags, number, payload)
        elif kind == PING:
            if len(payload) != _PING_BYTES or number:
                raise BrokenRule(FRAME_SIZE_ERROR, "this is no ping")
            if not flags & ACK:
                self.write([frame(PING, ACK, 0, payload)])
        elif kind == PUSH_PROMISE:
            raise BrokenRule(PROTOCOL_ERROR, "clients promise nothing")

    def on_block(self, number: int, block: bytes, ends: bool) -> None:
        if number == 0:
            raise BrokenRule(PROTOCOL_ERROR, "headers belong to a stream")
        stream = self.streams.get(number)
        if stream is None and number > self._last:
            self._open(number, block, ends)
            return
        # Trailers, perhaps of a stream that is closed: the next block may need what they define.
        self._decoder.decode(block)
        if stream is not None:
            if not ends or stream.ended:
                stream.reset(PROTOCOL_ERROR)
                return
            stream.ended = True
            if stream.receiver is not None:
                stream.receiver.received(memoryview(b""), True)

    def _open(self, number: int, block: bytes, ends: bool) -> None:
        if number % 2 == 0:
            raise BrokenRule(PROTOCOL_ERROR, "streams of clients have odd numbers")
        self._last = number
        application = self._application
        head = application.heads.get(block) if self._decoder.keeps_nothing else None
        if head is None:
            headers = self._decoder.decode(block)
            head, keep = application.head(headers)
            if keep and self._decoder.keeps_nothing and len(block) <= _KEPT_BYTES and block[0] & 0xE0 != 0x20:
                if len(application.heads) >= _KEPT:
                    application.heads.clear()
                application.heads[block] = head
        if self._leaving or len(self.streams) >= self._options.connections:
            self.write([frame(RST_STREAM, 0, number, NUMBER.pack(REFUSED_STREAM))])
            return
        self._idle_since = None
        stream = self.streams[number] = Stream(self, number, self._first_window)
        stream.ended = ends
        receiver = application.open(stream, head)
        # It may have been answered already.
        if not stream.closed:
            stream.receiver = receiver
            if ends:
                receiver.received(memoryview(b""), True)

    def _on_reset(self, number: int, payload: bytes) -> None:
        if len(payload) != NUMBER.size or number == 0 or number > self._last:
            raise BrokenRule(PROTOCOL_ERROR, "a stream is reset that was not opened")
        stream = self.streams.get(number)
        if stream is not None:
            stream.lose()

    def _on_window(self, number: int, payload: bytes) -> None:
        if len(payload) != NUMBER.size:
            raise BrokenRule(FRAME_SIZE_ERROR, "this is no window")
        more = NUMBER.unpack(payload)[0] & MOST_WINDOW
        if number == 0:
            nothing_went = self.window <= 0
            self.window += more
            if not more or self.window > MOST_WINDOW:
                raise BrokenRule(FLOW_CONTROL_ERROR if more else PROTOCOL_ERROR, "the window is out of range")
            if nothing_went:
                self._flush_all()
            return
        if number > self._last:
            raise BrokenRule(PROTOCOL_ERROR, "a window for a stream that was not opened")
        found = self.streams.get(number)
        if found is None:
            return
        found.window += more
        if not more or found.window > MOST_WINDOW:
            found.reset(FLOW_CONTROL_ERROR if more else PROTOCOL_ERROR)
        elif found.stalled_since is not None:
            found.flush()

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number or len(payload) % SETTING.size or (flags & ACK and payload):
            raise BrokenRule(FRAME_SIZE_ERROR, "these are no settings")
        if flags & ACK:
            return
        self._settings += 1
        if self._settings > _MOST_SETTINGS:
            raise BrokenRule(ENHANCE_YOUR_CALM, "too many settings")
        settings = dict(SETTING.iter_unpack(payload))
        self.most_frame = settings.get(MAX_FRAME_SIZE, self.most_frame)
        if not FIRST_FRAME <= self.most_frame < 1 << 24:
            raise BrokenRule(PROTOCOL_ERROR, "frames cannot be so long")
        window = settings.get(INITIAL_WINDOW_SIZE, self._first_window)
        if window > MOST_WINDOW:
            raise BrokenRule(FLOW_CONTROL_ERROR, "the window is out of range")
        change, self._first_window = window - self._first_window, window
        for stream in self.streams.values():
            stream.window += change
            if stream.window > MOST_WINDOW:
                raise BrokenRule(FLOW_CONTROL_ERROR, "the window is out of range")
        self.write([frame(SETTINGS, ACK, 0)])
        if change > 0:
            self._flush_all()

    def _flush_all(self) -> None:
        for stream in list(self.streams.values()):
            if self.window <= 0 or self.paused:
                break
            if stream.stalled_since is not None:
                stream.flush()
