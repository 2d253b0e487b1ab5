"""Files of what was derived from the store: lines of JSON behind a header that says of what, by which code, up to when.

Such a file may be missing, outdated or damaged at any time: it is then made anew. It is replaced as a whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final
from zlib import crc32

_DERIVING: Final = ("index", "measure", "manifests", "store", "graph/sources.py", "graph/structure.py")


@dataclass(frozen=True)
class Derived:
    """`mark`: the last change of the store that is in it."""

    mark: int
    lines: tuple[str, ...]


NOTHING: Final = Derived(0, ())


def read_derived(path: Path, about: str = "") -> Derived:
    """What is in the file; nothing where there is none, or it is damaged, about something else or of other code."""
    try:
        with path.open("rb") as file:
            header: dict[str, Any] = json.loads(file.readline())
            if header["code"] != code_digest() or header["about"] != about:
                return NOTHING
            checksum, lines = 0, []
            for line in file:  # one by one: the file may be a hundred megabytes, and need not be there twice
                checksum = crc32(line, checksum)
                lines.append(line.rstrip(b"\n").decode())
        return Derived(int(header["mark"]), tuple(lines)) if header["checksum"] == checksum else NOTHING
    except (OSError, ValueError, KeyError, TypeError):
        return NOTHING


def write_derived(path: Path, mark: int, lines: Iterable[str], about: str = "") -> None:
    """Replace the file. One that cannot be written is done without: a read-only home only costs time."""
    body = "\n".join(lines).encode()
    head = json.dumps({"code": code_digest(), "about": about, "checksum": crc32(body), "mark": mark})
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("wb", dir=path.parent, delete=False) as file:
            file.write(head.encode() + b"\n" + body)
        Path(file.name).replace(path)


@cache
def code_digest() -> str:
    """Of the code that derives: another version may derive something else from the same facts."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for part in _DERIVING:
        place = root / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if not file.name.startswith("test_"):
                digest.update(file.read_bytes())
    return digest.hexdigest()
