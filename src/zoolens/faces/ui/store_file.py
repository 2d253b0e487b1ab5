"""Whether the file of the store is still the one that was opened, with nothing copied over it.

A database whose file was deleted, or replaced by another one, goes on to answer from the file that is gone. One whose
file was written over by something else than SQLite goes on to answer from memory. Nobody who looks at a page would
know.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

from zoolens.base.errors import StoreError
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.state import Newest, StoreState, state_of_file, unwritten_log

_Stamp = tuple[int, ...]
_RESTART: Final = "Stop the explorer and start it again to see what is in it."


class StoreFile:
    """`path`: None where the store is no file, so that there is nothing to check. Threads may share it."""

    def __init__(self, path: Path | None, index: RunIndex) -> None:
        self._path, self._index, self._lock = path, index, threading.Lock()
        facts = None if path is None else _facts(path)
        self._opened = None if facts is None else _identity(facts)
        self._stamp = None if facts is None else _stamp(facts)

    def check(self) -> None:
        """StoreError: the file that was opened is no longer there under its name, or what it holds now cannot be shown.
        Once it is back, nothing is wrong. What was copied over the file is shown from now on."""
        if self._path is None:
            return
        name = self._path.name
        if (facts := _facts(self._path)) is None:
            raise StoreError(
                f"The store {name} was deleted or moved away while the explorer was open.",
                hint="Put it back, or stop the explorer and start it with another one.",
            )
        if _identity(facts) != self._opened:
            raise _replaced(name)
        if _stamp(facts) != self._stamp:
            with self._lock:
                self._look_again(self._path, facts)

    def _look_again(self, path: Path, facts: os.stat_result) -> None:
        """The file was written: by SQLite, which moves to it from time to time what its log holds, or by somebody who
        copied a backup over it behind SQLite's back."""
        if _stamp(facts) == self._stamp:
            return  # another thread has looked
        state = state_of_file(path)
        if state is None:
            raise StoreError(
                f"The store {path.name} was written over while the explorer was open, and cannot be read as it is now.",
                hint=f"If it is being copied, wait until that is done. {_RESTART}",
            )
        if state.id != self._index.store.id:
            raise _replaced(path.name)
        if _is_older(state, self._index.newest) and unwritten_log(path) is not None:
            raise StoreError(
                f"An older copy was written over the store {path.name} while the explorer was open, and the log beside "
                "it still holds changes of before: read together, they may be a mixture of both.",
                hint="Stop the explorer, copy the older one again, and start the explorer.",
            )
        self._index.store.reconnect()
        self._stamp = _stamp(facts)


def _replaced(name: str) -> StoreError:
    return StoreError(f"The store {name} was replaced by another file while the explorer was open.", hint=_RESTART)


def _is_older(state: StoreState, known: Newest) -> bool:
    """Whether something is gone that was there: what is stored is never deleted."""
    now = state.newest
    return now.change < known.change or now.run < known.run or now.observation < known.observation


def _facts(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _identity(facts: os.stat_result) -> _Stamp:
    return facts.st_dev, facts.st_ino


def _stamp(facts: os.stat_result) -> _Stamp:
    # A copy may bring the time of its source with it.
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
