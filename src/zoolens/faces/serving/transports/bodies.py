"""Bodies of requests, read with limits: their size, the time that they take, and the memory that all of them take."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import numpy as np

from zoolens.base.protocol.datatypes import Buffer
from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.base.protocol.limits import Limits, check_body, invalid
from zoolens.faces.serving.options import ServerOptions

Result = TypeVar("Result")
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

ALIGNMENT: Final = 16
UNPACK_IN_THREAD: Final = 1 << 14  # bytes; they may unpack to a thousand times as many
_WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}  # both as zlib numbers them; deflate is what zlib.compress makes


class ClientLeft(Exception):
    """The client closed its connection before it was answered."""


class HeldBytes:
    """Bytes that one request holds; they are given back together."""

    def __init__(self, readers: BodyReader) -> None:
        self._readers, self.size = readers, 0
        self._working, self._left = 0, False

    def add(self, size: int) -> None:
        if self._readers.held + size > self._readers.limit:
            raise ServingError(
                Refusal.OVERLOADED, "The server holds as many request bodies as it may.", hint="Try again later."
            )
        self._readers.held += size
        self.size += size

    def give_back(self, size: int) -> None:
        """Some of them are held no longer."""
        self._readers.held -= size
        self.size -= size

    def another(self) -> HeldBytes:
        """For bytes that are given back at another time."""
        return HeldBytes(self._readers)

    async def in_thread(self, function: Callable[..., Result], *arguments: object) -> Result:
        """The function's result, from a thread. What it works on is held until it is done, also where nobody waits any
        more: a client could otherwise ask and leave again and again, and fill the memory with what is not counted."""
        self._working += 1
        work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        work.add_done_callback(self._worked)
        return await asyncio.shield(work)

    def _worked(self, _: object) -> None:
        self._working -= 1
        if self._left:
            self.release()

    def release(self) -> None:
        self._left = self._working > 0
        if self._left:
            return
        self._readers.held -= self.size
        self.size = 0


class BodyReader:
    """Reads bodies for one server; `held` counts the bytes of those that are not answered yet."""

    def __init__(self, options: ServerOptions) -> None:
        self._limits, self._seconds = options.limits, options.body_seconds
        self.held, self.limit = 0, options.held_bytes

    def hold(self) -> HeldBytes:
        return HeldBytes(self)

    @contextmanager
    def holding(self) -> Iterator[HeldBytes]:
        held = HeldBytes(self)
        try:
            yield held
        finally:
            held.release()

    async def read(
        self, held: HeldBytes, headers: Mapping[str, str], receive: Receive, offset: int = 0, most: int | None = None
    ) -> Buffer:
        """The body, unpacked, of at most `most` bytes where that is less than the server's own limit.

        What lies `offset` bytes behind its start is aligned in memory where that is free. Memory is counted as bytes
        arrive: a length that is only declared would let a few silent clients take all of it.
        """
        limits = self._limits if most is None else replace(self._limits, body_bytes=min(most, self._limits.body_bytes))
        declared = headers.get("content-length", "")
        if declared.isdigit():
            check_body(int(declared), limits)
        try:
            async with asyncio.timeout(self._seconds):
                chunks = await self._chunks(held, receive, limits)
        except TimeoutError:
            raise ServingError(
                Refusal.TOO_SLOW, f"The body of the request did not arrive within {self._seconds:g} seconds."
            ) from None
        encoding = headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            return await self._unpack(held, b"".join(chunks), encoding, limits.body_bytes)
        return chunks[0] if len(chunks) == 1 else _joined(chunks, offset)

    async def _chunks(self, held: HeldBytes, receive: Receive, limits: Limits) -> list[bytes]:
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            chunk = message.get("body", b"")
            size += len(chunk)
            check_body(size, limits)
            held.add(len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks

    async def _unpack(self, held: HeldBytes, content: bytes, encoding: str, most: int) -> bytes:
        if encoding not in _WINDOW_BITS:
            raise ServingError(
                Refusal.UNSUPPORTED, f"Bodies with the content encoding {encoding[:40]!r} are not unpacked."
            )
        unpacked = (
            await held.in_thread(unpack, content, encoding, most)
            if len(content) > UNPACK_IN_THREAD
            else unpack(content, encoding, most)
        )
        held.add(len(unpacked))
        return unpacked


def unpack(content: bytes, encoding: str, limit: int) -> bytes:
    """A body as it was before it was compressed with gzip or deflate; not more than `limit` bytes of it are made."""
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        unpacked = decompressor.decompress(content, limit + 1)
    except zlib.error:
        raise invalid(f"The body is not compressed with {encoding}, although the request says so.") from None
    if len(unpacked) > limit:
        raise ServingError(Refusal.TOO_LARGE, f"The body unpacks to more than the {limit:,} bytes that are accepted.")
    if not decompressor.eof or decompressor.unused_data:
        raise invalid(f"The body that is compressed with {encoding} is cut off, or something lies behind it.")
    return unpacked


def _joined(chunks: list[bytes], offset: int) -> memoryview:
    start = -offset % ALIGNMENT
    buffer = np.empty(start + sum(map(len, chunks)), np.uint8)
    view = buffer.data
    place = start
    for chunk in chunks:
        view[place : place + len(chunk)] = chunk
        place += len(chunk)
    return view[start:]
