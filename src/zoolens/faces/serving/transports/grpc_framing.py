"""Messages of gRPC in the data of a call: each has five bytes before it, and comes in any pieces."""

from __future__ import annotations

import struct
from collections import deque
from typing import Final

from zoolens.base.protocol.limits import Limits, check_body, invalid

PREFIX: Final = struct.Struct(">BL")  # of a message: whether it is compressed, and its length
_SMALL: Final = 1 << 12  # bytes of a piece of a message


class Messages:
    """Messages as they arrive in pieces. They are taken apart when they are taken, so that nothing but bytes waits.

    Small pieces are copied together: a piece of one byte would otherwise take two hundred, and keep all in memory that
    arrived with it.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._chunks: deque[memoryview] = deque()
        self._small = bytearray()  # what has arrived behind them
        self._next: tuple[bool, int] | None = None  # of the next message: whether it is compressed, and its length
        self.buffered = 0

    def add(self, chunk: memoryview) -> None:
        self.buffered += len(chunk)
        if len(chunk) < _SMALL or 2 * len(chunk) < len(chunk.obj):  # type: ignore[arg-type]
            self._small += chunk
        else:
            self._close_small()
            self._chunks.append(chunk)

    def complete(self) -> bool:
        """Whether there is a message to take. A ServingError where the next one is too large or none of gRPC."""
        if self._next is None:
            if self.buffered < PREFIX.size:
                return False
            compressed, length = PREFIX.unpack(self._taken(PREFIX.size))
            if compressed > 1:
                raise invalid("What was sent is no message of gRPC.")
            check_body(length, self._limits)
            self._next = bool(compressed), length
        return self.buffered >= self._next[1]

    def take(self) -> tuple[bool, bytes]:
        """The next message, which is complete, and whether it is compressed."""
        assert self._next is not None, "ask first whether it is complete"
        compressed, length = self._next
        self._next = None
        return compressed, self._taken(length)

    @property
    def incomplete(self) -> bool:
        """Whether a message has begun to arrive, as far as is known of it."""
        return self.buffered > 0 or self._next is not None

    def _taken(self, size: int) -> bytes:
        self.buffered -= size
        parts = []
        while size:
            if not self._chunks:
                self._close_small()
            chunk = self._chunks.popleft()
            if len(chunk) > size:
                self._chunks.appendleft(chunk[size:])
                chunk = chunk[:size]
            parts.append(chunk)
            size -= len(chunk)
        return b"".join(parts)

    def _close_small(self) -> None:
        if self._small:
            self._chunks.append(memoryview(self._small))
            self._small = bytearray()
