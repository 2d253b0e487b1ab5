"""Arrays in files without a header, one sample a file, listed in a CSV file, as MLPerf Tiny has them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_bytes
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_indices, class_names
from zoolens.inventory.datasets.dataset import Dataset, Sample
from zoolens.inventory.datasets.labelled_files import Columns, Entry, file_digest, readable, table_rows

LABELS: Final = "labels.csv"
MAX_NUMBERS: Final = 1 << 26  # of a sample
_TYPES: Final = ("int8", "uint8", "int16", "uint16", "int32", "int64", "float16", "float32", "float64")


class RawFiles(Dataset):
    """An index of files of one size; each is read when its sample is. Numbers are little-endian."""

    def __init__(
        self,
        entries: Sequence[Entry],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        *,
        name: str,
        classes: tuple[str, ...] | None = None,
    ) -> None:
        check_labels(name, [entry.label for entry in entries], classes)
        self.name, self.classes = name, classes
        self._entries, self._shape, self._dtype = tuple(entries), shape, dtype
        self._fingerprint: str | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, index: int) -> Sample:
        entry = self._entries[index]
        wanted = math.prod(self._shape) * self._dtype.itemsize
        try:
            content = read_bytes(entry.file, wanted)
        except OSError as error:
            raise self._refused(entry, f"cannot be read: {error.strerror or error}") from error
        if len(content) != wanted:
            raise self._refused(entry, f"has {len(content):,} bytes")
        return Sample(entry.id, np.frombuffer(content, self._dtype).reshape(self._shape), entry.label)

    def _refused(self, entry: Entry, what: str) -> DatasetError:
        size = "×".join(map(str, self._shape))
        wanted = math.prod(self._shape) * self._dtype.itemsize
        return DatasetError(
            f"{readable(entry.file)} {what}; {size} of {self._dtype.name} take {wanted:,}.",
            hint="Correct shape and dtype, or fetch the file again.",
        )

    def labels(self) -> NDArray[np.int64]:
        return np.array([entry.label for entry in self._entries], np.int64)

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(f"raw {self._dtype.str} {self._shape};".encode())
            for entry in self._entries:
                digest.update(f"{file_digest(entry.file)} {entry.label};".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def open_raw(
    location: str,
    *,
    shape: str,
    dtype: str,
    labels: str | None = None,
    file: str | None = None,
    label: str | None = None,
    classes: str | None = None,
) -> RawFiles:
    """shape: extents with × or x between them, such as 49x10x1. dtype: a type of numpy, such as int8.

    labels: the CSV file in the folder (else labels.csv). file, label: its columns, by name or number from 0.
    classes: a file with class names, or the names with commas between them.
    """
    folder = Path(location).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"There is no folder {folder}.", hint="Give a folder of files without a header.")
    table = folder / (labels or LABELS)
    if not is_file(table):
        raise DatasetError(f"There is no labels file {table}.", hint="Name it: labels=FILE.")
    extents, kind = _shape(shape), _dtype(dtype)
    rows = list(table_rows(folder, table, (".bin", ".raw", ".dat"), Columns(file, label)))
    if not rows:
        raise DatasetError(f"{table} lists no files.", hint="Its columns are file and label.")
    names = class_names(classes, folder, NAMES)
    indices, known = class_indices(sorted({row.label for row in rows}), names, str(table))
    entries = [Entry(row.file, str(row.path), indices[row.label]) for row in rows]
    dataset = RawFiles(entries, extents, kind, name=readable(folder.resolve().name), classes=known)
    dataset.alphabetical = names is None and known is not None
    return dataset


def _shape(option: str) -> tuple[int, ...]:
    words = option.replace("×", "x").split("x")
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise DatasetError(f"The shape {option[:80]!r} is not written as 49x10x1.", hint="Without the batch axis.")
    extents = tuple(map(int, words))
    if not 1 <= math.prod(extents) <= MAX_NUMBERS:
        raise DatasetError(f"A sample of {option[:80]} numbers is not read.", hint=f"1 to {MAX_NUMBERS:,} are.")
    return extents


def _dtype(option: str) -> np.dtype[Any]:
    if option not in _TYPES:
        raise DatasetError(f"There is no dtype {option[:80]!r}.", hint=f"Known: {', '.join(_TYPES)}.")
    return np.dtype(option).newbyteorder("<")
