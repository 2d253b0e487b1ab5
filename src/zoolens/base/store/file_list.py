"""Lists of files that travel to another machine by their content: relative path, size and SHA-256 of each.

A list comes from another machine and is not trusted: what does not fit into one folder on every file system is refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final
from unicodedata import normalize

from zoolens.base.errors import AssetError

MOST_FILES: Final = 100_000  # a list of so many takes about 12 MB in a job
_LONGEST_NAME: Final = 255  # bytes, of one name: the limit of ext4, XFS and APFS
_LONGEST_PATH: Final = 1024  # bytes; a folder before it must fit into the 4096 of Linux
_DEEPEST: Final = 64  # folders; every folder of every name is looked at
_MOST_BYTES: Final = 1 << 50
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ListedFile:
    """`path`: relative, with forward slashes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class FileList:
    """Files below one folder. `empty`: folders without files, which may stand for classes without samples."""

    files: tuple[ListedFile, ...]
    empty: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def digest(self) -> str:
        """SHA-256 of the list, whatever its order."""
        rows = sorted([file.path, file.size, file.sha256] for file in self.files)
        return hashlib.sha256(json.dumps([rows, sorted(self.empty)]).encode()).hexdigest()

    def as_data(self) -> dict[str, Any]:
        return {"files": [[file.path, file.size, file.sha256] for file in self.files], "empty": list(self.empty)}


def read_file_list(data: Mapping[str, Any]) -> FileList:
    """The list that `FileList.as_data` wrote. AssetError says what is wrong with one that cannot be laid out."""
    rows, empty = data.get("files"), data.get("empty")
    if not isinstance(rows, list) or not isinstance(empty, list):
        raise _refused("it is not a list of files")
    if len(rows) + len(empty) > MOST_FILES:
        raise _refused(f"it has {len(rows) + len(empty):,} names, and at most {MOST_FILES:,} are read")
    found = FileList(tuple(_file(row) for row in rows), tuple(_text(path) for path in empty))
    check_paths([*(file.path for file in found.files), *found.empty], len(found.files))
    if found.bytes > _MOST_BYTES:
        raise _refused(f"its files have {found.bytes:,} bytes together")
    return found


def check_paths(paths: Sequence[str], files: int) -> None:
    """Refuses names that lead out of a folder or do not fit beside each other into one. The first `files` of them are
    files, the others are folders."""
    seen: dict[str, str] = {}
    for path in paths:
        _check_path(path)
        folded = _folded(path)
        if folded in seen:
            what = f"beside {seen[folded]!r}, which is one name on some file systems"
            raise _refused(f"it has {path!r} {'twice' if seen[folded] == path else what}")
        seen[folded] = path
    # Folders are names too: a file cannot have the name of a folder, nor can two folders differ in case alone.
    folders: dict[str, str] = {}
    for folder in dict.fromkeys(_folders(paths)):
        if folders.setdefault(_folded(folder), folder) != folder:
            raise _refused(f"it has the folder {folder!r} in two spellings, which are one name on some file systems")
    for path in paths[:files]:
        if _folded(path) in folders:
            raise _refused(f"it has {path!r} as a file and as a folder")


def _folders(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        for parent in PurePosixPath(path).parents[:-1]:
            yield str(parent)


def _check_path(path: str) -> None:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in path or ":" in parts[0][1:2]:
        raise _refused(f"{path[:200]!r} leads out of its folder")
    if any(ord(letter) < 32 for letter in path):
        raise _refused(f"{path[:200]!r} holds a control character")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError as error:
        raise _refused(f"{path[:200]!r} is no UTF-8 text") from error
    if len(parts) > _DEEPEST:
        raise _refused(f"{path[:200]!r} lies in more than {_DEEPEST} folders")
    if max(lengths) > _LONGEST_NAME or sum(lengths) + len(lengths) > _LONGEST_PATH:
        raise _refused(f"{path[:200]!r} is too long")


def _folded(path: str) -> str:
    return normalize("NFC", normalize("NFC", path).casefold())


def _file(row: Any) -> ListedFile:
    if not isinstance(row, list | tuple) or len(row) != 3:
        raise _refused("a file has a path, a size and a digest")
    path, size, sha256 = _text(row[0]), row[1], row[2]
    if type(size) is not int or size < 0:
        raise _refused(f"{path[:200]!r} has the size {str(size)[:40]!r}")
    if not isinstance(sha256, str) or not _DIGEST.fullmatch(sha256):
        raise _refused(f"{path[:200]!r} has no SHA-256")
    return ListedFile(path, size, sha256)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _refused(f"{str(value)[:40]!r} is not the name of a file")
    return value


def _refused(what: str) -> AssetError:
    return AssetError(f"The list of files that came with the job is refused: {what}.")
