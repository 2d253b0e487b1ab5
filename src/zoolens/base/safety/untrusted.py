"""Files of strangers: only regular files are opened, and no more of one is read or unpacked than a stated size.

A name may lead to a pipe, which makes whoever opens it wait for ever, to a device, whose content never ends, or to an
archive of a megabyte that unpacks to gigabytes. Links are followed and what they lead to is judged. Sizes are counted
while reading; what a header or an index claims is believed only where it is the larger. Everything raised here is an
OSError whose `strerror` is the rest of a sentence, so that a reader that explains an OSError explains these too.
This module needs the standard library only: it is also used inside foreign environments.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

MAX_FILE: Final = 64 << 30  # no file of a model or dataset is larger; more is a device in disguise, such as /proc/kcore
MAX_ENTRIES: Final = 100_000
UNPACKED_AT_LEAST: Final = 64 << 20  # what every archive may unpack to, however small it is
UNPACKED_RATIO: Final = 8  # how many times its own size a larger archive may unpack to; trained weights reach 2
SECRET_NAME: Final = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|_KEY|APIKEY|AUTH|COOKIE", re.IGNORECASE)  # of variables
_CHUNK: Final = 1 << 20
_ENCRYPTED: Final = 0x2061  # encrypted, patched, strongly encrypted, index encrypted
_LOCAL_HEADER: Final = struct.Struct("<4s22xHH")
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


class Refused(OSError):
    """A file that is not opened or not read to its end; `strerror` says why."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.EINVAL, why)

    def __str__(self) -> str:
        return str(self.strerror)


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = True) -> BinaryIO:
    """The file at `path` for reading; Refused where it is no regular file, after links were followed if they are."""
    descriptor = _opened(path, follow_links=follow_links)
    try:
        # Another file may lie there by now.
        _check(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _opened(path: str | os.PathLike[str], *, follow_links: bool = True) -> int:
    # Before it is opened: that alone can wait for a pipe's writer, or rewind a tape.
    size_of(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    return os.open(path, flags if follow_links else flags | getattr(os, "O_NOFOLLOW", 0))


def size_of(path: str | os.PathLike[str]) -> int:
    """Bytes of the regular file at `path`; Refused where it is something else."""
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path for every image is slow
    except ValueError as error:  # a null character
        raise Refused("its name is not one that a file can have") from error
    return _check(status)


def is_file(path: Path) -> bool:
    """Returns what `Path.is_file` does, and False for a name that is too long or impossible."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """All of a regular file; Refused where it has more than `limit` bytes."""
    with open_regular(path) as file:
        # Known beforehand, but for files of the kernel's.
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_long("it has", limit)
        return read_limited(file, limit)


def read_small(path: str | os.PathLike[str], most: int) -> bytes | None:
    """All of a regular file of at most so many bytes, else None. It is for thousands of images: a file object takes as
    long to make as a file of 10 kB to read."""
    descriptor = _opened(path)
    try:
        size = _check(os.fstat(descriptor))
        if size > most:
            return None
        parts = [os.read(descriptor, size)]
        # A file that lies far away may come in pieces.
        while (left := size - sum(map(len, parts))) and (part := os.read(descriptor, left)):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def read_text(path: str | os.PathLike[str], limit: int) -> str:
    """All of a regular UTF-8 file, line ends as \\n; UnicodeDecodeError where it is not text.

    The byte-order mark that spreadsheets and Windows editors write is dropped: it is no part of the first word.
    """
    return read_bytes(path, limit).decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def read_limited(stream: IO[bytes], limit: int, what: str = "it has") -> bytes:
    """What is left of a stream; Refused once more than `limit` bytes have come."""
    parts: list[bytes] = []
    left = limit + 1
    while left and (part := stream.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise _too_long(what, limit)
    return b"".join(parts)


def _too_long(what: str, limit: int) -> Refused:
    return Refused(f"{what} more than the {limit:,} bytes that are read")


def parse_json(text: bytes | str, most_values: int = 1 << 23) -> Any:
    """JSON of a stranger. ValueError also where it is nested too deeply, or has more values than `most_values`.

    A value may take thirty times as much memory as it has characters, so the length of the text is no limit.
    """
    content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if sum(map(content.count, (b",", b"[", b"{"))) > most_values:
        raise ValueError(f"it has more than {most_values:,} values")
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _check(status: os.stat_result) -> int:
    if not stat.S_ISREG(status.st_mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "something else")
        raise Refused(f"it is {kind}, not a regular file")
    if status.st_size > MAX_FILE:
        raise Refused(f"it has {status.st_size:,} bytes, more than the {MAX_FILE:,} that a file may have")
    return status.st_size


# --- zip archives


@contextmanager
def open_archive(path: Path, *, ignore_case: bool = False) -> Iterator[zipfile.ZipFile]:
    """A zip archive none of whose entries lies over another, is named twice, encrypted or packed in a rare way.

    `ignore_case`: names that differ only in their case count as the same, as they do for some readers.
    zipfile.BadZipFile where it is no archive at all, or a damaged one.
    """
    with open_regular(path) as file:
        try:
            archive = zipfile.ZipFile(file)
        except (NotImplementedError, ValueError, RecursionError) as error:
            raise zipfile.BadZipFile(str(error)) from error
        with archive:
            _check_entries(archive.infolist(), ignore_case)
            yield archive


def check_unpacked(archive: zipfile.ZipFile, limit: int | None = None) -> int:
    """Unpack all entries, keeping nothing, and return their size; Refused once it is beyond `limit`.

    Without a limit: `UNPACKED_AT_LEAST`, or `UNPACKED_RATIO` times the archive's size where that is more.
    """
    if limit is None:
        packed = sum(entry.compress_size for entry in archive.infolist())
        limit = max(UNPACKED_AT_LEAST, UNPACKED_RATIO * packed)
    total = 0
    for entry in archive.infolist():
        total += entry.file_size
        if total > limit:
            raise Refused(f"it unpacks to more than {limit:,} bytes")
        check_entry(archive, entry)
    return total


@contextmanager
def open_entry(archive: zipfile.ZipFile, entry: str | zipfile.ZipInfo) -> Iterator[IO[bytes]]:
    """An entry, unpacked as it is read; KeyError where there is none, zipfile.BadZipFile where it is damaged."""
    damaged = f"its entry {(entry if isinstance(entry, str) else entry.filename)[:80]!r} is damaged"
    try:
        opened = archive.open(entry)
    except (UnicodeDecodeError, RuntimeError) as error:
        # Before its bytes stand a name and flags of its own.
        raise zipfile.BadZipFile(damaged) from error
    with opened:
        try:
            yield opened
        except zlib.error as error:
            raise zipfile.BadZipFile(damaged) from error


def read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """All of an entry, as `open_entry` gives it; Refused where it is larger than `limit`."""
    with open_entry(archive, name) as stream:
        return read_limited(stream, limit, f"its entry {name[:80]!r} unpacks to")


def check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Refused where an entry does not unpack to the size that the index claims.

    Python's reader would stop at that size; the readers inside frameworks go by what the packed bytes say.
    """
    if entry.compress_type == zipfile.ZIP_STORED:  # both sizes are known to be equal
        return
    file = archive.fp
    assert file is not None
    file.seek(data_offset(archive, entry))
    left, unpacked = entry.compress_size, 0
    unpacking = zlib.decompressobj(-15)
    while not unpacking.eof and unpacked <= entry.file_size:
        packed = unpacking.unconsumed_tail
        if not packed:
            packed = file.read(min(left, _CHUNK))
            left -= len(packed)
        if not packed:
            break
        try:
            unpacked += len(unpacking.decompress(packed, _CHUNK))
        except zlib.error as error:
            raise zipfile.BadZipFile(f"its entry {_short(entry)} is damaged") from error
    if unpacked != entry.file_size:
        raise Refused(f"its entry {_short(entry)} does not unpack to the {entry.file_size:,} bytes that it claims")


def data_offset(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> int:
    """Where the bytes of an entry begin in the archive's file."""
    file = archive.fp
    assert file is not None
    file.seek(entry.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"its entry {_short(entry)} is not where the index says")
    _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    return entry.header_offset + _LOCAL_HEADER.size + int(name_length) + int(extra_length)


def _check_entries(entries: list[zipfile.ZipInfo], ignore_case: bool) -> None:
    if len(entries) > MAX_ENTRIES:
        raise Refused(f"it has {len(entries):,} entries, more than the {MAX_ENTRIES:,} that are read")
    names: set[str] = set()
    end = 0
    for entry in sorted(entries, key=lambda info: info.header_offset):
        name = entry.filename.casefold() if ignore_case else entry.filename
        if name in names:
            raise Refused(f"it has two entries named {_short(entry)}, of which readers see different ones")
        names.add(name)
        if entry.flag_bits & _ENCRYPTED:
            raise Refused(f"its entry {_short(entry)} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Refused(f"its entry {_short(entry)} is packed in a way that is not read")
        if entry.compress_type == zipfile.ZIP_STORED and entry.file_size != entry.compress_size:
            raise Refused(f"its entry {_short(entry)} has two sizes")
        if entry.header_offset < end:
            raise Refused(f"its entry {_short(entry)} overlaps another one, as in a zip bomb")
        end = entry.header_offset + _LOCAL_HEADER.size + entry.compress_size


def _short(entry: zipfile.ZipInfo) -> str:
    return repr(entry.filename[:80])
