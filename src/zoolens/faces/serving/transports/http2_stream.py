"""One call over HTTP/2: what is sent as far as its client takes it, and how much the client may send."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from zoolens.base.protocol.datatypes import Buffer
from zoolens.faces.serving.transports.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    HEADERS,
    NO_ERROR,
    NUMBER,
    RST_STREAM,
    WINDOW_UPDATE,
    BrokenRule,
    frame,
    frame_head,
)

STREAM_WINDOW: Final = 1 << 22  # bytes that a client may send before some of them were taken

_AT_ONCE: Final = 1 << 20  # bytes that are written before it is asked again whether the socket takes more
_JOINED: Final = 1 << 16  # bytes of parts that are sent together


class Receiver(Protocol):
    """Takes what arrives on a stream."""

    def received(self, chunk: memoryview, ended: bool) -> None: ...

    def lost(self) -> None:
        """The client has cancelled it or has gone: nothing can be sent any more."""
        ...

    def too_slow(self) -> None:
        """What the client has begun to send did not arrive in time."""
        ...


class Carrier(Protocol):
    """The connection of a stream. `window` is what its client takes of data now, `most_frame` what it takes of it in
    one frame; `paused`: the socket has not taken what was written before."""

    window: int
    most_frame: int

    @property
    def paused(self) -> bool: ...

    def now(self) -> float: ...

    def write(self, parts: Sequence[Buffer]) -> None: ...

    def keep(self, size: int) -> bool:
        """Whether so many bytes of an answer may wait, besides all others that do; if so, they are counted."""
        ...

    def sent(self, size: int) -> None:
        """So many of them wait no longer."""
        ...

    def forget(self, stream: Stream) -> None:
        """The stream is closed."""
        ...


class Stream:
    """One call: `ended` says that the client has sent all of it, `closed` that nothing may be sent any more."""

    __slots__ = (
        "_connection", "_drained", "_end", "_room", "_waiting", "closed", "ended", "held_back", "number",
        "reading_since", "receiver", "stalled_since", "window",
    )  # fmt: skip

    def __init__(self, connection: Carrier, number: int, window: int) -> None:
        self._connection, self.number, self.window = connection, number, window
        self.receiver: Receiver | None = None
        self.ended = self.closed = self.held_back = False
        self.reading_since: float | None = None  # when what is still incomplete began to arrive
        self.stalled_since: float | None = None  # when the client last took something of what waits for it
        self._room = STREAM_WINDOW
        self._waiting: deque[memoryview] | None = None
        self._end: bytes | None = None
        self._drained: asyncio.Future[None] | None = None

    def send(self, head: bytes | None, parts: Sequence[Buffer], end: bytes | None) -> None:
        """Send a block of headers, data and a block of trailers, each where it is given. After trailers it is closed.
        What the client does not take yet waits."""
        if self.closed:
            return
        connection, number = self._connection, self.number
        sent: list[Buffer] = []
        if head is not None:
            sent.append(frame(HEADERS, END_HEADERS, number, head))
        size = sum(map(len, parts))
        takes = 0 if connection.paused else min(self.window, connection.window, connection.most_frame)
        if size and (self._waiting or size > takes):
            connection.write(sent)
            if not connection.keep(size):
                self.reset(ENHANCE_YOUR_CALM)
                return
            waiting = self._waiting = self._waiting or deque()
            whole = [b"".join(parts)] if size <= _JOINED else parts
            waiting.extend(part if isinstance(part, memoryview) else memoryview(part) for part in whole if len(part))
            self._end = end
            self.flush()
            return
        if size:
            self.window -= size
            connection.window -= size
            sent += (frame_head(DATA, 0, number, size), *parts)
        if end is not None and self._waiting:
            self._end = end
        elif end is not None:
            sent.append(frame(HEADERS, END_HEADERS | END_STREAM, number, end))
            self._finish(sent)
        connection.write(sent)

    def flush(self) -> None:
        """Send of what waits as much as the client takes."""
        connection, sent = self._connection, list[Buffer]()
        waiting, gathered = self._waiting, 0
        while waiting and not connection.paused:
            size = min(self.window, connection.window, connection.most_frame, len(waiting[0]))
            if size <= 0:
                break
            part = waiting.popleft()
            if size < len(part):
                waiting.appendleft(part[size:])
            self.window -= size
            connection.window -= size
            connection.sent(size)
            sent += (frame_head(DATA, 0, self.number, size), part[:size])
            gathered += size
            if gathered >= _AT_ONCE and waiting:
                connection.write(sent)
                sent, gathered = [], 0
                self.stalled_since = None
        if waiting:
            if sent or self.stalled_since is None:
                self.stalled_since = connection.now()
        else:
            self._waiting = self.stalled_since = None
            if self._drained is not None and not self._drained.done():
                self._drained.set_result(None)
            if self._end is not None:
                sent.append(frame(HEADERS, END_HEADERS | END_STREAM, self.number, self._end))
                self._finish(sent)
        connection.write(sent)

    async def drained(self) -> None:
        """Wait until the client has taken what was sent."""
        while self._waiting and not self.closed:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def _finish(self, sent: list[Buffer]) -> None:
        if not self.ended:
            # The client need not send the rest.
            sent.append(frame(RST_STREAM, 0, self.number, NUMBER.pack(NO_ERROR)))
        self._connection.forget(self)

    def count(self, size: int) -> None:
        """Count data that has arrived, and let the client send more."""
        self._room -= size
        if self._room < 0:
            raise BrokenRule(FLOW_CONTROL_ERROR, "more data on a stream than it has a window for")
        if not self.held_back:
            self.give_room()

    def give_room(self) -> None:
        """Let the client send as much as it may at most."""
        if self._room <= STREAM_WINDOW // 2 and not self.ended and not self.closed:
            self._connection.write([frame(WINDOW_UPDATE, 0, self.number, NUMBER.pack(STREAM_WINDOW - self._room))])
            self._room = STREAM_WINDOW

    def reset(self, code: int) -> None:
        """End it without an answer."""
        if not self.closed:
            self._connection.write([frame(RST_STREAM, 0, self.number, NUMBER.pack(code))])
            self.lose()

    def lose(self) -> None:
        """Nobody takes anything of it any more."""
        receiver = self.receiver
        self._connection.sent(sum(map(len, self._waiting or ())))
        self._waiting = None
        self._connection.forget(self)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if receiver is not None:
            receiver.lost()
