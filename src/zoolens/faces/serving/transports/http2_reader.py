"""Bytes of a connection of HTTP/2 to its frames, in whatever pieces they come, and headers put together."""

from __future__ import annotations

from typing import Final, Protocol

from zoolens.faces.serving.transports.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME,
    FRAME_SIZE_ERROR,
    GREETING,
    HEADERS,
    MOST_WINDOW,
    PADDED,
    PRIORITY_BYTES,
    PROTOCOL_ERROR,
    WITH_PRIORITY,
    BrokenRule,
    unpadded,
)

MOST_FRAME: Final = 1 << 20
MOST_HEADER_BYTES: Final = 1 << 16
_MOST_CONTINUATIONS: Final = 64
_MOST_KEPT_FRAME: Final = 1 << 16


class Frames(Protocol):
    """Takes the frames of a connection."""

    def count(self, number: int, length: int) -> None:
        """A frame of data begins, of this length with its padding."""
        ...

    def on_data(self, number: int, chunk: memoryview, ended: bool, padding: int = 0) -> None:
        """Some of it has arrived. `ended`: this was the last of the stream. `padding`: what counts besides."""
        ...

    def on_block(self, number: int, block: bytes, ends: bool) -> None:
        """All headers of a stream have arrived. `ends`: nothing follows."""
        ...

    def on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """A frame of any other kind."""
        ...


class FrameReader:
    """Keeps what is not complete. A BrokenRule where what arrives cannot be read any further."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._greeted = False
        self._rest = b""
        self._data: tuple[int, int, bool] | None = None  # of a frame of data: its stream, bytes to come, the end
        self._block: tuple[int, bool, bytes, int] | None = None  # headers that are continued

    @property
    def waits(self) -> bool:
        """Whether something is not complete that must be soon. The data of a frame are the stream's business."""
        return bool(self._rest) or self._block is not None or not self._greeted

    def feed(self, data: bytes) -> bool:
        """Read what has arrived. Whether something was completed that was waited for."""
        if self._rest:
            data = self._rest + data
        place = self._read(data)
        self._rest = data[place:]
        return place > 0 and self._block is None

    def _read(self, data: bytes) -> int:
        """Read what is complete, and how much that was."""
        place, size, view = 0, len(data), memoryview(data)
        if not self._greeted:
            place = self._greet(data)
        while self._greeted:
            if self._data is not None:
                number, missing, ends = self._data
                end = min(place + missing, size)
                missing -= end - place
                self._data = (number, missing, ends) if missing else None
                self._frames.on_data(number, view[place:end], ends and not missing)
                place = end
                if missing:
                    break
            if size - place < FRAME.size:
                break
            high, low, kind, flags, number = FRAME.unpack_from(data, place)
            length = high << 16 | low
            number &= MOST_WINDOW
            self._check(kind, flags, length, number)
            start = place + FRAME.size
            if kind == DATA and not flags & PADDED:
                self._frames.count(number, length)
                self._data = number, length, bool(flags & END_STREAM)
                place = start
            elif size < start + length:
                break
            else:
                place = start + length
                self._complete(kind, flags, number, data[start:place])
        return place

    def _greet(self, data: bytes) -> int:
        if not GREETING.startswith(data[: len(GREETING)]):
            raise BrokenRule(PROTOCOL_ERROR, "this port speaks HTTP/2 only")
        self._greeted = len(data) >= len(GREETING)
        return len(GREETING) if self._greeted else 0

    def _check(self, kind: int, flags: int, length: int, number: int) -> None:
        if length > MOST_FRAME:
            raise BrokenRule(FRAME_SIZE_ERROR, "a frame is too long")
        # These are kept until they are complete, and copied whenever more of them arrives.
        if length > _MOST_KEPT_FRAME and (kind != DATA or flags & PADDED):
            raise BrokenRule(ENHANCE_YOUR_CALM, "a frame is too long")
        if self._block is not None and (kind != CONTINUATION or number != self._block[0]):
            raise BrokenRule(PROTOCOL_ERROR, "headers are not continued")

    def _complete(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == HEADERS:
            block = unpadded(flags, payload)
            if flags & WITH_PRIORITY:
                if len(block) < PRIORITY_BYTES:
                    raise BrokenRule(FRAME_SIZE_ERROR, "a priority is cut off")
                block = block[PRIORITY_BYTES:]
            self._headers(number, block, flags, bool(flags & END_STREAM), 0)
        elif kind == CONTINUATION:
            if self._block is None:
                raise BrokenRule(PROTOCOL_ERROR, "there is nothing to continue")
            _, ends, before, pieces = self._block
            self._headers(number, before + payload, flags, ends, pieces + 1)
        elif kind == DATA:
            self._frames.count(number, len(payload))
            content = unpadded(flags, payload)
            padding = len(payload) - len(content)
            self._frames.on_data(number, memoryview(content), bool(flags & END_STREAM), padding)
        else:
            self._frames.on_frame(kind, flags, number, payload)

    def _headers(self, number: int, block: bytes, flags: int, ends: bool, pieces: int) -> None:
        if flags & END_HEADERS:
            self._block = None
            self._frames.on_block(number, block, ends)
        elif len(block) > MOST_HEADER_BYTES or pieces >= _MOST_CONTINUATIONS:
            raise BrokenRule(ENHANCE_YOUR_CALM, "too many headers")
        else:
            self._block = number, ends, block, pieces
