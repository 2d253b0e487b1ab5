"""Files of named arrays that were derived from the store. A header says from what, by which code and up to when.

Such a file may be missing, outdated or damaged at any time: it is then made again. It is replaced as a whole, and its
arrays are read where they lie, so that opening a large one takes a moment and little memory.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from zoolens.base.paths import replaced_file

Arrays = Mapping[str, NDArray[Any]]

DERIVING: Final = (  # rooms and modules on whose code the arrays depend
    "base/statistics", "base/store", "inventory/manifests", "inventory/preprocess", "inventory/tasks",
    "findings/measure", "findings/comparisons", "findings/index",
    "inventory/datasets/imagenet.py",
    "findings/graph/structures/structure.py", "findings/graph/structures/structure_sources.py",
)  # fmt: skip
_ALIGNED: Final = 64
_LENGTH: Final = 8  # bytes: of the header


@dataclass(frozen=True)
class ArrayFile:
    """`details`: what the writer said of it, besides what it is about."""

    details: Mapping[str, Any]
    arrays: Arrays


def read_arrays(path: Path, about: Mapping[str, Any]) -> ArrayFile | None:
    """Read the file. None if it is missing or damaged, or if it is about something else or made by other code."""
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        length = int.from_bytes(content[:_LENGTH], "little")
        header: dict[str, Any] = json.loads(content[_LENGTH : _LENGTH + length])
        if header["code"] != code_digest() or header["about"] != about:
            return None
        start = _aligned(_LENGTH + length)
        body = memoryview(content)[start:]
        if len(body) != header["bytes"] or crc32(body, crc32(_checked_bytes(header))) != header["checksum"]:
            return None
        arrays = {
            name: np.frombuffer(body, np.dtype(kind), count, offset)
            for name, (kind, count, offset) in header["arrays"].items()
        }
        return ArrayFile(header["details"], arrays)
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None


def write_arrays(path: Path, about: Mapping[str, Any], details: Mapping[str, Any], arrays: Arrays) -> None:
    """Replace the file. One that cannot be written is done without: a read-only home only costs time."""
    places: dict[str, tuple[str, int, int]] = {}
    end = 0
    for name, array in arrays.items():
        places[name] = (array.dtype.str, len(array), end)
        end = _aligned(end + array.nbytes)
    header: dict[str, Any] = {"code": code_digest(), "about": about, "details": details, "arrays": places, "bytes": end}
    checksum = crc32(_checked_bytes(header))
    for piece in _pieces(arrays):
        checksum = crc32(piece, checksum)
    head = json.dumps({**header, "checksum": checksum}).encode()
    with suppress(OSError), replaced_file(path) as file:
        file.write(len(head).to_bytes(_LENGTH, "little") + head)
        file.write(bytes(_aligned(_LENGTH + len(head)) - _LENGTH - len(head)))
        for piece in _pieces(arrays):
            file.write(piece)


def _pieces(arrays: Arrays) -> Sequence[Any]:
    """The pieces of the file in the order in which they are written."""
    pieces: list[Any] = []
    for array in arrays.values():
        pieces += [np.ascontiguousarray(array).data.cast("B") if len(array) else b""]
        pieces += [bytes(_aligned(array.nbytes) - array.nbytes)]
    return pieces


def _checked_bytes(header: Mapping[str, Any]) -> bytes:
    """The header without its checksum, as the bytes that the checksum covers."""
    return json.dumps({name: header[name] for name in ("about", "details", "arrays", "bytes")}, sort_keys=True).encode()


def _aligned(length: int) -> int:
    return -(-length // _ALIGNED) * _ALIGNED


def packed_texts(values: Sequence[Any]) -> NDArray[np.uint8]:
    """Pack texts, numbers and flags into one array of bytes."""
    return np.frombuffer(json.dumps(values, separators=(",", ":")).encode(), np.uint8)


def unpacked_texts(packed: NDArray[np.uint8]) -> list[Any]:
    texts: list[Any] = json.loads(packed.tobytes())
    return texts


@cache
def code_digest() -> str:
    """The digest of the code that derives arrays: another version may derive something else from the same facts."""
    root = Path(__file__).parents[3]
    digest = hashlib.sha256()
    for part in DERIVING:
        place = root / part
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            if not file.name.startswith("test_"):
                digest.update(file.read_bytes())
    return digest.hexdigest()
