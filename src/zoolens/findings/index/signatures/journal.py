"""The index file: records one after the other, each with its length and checksums, and only ever appended to.

A record that a killed writer left unfinished at the end is cut off by the next writer; readers stop before it. Any
other byte that is not as it was written is found by a checksum and is `Damaged`: the file is then made again from the
store, which has everything that is here. For the same reason nothing waits for the disk: deleting the file, or losing
its last seconds, costs time only. The file is untrusted: no length in it is believed beyond the file's own size.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from zoolens.base.errors import ZoolensError
from zoolens.base.paths import replaced_file
from zoolens.base.store.appended_file import append_at, writing_alone

MAGIC: Final = b"ZLINDEX\n"
VERSION: Final = 1
ABOUT, SIGNATURE, REMOVED = 0, 1, 2  # kinds of records

ALIGNED: Final = 8  # records begin at multiples of it, so that arrays can be read where they lie
_HEAD: Final = struct.Struct("<IIB3xI")  # length and CRC-32 of the payload, kind, CRC-32 of what precedes
_GUARDED: Final = _HEAD.size - 4
_LONGEST: Final = 1 << 32
_PATIENCE: Final = 60.0  # seconds to wait for another writer


class Damaged(ZoolensError):
    """The file is not what was written. Whoever opens an index rebuilds it; only `verify` shows this to a user."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The index file is damaged: {reason}.", hint="Rebuild it with `zoolens index rebuild`.")
        self.reason = reason


class Place(NamedTuple):
    """Where a record's payload lies in the file."""

    kind: int
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        return self.stop - self.start + _HEAD.size


def padded(payload: bytes) -> bytes:
    return payload + b"\0" * (-len(payload) % ALIGNED)


def framed(kind: int, payload: bytes) -> bytes:
    """A record as it stands in the file."""
    if len(payload) >= _LONGEST - ALIGNED:
        raise ZoolensError(
            f"A signature of {len(payload):,} bytes is too long for the index.", hint="Use fewer probe inputs."
        )
    body = padded(payload)
    head = _HEAD.pack(len(body), zlib.crc32(body), kind, 0)[:_GUARDED]
    return head + struct.pack("<I", zlib.crc32(head)) + body


def scan(content: memoryview, start: int) -> tuple[list[Place], int]:
    """The complete records from `start` on, and where they end: what follows, if anything, is an unfinished one."""
    places: list[Place] = []
    while start + _HEAD.size <= len(content):
        length, checksum, kind, guard = _HEAD.unpack_from(content, start)
        # The head has a checksum of its own: a damaged length would otherwise look like an unfinished record at the
        # end, and hide all that follows.
        if zlib.crc32(content[start : start + _GUARDED]) != guard or length % ALIGNED:
            raise Damaged(f"the head of the record at byte {start:,} is altered")
        place = Place(kind, start + _HEAD.size, start + _HEAD.size + length)
        # A writer was killed, or is still writing: the record is not there yet.
        if place.stop > len(content):
            break
        if zlib.crc32(content[place.start : place.stop]) != checksum:
            raise Damaged(f"the record at byte {start:,} is altered")
        places.append(place)
        start = place.stop
    return places, start


class Journal:
    """One index file as one process sees it. `about` says what the index is of; a file of anything else is `Damaged`.

    Writers hold `alone()` and have called `catch_up` under it. What is in `content` stays readable as long as someone
    holds it, also after another process has replaced the file.
    """

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        self.path = path
        self.content = memoryview(b"")
        self.end = 0  # of the last complete record
        self._about = json.dumps({**about, "version": VERSION}, sort_keys=True).encode()
        self._file: tuple[int, int] | None = None

    @contextmanager
    def alone(self) -> Iterator[None]:
        busy = ZoolensError(
            f"Another process has been writing the index {self.path} for a minute.", hint="Wait, or end it."
        )
        with writing_alone(self.path, busy, _PATIENCE):
            yield

    def catch_up(self) -> tuple[list[Place], bool]:
        """Records that are new since the last call, whoever wrote them; True: the file is another one, all are new."""
        with self.path.open("rb") as file:
            state = os.fstat(file.fileno())
            # Compaction puts a new file in its place: places in the old one mean nothing in it.
            replaced = (state.st_dev, state.st_ino) != self._file
            if not replaced and state.st_size <= self.end:
                return [], False
            if state.st_size < len(MAGIC):
                raise Damaged("it has no beginning")
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if replaced:
            places, end = self._first_look(content)
        else:
            places, end = scan(content, self.end)
        self.content, self.end, self._file = content, end, (state.st_dev, state.st_ino)
        return places, replaced

    def _first_look(self, content: memoryview) -> tuple[list[Place], int]:
        if bytes(content[: len(MAGIC)]) != MAGIC:
            raise Damaged("it is not an index")
        places, end = scan(content, len(MAGIC))
        if not places or places[0].kind != ABOUT:
            raise Damaged("its beginning is missing")
        if bytes(content[places[0].start : places[0].stop]) != padded(self._about):
            raise Damaged("it is of another version, store or dataset")
        return places[1:], end

    def place_at(self, start: int) -> Place:
        """The record whose payload begins here, which was scanned before."""
        length, _, kind, _ = _HEAD.unpack_from(self.content, start - _HEAD.size)
        return Place(kind, start, start + length)

    def append(self, kind: int, payload: bytes) -> Place:
        """Write one record behind the last complete one, over what a killed writer left there."""
        append_at(self.path, self.end, framed(kind, payload))
        places, _ = self.catch_up()
        return places[-1]

    def rewrite(self, records: Iterable[tuple[int, bytes]]) -> None:
        """Put a new file with these records in the place of the old one, at once. Look again with `catch_up`."""
        with replaced_file(self.path) as file:
            file.write(MAGIC + framed(ABOUT, self._about))
            for kind, payload in records:
                file.write(framed(kind, payload))
