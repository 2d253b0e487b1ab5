"""Bulk facts in Parquet files. The database decides which of them exist; a file it does not name is litter.

A part is written where it stays, and only then registered. A crash in between leaves a file nobody refers to. Names are
random and never used twice, so litter can be swept without a race.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zoolens.base.errors import DamagedFile, DamagedStore
from zoolens.base.store.bulk_place import BulkPlace
from zoolens.base.store.records import Part

if TYPE_CHECKING:
    import pyarrow as pa

_KIND: Final = re.compile(r"[a-z0-9][a-z0-9_-]*")
_OURS: Final = re.compile(r"\w+/[a-z0-9][a-z0-9_-]*\.\d+\.[0-9a-f]{16}\.parquet((\.[0-9a-f]{8})?\.tmp)?")


@dataclass(frozen=True)
class WrittenPart:
    name: str  # below the place, with forward slashes
    sha256: str
    rows: int
    bytes: int


class Bulk:
    """The parts of one store, in a folder or an object store."""

    def __init__(self, place: BulkPlace, require_place: Callable[[], object] = lambda: None) -> None:
        """`require_place` raises a StoreError where the place is not the one that the store's files were put into."""
        self.place, self._require_place = place, require_place

    def write(self, run_id: str, kind: str, part: int, table: pa.Table) -> WrittenPart:
        """One part, complete when this returns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not _KIND.fullmatch(kind) or part < 0:
            raise ValueError(f"not a kind and number of a part: {kind!r}, {part!r}")
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue()
        name = f"{run_id}/{kind}.{part}.{secrets.token_hex(8)}.parquet"
        self.place.put(name, memoryview(content))
        return WrittenPart(name, hashlib.sha256(content).hexdigest(), table.num_rows, content.size)

    def address(self, name: str) -> str:
        """Where a registered file lies. A store may come from someone else, so its names are not trusted."""
        if not _OURS.fullmatch(name):
            raise DamagedStore(
                f"The store names {name!r}, which is not a file of its bulk directory {self.place.name}."
            )
        return self.place.address(name)

    def has(self, name: str) -> bool:
        """Whether a file of ours is there."""
        return bool(_OURS.fullmatch(name)) and self.place.has(name)

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
        self.address(part.name)
        try:
            content = self.place.get(part.name)
        except FileNotFoundError as error:
            # Then nothing is lost.
            self._require_place()
            raise DamagedFile(
                f"The file of {part}, {part.address}, is missing.",
                hint="Copy the bulk facts together with the database, or set ZOOLENS_BULK to where they are.",
            ) from error
        except OSError as error:
            raise _damaged(part, str(error.strerror or error)) from error
        if len(content) != part.bytes:
            raise _damaged(part, f"it has {len(content):,} bytes instead of {part.bytes:,}")
        if hashlib.sha256(content).hexdigest() != part.sha256:
            raise _damaged(part, "its SHA-256 is not the one that was registered")
        return content

    def discard(self, name: str) -> bool:
        """Remove a file of ours that was not registered; False where it cannot be removed."""
        return bool(_OURS.fullmatch(name)) and self.place.remove(name)

    def candidates(self, older_than: float) -> list[str]:
        """Names of our files that are older than this many seconds: litter, unless they are registered."""
        return [name for name in self.place.names(older_than) if _OURS.fullmatch(name)]


def _damaged(part: Part, what: str) -> DamagedFile:
    return DamagedFile(
        f"The file of {part}, {part.address}, is damaged: {what}.",
        hint="Restore it from a backup, or measure again with --fresh.",
    )
