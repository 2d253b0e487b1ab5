"""Where the files of a store's bulk facts lie: the contract that a folder and an object store keep.

A file is written once, as a whole, under a name that is never used again; it is read, or removed, and never changed. So
readers need no lock. Names are "folder/file", with a forward slash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import IO, Final, Protocol

MARKER: Final = "place/"  # before the name of the file that marks a place (`bulk_record`)


class BulkPlace(Protocol):
    """All methods may be called by several threads. What goes wrong is a `StoreError`, unless said otherwise."""

    @property
    def name(self) -> str:
        """The place as people are told of it, without credentials."""

    def address(self, name: str) -> str:
        """Where the file of this name lies, as people are told."""

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Write a file. When this returns, all of it is there for every reader, also after a power failure; if it is
        interrupted, readers see nothing of it."""

    def put_pieces(self, name: str, pieces: Callable[[], Iterator[bytes]]) -> None:
        """Write a file that is too large for memory. It has all that `put` promises, except that an error of `pieces`
        may leave a shorter file in an object store for a moment. `pieces` may be called again after a failure."""

    def get(self, name: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` where there is none, `OSError` where it cannot be read."""

    def open(self, name: str) -> IO[bytes]:
        """A file to read a piece of, which nobody verifies; errors as those of `get`."""

    def pieces(self, name: str, length: int) -> Iterator[bytes]:
        """The bytes of a file, at most so many at a time, which nobody verifies; errors as those of `get`."""

    def size(self, name: str) -> int | None:
        """The number of bytes of a file; None where there is none."""

    def has(self, name: str) -> bool:
        """Whether there is such a file."""

    def remove(self, name: str) -> bool:
        """Remove a file that may be gone already. One that cannot be removed stays, without an error: then False."""

    def names(self, older_than: float | None = None) -> Sequence[str]:
        """All files but markers, also those that are not ours; or those that were written this many seconds ago or
        earlier."""
