"""A quota for the scratch folders of sandboxed workers.

The kernel limits the size of one file, not that of a folder. So one thread of ours looks at the folders every two
seconds and calls back for those that hold too much; the worker is then killed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 16 << 30  # two files of the largest size that the sandbox allows
MOST_ENTRIES: Final = 100_000  # a disk has a limited number of inodes, too
_INTERVAL: Final = 2.0  # seconds

_lock = threading.Lock()
_watched: dict[Path, Callable[[], None]] = {}
_watcher: int | None = None  # the process that has the thread: a fork does not


def watch_scratch(folder: Path, exceeded: Callable[[], None]) -> None:
    """Call `exceeded` once, from another thread, if the folder grows beyond the quota before it is unwatched."""
    global _watcher
    with _lock:
        _watched[folder] = exceeded
        if _watcher != os.getpid():
            _watcher = os.getpid()
            threading.Thread(target=_watch, name="zoolens-scratch-quota", daemon=True).start()


def unwatch_scratch(folder: Path) -> None:
    with _lock:
        _watched.pop(folder, None)


def is_exceeded(folder: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> bool:
    """Whether a folder holds more than the quota. Looks no further than needed to know, and follows no link. A folder
    that does not let itself be read counts as too large: no framework makes one, and it may hold anything."""
    size = entries = 0
    folders = [str(folder)]
    while folders:
        try:
            with os.scandir(folders.pop()) as listing:
                found = list(islice(listing, most_entries - entries + 1))
        except PermissionError:
            return True
        except OSError:  # removed meanwhile
            continue
        entries += len(found)
        for entry in found:
            # Removed meanwhile; the others count all the same.
            with suppress(FileNotFoundError):
                # Blocks, not lengths: a sparse file claims bytes that it does not take.
                size += entry.stat(follow_symlinks=False).st_blocks * 512
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
        if size > most_bytes or entries > most_entries:
            return True
    return False


def _watch() -> None:
    while True:
        time.sleep(_INTERVAL)
        with _lock:
            current = dict(_watched)
        for folder, exceeded in current.items():
            if is_exceeded(folder, MOST_BYTES, MOST_ENTRIES):
                unwatch_scratch(folder)
                exceeded()
