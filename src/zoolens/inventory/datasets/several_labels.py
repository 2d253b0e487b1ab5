"""Samples that any number of labels apply to: a table of 0 and 1, one row a sample and one column a label."""

from __future__ import annotations

import csv
import hashlib
import io
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_text
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, DatasetView
from zoolens.inventory.datasets.labelled_files import FILE_COLUMNS, MAX_TABLE, Entry, located
from zoolens.inventory.datasets.truth import Truth

Present = NDArray[np.int8]

_CELLS: Final = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "": -1}  # an empty cell: nobody said
_HINT: Final = "1: the label applies, 0: it does not, −1 in an array and an empty cell in a table: nobody said."


class SeveralLabels(DatasetView):
    """A dataset whose samples have labels of a table. `names`: of the labels, in the order of its columns."""

    def __init__(self, parent: Dataset, present: Present, names: tuple[str, ...] | None) -> None:
        super().__init__(parent)
        if len(present) != len(parent):
            raise DatasetError(f"Dataset {parent.name} has {len(parent):,} inputs but {len(present):,} rows of labels.")
        if names is not None and len(names) != present.shape[1]:
            raise DatasetError(
                f"Dataset {parent.name} has {present.shape[1]} columns of labels but {len(names)} names of them."
            )
        self.classes, self.truth_kind = names, "labels"
        self._present = present
        self._fingerprint: str | None = None

    def truth(self, index: int) -> Truth | None:
        """The labels of one sample; None where nobody said anything of it."""
        row = self._present[index]
        return Truth("labels", {"present": row}) if (row >= 0).any() else None

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(f"labels {self._present.shape[1]};{self.parent.fingerprint()};".encode())
            digest.update(np.ascontiguousarray(self._present).tobytes())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def checked_present(given: NDArray[Any], where: str) -> Present:
    """An array of 0 and 1, samples × labels; −1 and NaN where nobody said."""
    if given.ndim != 2 or not given.shape[1] or given.dtype.kind not in "biuf":
        raise DatasetError(
            f"The labels in {where} are an array of shape {given.shape} and type {given.dtype}, not samples × labels.",
            hint=_HINT,
        )
    known = np.where(np.isnan(given), -1, given) if given.dtype.kind == "f" else given
    wrong = ~np.isin(known, (-1, 0, 1))
    if wrong.any():
        raise DatasetError(f"The labels in {where} have the value {known[wrong][0]}.", hint=_HINT)
    return known.astype(np.int8)


def read_label_table(folder: Path, table: Path) -> tuple[list[Entry], Present, tuple[str, ...]]:
    """Files, their labels, and the labels' names, of a CSV file whose first line names the columns."""
    root = folder.resolve()
    entries: list[Entry] = []
    rows: list[list[int]] = []
    try:
        with io.StringIO(read_text(table, MAX_TABLE), newline="") as stream:
            lines = csv.reader(stream)
            header = [cell.strip() for cell in next(lines, [])]
            file_column, names = _named(header, table)
            for number, line in enumerate(lines, 2):
                if not line:
                    continue
                where = f"{table} line {number}"
                if len(line) != len(header):
                    raise DatasetError(f"{where} has {len(line)} cells, but the first line {len(header)}.")
                cells = [cell.strip() for cell in line]
                file = cells.pop(file_column)
                entries.append(Entry(file, str(located(root, file, where)), UNLABELLED))
                rows.append([_applies(cell, where) for cell in cells])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{table} cannot be read: {error}.", hint="Save it as CSV in UTF-8.") from error
    if not rows:
        raise DatasetError(f"{table} lists no images.", hint="Its columns are file, and one for each label.")
    return entries, np.array(rows, np.int8), names


def _named(header: list[str], table: Path) -> tuple[int, tuple[str, ...]]:
    """The column of files, and the names of all others."""
    lower = [cell.lower() for cell in header]
    file_column = next((lower.index(name) for name in FILE_COLUMNS if name in lower), None)
    names = [name for place, name in enumerate(header) if place != file_column]
    if file_column is None or not names or len(set(names)) < len(names) or "" in names:
        raise DatasetError(
            f"The first line of {table} does not name the column of files and one column for each label.",
            hint="Write it as file,cat,dog; each label has a name of its own.",
        )
    return file_column, tuple(names)


def _applies(cell: str, where: str) -> int:
    found = _CELLS.get(cell)
    if found is None:
        raise DatasetError(f"{where} has the cell {cell[:80]!r} in a column of a label.", hint=_HINT)
    return found
