"""Where the files of a store's bulk facts lie: the contract that a folder and an object store keep.

A file is written once, as a whole, under a name that is never used again; it is read, or removed, and never changed. So
readers need no lock. Names are "folder/file", with a forward slash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Protocol


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

    def get(self, name: str) -> bytes:
        """The bytes of a file. Raises `FileNotFoundError` where there is none, `OSError` where it cannot be read."""

    def open(self, name: str) -> IO[bytes]:
        """A file to read a piece of, which nobody verifies; errors as those of `get`."""

    def has(self, name: str) -> bool:
        """Whether there is such a file."""

    def remove(self, name: str) -> bool:
        """Remove a file that may be gone already. One that cannot be removed stays, without an error: then False."""

    def names(self, older_than: float | None = None) -> Sequence[str]:
        """All files, also those that are not ours; or those that were written this many seconds ago or earlier."""
