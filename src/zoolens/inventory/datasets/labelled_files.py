"""Files of a folder with their labels: found in sub-folders or listed in a CSV file, never outside the folder."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_bytes, read_text, size_of
from zoolens.inventory.manifests.digests import sha256_file

MAX_TABLE: Final = 1 << 28  # bytes of a table of labels: more than two million files
MAX_FOLDERS: Final = 1 << 16  # ImageNet-21k has 21,842
MAX_DEPTH: Final = 64
_SMALL: Final = 1 << 20
FILE_COLUMNS: Final = ("file", "filename", "file_name", "image", "path")
LABEL_COLUMNS: Final = ("label", "class_index", "label_index", "class", "class_id", "target", "category")


@dataclass(frozen=True, slots=True)
class Entry:
    id: str  # the path inside the folder, with forward slashes
    file: str  # where it lies, as text: a path takes four times the memory
    label: int


@dataclass(frozen=True)
class Kinds:
    """Which files of a folder are samples, by their suffixes. `others`: what is counted where it is left out."""

    suffixes: Collection[str]
    others: Collection[str] = ()


def readable(name: str) -> str:
    """A name from the file system as text that can be stored: bytes that are no UTF-8 are written as \\xe9."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def file_digest(path: str | Path) -> str:
    """Small files are hashed every time: that is quicker than a look into the cache of digests."""
    try:
        if size_of(path) < _SMALL:
            return hashlib.sha256(read_bytes(path, _SMALL)).hexdigest()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.", hint="Was it moved or removed?") from error
    return sha256_file(Path(path))


def files_under(
    folder: Path, kinds: Kinds, numbers: Iterator[int] | None = None, left_out: Counter[str] | None = None
) -> Iterator[Path]:
    """Files of these kinds at any depth, in the order of their names; hidden ones are left out.

    Links are followed. Two of them in each of thirty folders lead to a billion places, so folders are counted.
    `numbers`: the count goes on from there. `left_out`: counts files of the other kinds, by suffix.
    """
    numbers = numbers or count(1)
    here = folder.stat()
    # What is still to be looked at, folder in folder: places, and the folders above each that is a folder.
    waiting: list[Iterator[tuple[Path, frozenset[tuple[int, int]] | None]]] = [
        iter([(folder, frozenset({(here.st_dev, here.st_ino)}))])
    ]
    while waiting:
        if (found := next(waiting[-1], None)) is None:
            waiting.pop()
            continue
        place, above = found
        if above is None:
            yield place
            continue
        if next(numbers) > MAX_FOLDERS or len(above) > MAX_DEPTH:
            raise DatasetError(
                f"{folder} has more than {MAX_FOLDERS:,} folders, or folders more than {MAX_DEPTH} deep.",
                hint="Do links in it lead back and forth? Name a smaller folder.",
            )
        waiting.append(_inside(place, above, kinds, left_out))


def _inside(
    folder: Path, above: frozenset[tuple[int, int]], kinds: Kinds, left_out: Counter[str] | None
) -> Iterator[tuple[Path, frozenset[tuple[int, int]] | None]]:
    """Folders and files of a folder. `above`: it and those that it lies in; a link to one of them is passed over."""
    # It distinguishes files from folders without a system call for each.
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            target = entry.stat()
            if (target.st_dev, target.st_ino) not in above:
                yield folder / entry.name, above | {(target.st_dev, target.st_ino)}
        elif (suffix := os.path.splitext(entry.name)[1].lower()) in kinds.suffixes:  # noqa: PTH122 - Path is slow
            yield folder / entry.name, None
        elif left_out is not None and suffix in kinds.others:
            left_out[suffix] += 1


@dataclass(frozen=True)
class Columns:
    """Which columns of a table have the file and the label: names, or numbers from 0. None: the usual ones."""

    file: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Row:
    """One line of a table. `file` is what it says, `path` where that lies."""

    file: str
    path: Path
    label: str


def table_rows(folder: Path, table: Path, suffixes: Collection[str], columns: Columns | None = None) -> Iterator[Row]:
    """The lines of a CSV file with files and labels, which may name its columns in its first line."""
    root = folder.resolve()
    chosen = columns or Columns()
    file_column, label_column = _numbered(chosen)
    try:
        with io.StringIO(read_text(table, MAX_TABLE), newline="") as stream:
            for number, row in enumerate(csv.reader(stream), 1):
                if not row:
                    continue
                if len(row) < 2:
                    raise DatasetError(f"{table} line {number} has one column.", hint="Its columns are file and label.")
                if number == 1 and _is_header(folder, row, suffixes):
                    file_column, label_column = _columns(row, table, chosen)
                    continue
                yield _row(root, row, (file_column, label_column), f"{table} line {number}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{table} cannot be read: {error}.", hint="Save it as CSV in UTF-8.") from error


def _row(root: Path, row: list[str], columns: tuple[int, int], where: str) -> Row:
    if len(row) <= max(columns):
        raise DatasetError(f"{where} is shorter than the header.", hint="Complete the line.")
    file, label = (row[column].strip() for column in columns)
    if not label:
        raise DatasetError(f"{where} has no label.", hint="Complete the line, or remove it.")
    return Row(file, located(root, file, where), label)


def _numbered(chosen: Columns) -> tuple[int, int]:
    """The columns of a table without names: the first and the second unless others are given by number."""
    file_column, label_column = (
        int(name) if name is not None and name.isdecimal() else usual
        for name, usual in ((chosen.file, 0), (chosen.label, 1))
    )
    return file_column, label_column


def _is_header(folder: Path, row: list[str], suffixes: Collection[str]) -> bool:
    """A first line that names columns: its first cells are no file and no number."""
    cells = [cell.strip().lower() for cell in row]
    if any(cell in FILE_COLUMNS for cell in cells):
        return True
    return Path(cells[0]).suffix not in suffixes and not is_file(folder / row[0].strip())


def _columns(header: list[str], table: Path, chosen: Columns) -> tuple[int, int]:
    """Which columns have the file and the label. Of more than two, none is taken for the label by its place alone."""
    cells = [cell.strip().lower() for cell in header]
    file_column = _named(cells, chosen.file, table)
    label_column = _named(cells, chosen.label, table)
    if file_column is None:
        file_column = next((cells.index(name) for name in FILE_COLUMNS if name in cells), 0)
    if label_column is None:
        label_column = next((cells.index(name) for name in LABEL_COLUMNS if name in cells), None)
    if label_column is None and len(cells) > 2:
        raise DatasetError(
            f"{table} has the columns {', '.join(cells)[:200]}, and none is called {', '.join(LABEL_COLUMNS)}.",
            hint="Call the column of labels label.",
        )
    return file_column, (1 - min(file_column, 1)) if label_column is None else label_column


def _named(cells: list[str], name: str | None, table: Path) -> int | None:
    """The number of the column that a user chose."""
    if name is None:
        return None
    if name.lower() in cells:
        return cells.index(name.lower())
    if name.isdecimal() and int(name) < len(cells):
        return int(name)
    raise DatasetError(f"{table} has no column {name[:80]!r}.", hint=f"It has {', '.join(cells)[:200]}.")


def located(root: Path, file: str, where: str) -> Path:
    """Where a file lies that a table names: inside the folder, also beneath images/."""
    if "\0" in file:
        raise DatasetError(f"{where} has a null character in a name.", hint="Save it again.")
    for candidate in (root / file, root / "images" / file):
        try:
            path = candidate.resolve()
        except (OSError, RuntimeError) as error:  # links in a circle
            raise DatasetError(
                f"{where} names {file[:200]!r}, which leads nowhere.", hint="Check the links."
            ) from error
        if not path.is_relative_to(root):
            raise DatasetError(
                f"{where} names {file[:200]!r}, which lies outside the folder.", hint="Use paths inside it."
            )
        if is_file(path):
            return path
    raise DatasetError(
        f"{where} names {file[:200]!r}, which does not exist.", hint="Paths are relative to the CSV file."
    )
