"""SHA-256 of model files, remembered so that a gigabyte is read once and not at every command.

The memory is one SQLite file in the cache folder: several processes may use it at once, and losing it costs time only.
A digest is remembered under path, size, modification and change time and inode; a file touched a moment ago is not
remembered, because a second write within the clock's resolution would go unnoticed.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from zoolens.base.errors import AssetError
from zoolens.base.paths import cache_dir
from zoolens.base.recent_values import RecentValues

_CHUNK = 1 << 20
_SETTLED_NS = 2_000_000_000
_TABLE = (
    "CREATE TABLE IF NOT EXISTS digest (path TEXT PRIMARY KEY, size INTEGER, mtime INTEGER, ctime INTEGER, "
    "inode INTEGER, sha256 TEXT NOT NULL)"
)


def sha256_file(path: Path) -> str:
    """Hex digest of a file's content."""
    name = os.fspath(path)
    try:
        before = path.stat()
        # A query asks for the same few files a thousand times.
        seen = _seen.get(name) if path.is_absolute() else None
        if seen is not None and seen[0] == (before.st_dev, *_identity(before)):
            return seen[1]
        path = path.resolve()
        known = _recall(path, before)
        if known is not None:
            _seen.put(name, ((before.st_dev, *_identity(before)), known))
            return known
        digest = _read(path)
        after = path.stat()
    except OSError as error:
        raise AssetError(f"{path.resolve()} cannot be read: {error.strerror or error}.") from error
    if _identity(before) == _identity(after) and time.time_ns() - after.st_mtime_ns > _SETTLED_NS:
        _remember(path, after, digest)
    return digest


# Under the path as it was given; a link that leads elsewhere by now has another file's identity.
_seen: Final[RecentValues[str, tuple[tuple[int, ...], str]]] = RecentValues(1_000)


def digest_tree(folder: Path) -> str:
    """Hex digest of a folder: relative names and contents of its files, in order of name."""
    total = hashlib.sha256()
    root = folder.resolve()
    for path in sorted(file for file in folder.rglob("*") if not file.is_dir()):
        try:
            inside = path.resolve().is_relative_to(root)
        except (OSError, RuntimeError):  # links in a circle
            inside = False
        if not inside:
            raise AssetError(f"{path} is a link that leads out of {folder}.", hint="Replace it by the file itself.")
        # Its bytes, also where they are no UTF-8.
        name = os.fsencode(path.relative_to(folder).as_posix())
        total.update(name + f"\0{sha256_file(path)}\n".encode())
    return total.hexdigest()


def digest(path: Path) -> str:
    """The digest of a folder (`digest_tree`) or of a file (`sha256_file`)."""
    return digest_tree(path) if path.is_dir() else sha256_file(path)


def size_on_disk(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def _read(path: Path) -> str:
    hasher = hashlib.sha256()
    # Here: most digests are remembered, and nothing is opened.
    from zoolens.base.safety.untrusted import open_regular

    with open_regular(path) as stream:
        while chunk := stream.read(_CHUNK):
            hasher.update(chunk)
    return hasher.hexdigest()


def _identity(stat: os.stat_result) -> tuple[int, int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _memory() -> sqlite3.Connection:
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(folder / "digests.sqlite", timeout=5)
    connection.execute(_TABLE)
    return connection


def _recall(path: Path, stat: os.stat_result) -> str | None:
    try:
        with closing(_memory()) as memory:
            row = memory.execute(
                "SELECT sha256 FROM digest WHERE path=? AND size=? AND mtime=? AND ctime=? AND inode=?",
                (str(path), *_identity(stat)),
            ).fetchone()
    except (sqlite3.Error, OSError, UnicodeEncodeError):
        # A damaged or read-only cache, a name that is no UTF-8.
        return None
    return str(row[0]) if row else None


def _remember(path: Path, stat: os.stat_result, digest: str) -> None:
    try:
        with closing(_memory()) as memory, memory:
            memory.execute("INSERT OR REPLACE INTO digest VALUES (?,?,?,?,?,?)", (str(path), *_identity(stat), digest))
    except (sqlite3.Error, OSError, UnicodeEncodeError):
        return
