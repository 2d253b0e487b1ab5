"""Files that are only ever appended to, by one process at a time: the index of queries and the journals of searches.

A writer may be killed at any moment. What it left behind the last complete record is written over by the next writer,
who knows from the records where that is. How a record is written and checked is the caller's: the index has binary
records that are mapped into memory, and a search has lines of JSON that a person can read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zoolens.base.errors import ZoolensError


@contextmanager
def writing_alone(path: Path, refusal: ZoolensError, patience: float = 0.0) -> Iterator[None]:
    """Hold the right to write this file. `refusal` is raised where another process has held it for `patience`
    seconds."""
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=patience)
    except Timeout as error:
        raise refusal from error
    try:
        yield
    finally:
        lock.release()


def append_at(path: Path, end: int, content: bytes, *, durable: bool = False) -> int:
    """Write behind the last complete record, which ends at `end`, and return the new end.

    `durable`: the content is on the disk when this returns. If writing fails, the old end stays the end: what was
    written of the content is cut off by the next call.
    """
    with path.open("r+b") as file:
        # A writer that was killed may have left half a record behind the last whole one.
        file.truncate(end)
        file.seek(end)
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    return end + len(content)
