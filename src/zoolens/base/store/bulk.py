"""Bulk facts in Parquet files. The database decides which of them exist; a file it does not name is litter.

A part is written under a temporary name, synced, renamed, and only then registered. A crash in between leaves a file
nobody refers to. Names are random and never used twice, so litter can be swept without a race.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import StoreError
from zoolens.base.store.records import Part

if TYPE_CHECKING:
    import pyarrow as pa

_KIND: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OURS: Final = re.compile(r"[a-z0-9][a-z0-9_-]*\.\d+\.[0-9a-f]{16}\.parquet(\.tmp)?")


@dataclass(frozen=True)
class WrittenPart:
    name: str  # below the bulk directory, with forward slashes
    sha256: str
    rows: int
    bytes: int


class Bulk:
    """The directory of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, run_id: str, kind: str, part: int, table: pa.Table) -> WrittenPart:
        """One part, complete and on disk when this returns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not _KIND.fullmatch(kind) or part < 0:
            raise ValueError(f"not a kind and number of a part: {kind!r}, {part!r}")
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue()
        name = f"{run_id}/{kind}.{part}.{secrets.token_hex(8)}.parquet"
        try:
            self._put(self.root / name, content)
        except OSError as error:
            raise StoreError(
                f"{self.root / name} cannot be written: {error.strerror or error}.", hint="Is there room on the disk?"
            ) from error
        return WrittenPart(name, hashlib.sha256(content).hexdigest(), table.num_rows, content.size)

    def _put(self, path: Path, content: pa.Buffer) -> None:
        temporary = path.with_name(path.name + ".tmp")
        fresh = not path.parent.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Written beside its place and renamed: readers see the whole file or none, also after a crash.
            with temporary.open("xb") as file:
                file.write(content)
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

    def path(self, name: str) -> Path:
        """Where a registered file lies. A store may come from someone else, so its names are not trusted."""
        folder, _, file = name.partition("/")
        if not _OURS.fullmatch(file) or not re.fullmatch(r"\w+", folder):
            raise StoreError(f"The store names {name!r}, which is not a file of its bulk directory {self.root}.")
        return self.root / folder / file

    def read(self, part: Part) -> pa.Table:
        """The table of a part, after its size and SHA-256 were found right."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        content = self.content(part)
        try:
            # Not read_table: it starts threads, for files that are read in a millisecond, and a process that ends while
            # they end is now and then aborted.
            return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(part, str(error).splitlines()[0]) from error

    def content(self, part: Part) -> bytes:
        """The bytes of a part, after its size and SHA-256 were found right."""
        try:
            content = part.path.read_bytes()
        except FileNotFoundError as error:
            raise StoreError(
                f"The file of {part}, {part.path}, is missing.",
                hint="Copy the bulk directory together with the database, or set ZOOLENS_BULK to its path.",
            ) from error
        except OSError as error:
            raise _damaged(part, str(error.strerror or error)) from error
        if len(content) != part.bytes:
            raise _damaged(part, f"it has {len(content):,} bytes instead of {part.bytes:,}")
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise _damaged(part, "its SHA-256 is not the one that was registered")
        return content

    def discard(self, name: str) -> None:
        with suppress(OSError):
            self.path(name).unlink()

    def sweep(self, registered: Collection[str], older_than: float) -> list[Path]:
        """Removes our unregistered files that are older than this many seconds, and returns their paths."""
        limit = time.time() - older_than
        removed = []
        for path in sorted(self.root.glob("*/*")):
            name = path.relative_to(self.root).as_posix()
            if name in registered or not _OURS.fullmatch(path.name):
                continue
            # Another sweep was faster, or the file is not ours to remove.
            with suppress(OSError):
                if path.stat().st_mtime <= limit:
                    path.unlink()
                    removed.append(path)
        return removed


def _damaged(part: Part, what: str) -> StoreError:
    return StoreError(
        f"The file of {part}, {part.path}, is damaged: {what}.",
        hint="Restore it from a backup, or measure again with --fresh.",
    )


def _sync_folder(folder: Path) -> None:
    """Make a rename last. Windows has no such thing, and needs none."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
