"""Bulk facts in a folder: beside an SQLite file, in the user's data folder, or on a file system that machines share."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from zoolens.base.errors import StoreError
from zoolens.base.store.bulk_place import MARKER


class BulkFolder:
    """See `bulk_place.BulkPlace`. The folder is made when the first file is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def name(self) -> str:
        return str(self.root)

    def address(self, name: str) -> str:
        return str(self.root / name)

    def put(self, name: str, content: bytes | memoryview) -> None:
        self.put_pieces(name, lambda: iter([content]))

    def put_pieces(self, name: str, pieces: Callable[[], Iterator[bytes | memoryview]]) -> None:
        path = self.root / name
        try:
            self._put(path, pieces())
        except OSError as error:
            raise StoreError(
                f"{path} cannot be written: {error.strerror or error}.", hint="Is there room on the disk?"
            ) from error

    def _put(self, path: Path, pieces: Iterator[bytes | memoryview]) -> None:
        # One name may be written twice at once, or again after a kill: by a copy of another store.
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        fresh = not path.parent.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Written beside its place and renamed: readers see the whole file or none, also after a crash.
            with temporary.open("xb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                # Before its row is committed: after a power failure no row may name a file that is not there.
                os.fsync(file.fileno())
            temporary.rename(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        # The name of a file is part of its folder, which reaches the disk by an fsync of its own.
        _sync_folder(path.parent)
        if fresh:
            _sync_folder(self.root)

    def get(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def open(self, name: str) -> IO[bytes]:
        return (self.root / name).open("rb")

    def pieces(self, name: str, length: int) -> Iterator[bytes]:
        with self.open(name) as file:
            while piece := file.read(length):
                yield piece

    def size(self, name: str) -> int | None:
        try:
            return (self.root / name).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.root / name} cannot be looked at: {error.strerror or error}.") from error

    def has(self, name: str) -> bool:
        return (self.root / name).exists()

    def remove(self, name: str) -> bool:
        try:
            (self.root / name).unlink(missing_ok=True)
        except OSError:
            return False
        return True

    def names(self, older_than: float | None = None) -> list[str]:
        limit = None if older_than is None else time.time() - older_than
        found = []
        for path in sorted(self.root.glob("*/*")):
            # Another process may have removed it in the meantime.
            with suppress(OSError):
                if limit is None or path.stat().st_mtime <= limit:
                    found.append(path.relative_to(self.root).as_posix())
        return [name for name in found if not name.startswith(MARKER)]


def _sync_folder(folder: Path) -> None:
    """Make a rename last. Windows has no such thing, and needs none."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
