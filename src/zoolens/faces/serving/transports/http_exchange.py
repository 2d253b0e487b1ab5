"""One inference over a connection: what its head says, and its body as it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from zoolens.faces.serving.transports.bodies import ALIGNMENT, HeldBytes
from zoolens.faces.serving.transports.http_inference import Head, read_head

_UNUSUAL: Final = frozenset({"content-encoding", "transfer-encoding", "expect", "upgrade"})


@dataclass(frozen=True)
class Usual:
    """A request to infer whose body is as long as declared, and neither compressed nor in chunks."""

    path: str
    headers: Mapping[str, str]
    head: Head
    size: int
    keep_alive: bool


def usual_request(url: bytes, fields: list[tuple[bytes, bytes]], keep_alive: bool) -> Usual | None:
    """What the head of a request to infer says; None where something about it is unusual."""
    path = url.decode("latin-1")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in fields}
    length = headers.get("content-length", "")
    if "%" in path or not length.isdecimal() or not _UNUSUAL.isdisjoint(headers):
        return None
    head = read_head(path, headers)
    return None if head is None else Usual(path, headers, head, int(length), keep_alive)


class _Ignored:
    """The event that uvicorn sets for a request of its own."""

    def set(self) -> None:
        pass


class Exchange:
    """One inference on its way: its body as it arrives, and what uvicorn asks of a request when a connection ends."""

    # Attributes of the class are what most requests leave as it is: to set them for each would take longer.
    message_event = _Ignored()
    response_complete = False
    disconnected = False
    task: asyncio.Task[None] | None = None
    cancel: Callable[[], None] | None = None
    _whole = b""
    _view: memoryview | None = None
    _start = _place = 0

    def __init__(self, usual: Usual, held: HeldBytes) -> None:
        self.head, self.keep_alive = usual.head, usual.keep_alive
        self.missing = self._size = usual.size
        self.held = held

    @property
    def received(self) -> int:
        return self._size - self.missing

    def add(self, chunk: bytes | memoryview) -> None:
        """Take the next bytes of the body. One chunk that is all of it is kept as it is."""
        if isinstance(chunk, bytes) and len(chunk) == self._size:
            self.add_whole(chunk)
        elif chunk:
            self.room()[: len(chunk)] = chunk
            self.fill(len(chunk))

    def add_whole(self, body: bytes) -> None:
        self._whole = body
        self.missing = 0

    def room(self) -> memoryview:
        """Where the rest of the body belongs."""
        if self._view is None:
            self._start = self._place = -self.head.offset % ALIGNMENT
            self._view = np.empty(self._start + self._size, np.uint8).data
        return self._view[self._place :]

    def fill(self, size: int) -> None:
        """Say how many bytes were put where there was room."""
        self._place += size
        self.missing -= size

    @property
    def content(self) -> bytes | memoryview:
        return self._whole if self._view is None else self._view[self._start :]
