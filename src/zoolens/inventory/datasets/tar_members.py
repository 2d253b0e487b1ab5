"""Members of a tar archive of a stranger, from its headers alone: names, places and sizes, in bounded memory.

Python's tarfile reads extended headers whole, however long they say they are. Nothing is unpacked to disk here, so that
names of members are names and no more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from zoolens.base.safety.untrusted import Refused

BLOCK: Final = 512
_MAX_EXTENDED: Final = 1 << 16  # bytes of a long name or of extended attributes
_REGULAR: Final = frozenset(b"0\x007")
_LINKS: Final = frozenset(b"12")
_PASSED: Final = frozenset(b"5Kg")  # folders, long targets of links, attributes of the whole archive
_CHECKSUM: Final = slice(148, 156)
_PACKED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7z", b"\x28\xb5\x2f\xfd")
_AFTER_END: Final = 1 << 20  # bytes that are looked at behind the end; tar pads to 10,240


@dataclass(frozen=True)
class Member:
    name: str
    offset: int
    size: int


def tar_members(path: Path, file: BinaryIO) -> Iterator[Member]:
    """The regular files of an archive in its order; Refused where it is damaged, packed, or has links.

    `file` may be read elsewhere between two members.
    """
    end = os.fstat(file.fileno()).st_size
    place, long_name, long_size = 0, None, None
    while place < end:
        header = _at(file, place, BLOCK)
        if place == 0 and header.startswith(_PACKED):
            raise Refused("it is compressed, and only plain tar archives can be read from any place; unpack it")
        if not any(header):
            _refuse_more(file, place)
            return
        _check(header, place)
        kind = header[156]
        size = _number(header[124:136], place) if long_size is None else long_size
        content = place + BLOCK
        place = content + -(-size // BLOCK) * BLOCK
        if content + size > end:
            raise Refused(f"it ends in the middle of the member at byte {content - BLOCK:,}")
        if kind in b"Lx":
            extended = _extended(file, content, size)
            if kind == ord("L"):
                long_name = extended.rstrip(b"\0").decode("utf-8", "backslashreplace")
            else:
                found = _attributes(extended)
                long_name, long_size = found.get("path", long_name), _size_attribute(found)
            continue
        name, long_name, long_size = long_name or _name(header), None, None
        if kind in _LINKS:
            raise Refused(f"its member {name[:80]!r} is a link; write files themselves (tar --dereference)")
        if kind in _REGULAR:
            yield Member(_checked(name), content, size)
        elif kind not in _PASSED:
            raise Refused(f"its member {name[:80]!r} is of the kind {chr(kind)!r}, which is not read")
    raise Refused("it has no end: it was cut off, or whoever wrote it did not close it")


def _at(file: BinaryIO, place: int, size: int) -> bytes:
    file.seek(place)
    found = file.read(size)
    if len(found) < size:
        raise Refused("it ends in the middle of a header")
    return found


def _refuse_more(file: BinaryIO, place: int) -> None:
    """Archives that were written one behind the other have an end each, and readers stop at the first."""
    file.seek(place)
    if any(file.read(_AFTER_END)):
        raise Refused(f"something follows its end at byte {place:,}; archives cannot be joined with cat")


def _check(header: bytes, place: int) -> None:
    expected = _number(header[_CHECKSUM], place)
    blank = header[: _CHECKSUM.start] + b" " * 8 + header[_CHECKSUM.stop :]
    if sum(blank) != expected:
        raise Refused(f"it is no tar archive, or is damaged, at byte {place:,}")


def _number(text: bytes, place: int) -> int:
    """Octal digits, or, where the first bit is set, a binary number."""
    if text[0] == 0x80:
        return int.from_bytes(text[1:], "big")
    try:
        digits = text.rstrip(b" \0").lstrip()
        return int(digits or b"0", 8)
    except ValueError as error:
        raise Refused(f"it is no tar archive, or is damaged, at byte {place:,}") from error


def _name(header: bytes) -> str:
    name, prefix = header[:100].partition(b"\0")[0], header[345:500].partition(b"\0")[0]
    # GNU's own form has other fields where the prefix is.
    whole = prefix + b"/" + name if prefix and header[257:263] == b"ustar\0" else name
    return whole.decode("utf-8", "backslashreplace")


def _checked(name: str) -> str:
    """A name without the leading ./ that tar writes for what it is given as a folder."""
    name = name.removeprefix("./")
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise Refused(f"its member {name[:80]!r} has a name that leads out of it")
    return name


def _extended(file: BinaryIO, place: int, size: int) -> bytes:
    if size > _MAX_EXTENDED:
        raise Refused(f"it has a header of {size:,} bytes, more than the {_MAX_EXTENDED:,} that are read")
    return _at(file, place, size)


def _attributes(content: bytes) -> dict[str, str]:
    """Lines of the form "20 path=some/name": each begins with its own length."""
    found: dict[str, str] = {}
    while content.strip(b"\0"):
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or len(length) > 6 or not 0 < int(length) <= len(content):
            raise Refused("it has extended attributes that cannot be read")
        name, _, value = content[len(length) + 1 : int(length)].rstrip(b"\n").partition(b"=")
        found[name.decode("utf-8", "replace")] = value.decode("utf-8", "backslashreplace")
        content = content[int(length) :]
    return found


def _size_attribute(found: dict[str, str]) -> int | None:
    if any(name.startswith("GNU.sparse") for name in found):
        raise Refused("it has a sparse member, which is not read")
    size = found.get("size")
    if size is not None and (not size.isascii() or not size.isdecimal() or len(size) > 18):
        raise Refused("it has extended attributes that cannot be read")
    return None if size is None else int(size)
