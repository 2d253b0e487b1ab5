"""Whether the file of the store is still the one that was opened.

A database whose file was deleted, or replaced by another one, goes on to answer from the file that is gone. Nobody who
looks at a page would know.
"""

from __future__ import annotations

from pathlib import Path

from zoolens.errors import StoreError

_Identity = tuple[int, int]


class StoreFile:
    """`path`: None where the store is no file, so that there is nothing to check."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = None if path is None else _identity(path)

    def check(self) -> None:
        """StoreError: the file that was opened is no longer there under its name. Once it is back, nothing is wrong."""
        if self._path is None or (now := _identity(self._path)) == self._opened:
            return
        name = self._path.name
        if now is None:
            raise StoreError(
                f"The store {name} was deleted or moved away while the explorer was open.",
                hint="Put it back, or stop the explorer and start it with another one.",
            )
        raise StoreError(
            f"The store {name} was replaced by another file while the explorer was open.",
            hint="Stop the explorer and start it again to see what is in it.",
        )


def _identity(path: Path) -> _Identity | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
