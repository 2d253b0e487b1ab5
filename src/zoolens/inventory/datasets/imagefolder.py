"""Images in a folder: one sub-folder per class, or a labels.csv beside the files."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import is_file, read_bytes, read_text, size_of
from zoolens.inventory.datasets.classes import NAMES, check_labels, class_indices, class_names
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.decoders.decoder import load_decoder
from zoolens.inventory.datasets.images import OTHER_SUFFIXES, SUFFIXES, Decode, decode_image
from zoolens.inventory.manifests.digests import sha256_file
from zoolens.inventory.manifests.schema import DEFAULT_DECODER

LABELS: Final = "labels.csv"
MAX_TABLE: Final = 1 << 28  # bytes of a labels.csv: more than two million images
MAX_ENCODED: Final = 1 << 28  # bytes of an image file
MAX_FOLDERS: Final = 1 << 16  # ImageNet-21k has 21,842
MAX_DEPTH: Final = 64
_SMALL: Final = 1 << 20
_LOOSE: Final = ""  # among counts by suffix: pictures in no class folder
_SPLITS: Final = frozenset(
    ("train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "holdout")
)
_FILE_COLUMNS: Final = ("file", "filename", "file_name", "image", "path")
_LABEL_COLUMNS: Final = ("label", "class_index", "label_index", "class", "class_id", "target", "category")


@dataclass(frozen=True)
class Entry:
    id: str  # the path inside the folder, with forward slashes
    path: Path
    label: int


class ImageFolder(Dataset):
    """An index of files and labels; pixels are decoded when a sample is read."""

    encoded = True

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        name: str,
        classes: tuple[str, ...] | None,
        alphabetical: bool = False,
        keep_gray: bool = False,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.notes = name, notes
        self.classes = classes
        self.alphabetical = alphabetical
        self._entries = tuple(entries)
        self._files = [str(entry.path) for entry in entries]  # made once: paths are slow to turn into text
        self._keep_gray = keep_gray
        self._decoder: str = DEFAULT_DECODER
        self._decode: Decode | None = None
        self._fingerprint: str | None = None
        check_labels(name, [entry.label for entry in entries], classes)

    def __len__(self) -> int:
        return len(self._entries)

    def read(self, index: int) -> Sample:
        entry, file = self._entries[index], self._files[index]
        return Sample(entry.id, self._pixels(file), entry.label)

    def read_encoded(self, index: int) -> bytes | None:
        try:
            return read_bytes(self._files[index], MAX_ENCODED)
        except OSError as error:
            reason = error.strerror or error
            raise DatasetError(f"{_readable(self._files[index])} cannot be read: {reason}.") from error

    def _pixels(self, file: str) -> NDArray[np.uint8]:
        return decode_image(file, _readable(file), keep_gray=self._keep_gray, decode=self._decode)

    def decoded_with(self, decoder: str) -> Dataset:
        if decoder == self._decoder:
            return self
        other = copy(self)
        other._decoder, other._decode = decoder, load_decoder(decoder)
        return other

    def labels(self) -> NDArray[np.int64]:
        return np.array([entry.label for entry in self._entries], np.int64)

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(b"gray;" if self._keep_gray else b"rgb;")
            for entry in self._entries:
                digest.update(f"{_file_digest(entry.path)} {entry.label};".encode())
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def open_image_folder(
    location: str, *, labels: str | None = None, classes: str | None = None, gray: str = "rgb"
) -> ImageFolder:
    """Class sub-folders, or a folder with labels.csv (columns file and label).

    labels: another name of the CSV file. classes: a file with class names, or the names with commas between them.
    gray: "rgb" makes grey images RGB, "keep" leaves them with one channel.
    """
    folder = Path(location).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"There is no folder {folder}.", hint="Give a folder of images.")
    if gray not in ("rgb", "keep"):
        raise DatasetError(f"The option gray is 'rgb' or 'keep', not {gray!r}.")
    names = class_names(classes, folder, NAMES)
    table = folder / (labels or LABELS)
    left_out: Counter[str] = Counter()
    if table.is_file():
        entries, class_words = _from_table(folder, table, names)
    elif labels:
        raise DatasetError(f"There is no labels file {table}.", hint="Its columns are file and label.")
    else:
        entries, class_words = _from_subfolders(folder, names, left_out)
    return ImageFolder(
        entries,
        name=_readable(folder.resolve().name),
        classes=class_words,
        alphabetical=names is None and class_words is not None,
        keep_gray=gray == "keep",
        notes=tuple(_said_of(left_out)),
    )


def _said_of(left_out: Counter[str]) -> Iterator[str]:
    if loose := left_out.pop(_LOOSE, 0):
        lie, are = ("pictures that lie", "are") if loose > 1 else ("picture that lies", "is")
        yield f"{loose:,} {lie} beside the folders of classes {are} left out"
    if left_out:
        kinds = ", ".join(f"{count:,} {suffix}" for suffix, count in sorted(left_out.items()))
        yield f"pictures of kinds that are not read are left out: {kinds}"


def _readable(name: str) -> str:
    """A name from the file system as text that can be stored: bytes that are no UTF-8 are written as \\xe9."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def _file_digest(path: Path) -> str:
    """Small files are hashed every time: that is quicker than a look into the cache of digests."""
    try:
        if size_of(path) < _SMALL:
            return hashlib.sha256(read_bytes(path, _SMALL)).hexdigest()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}.", hint="Was it moved or removed?") from error
    return sha256_file(path)


def images_under(
    folder: Path, numbers: Iterator[int] | None = None, left_out: Counter[str] | None = None
) -> Iterator[Path]:
    """Image files at any depth, in the order of their names; hidden ones are left out.

    Links are followed. Two of them in each of thirty folders lead to a billion places, so folders are counted.
    `numbers`: the count goes on from there. `left_out`: counts pictures of kinds that are not read, by suffix.
    """
    numbers = numbers or count(1)
    here = folder.stat()
    # What is still to be looked at, the next at the end: a place, and the folders above where it is a folder.
    waiting: list[tuple[Path, frozenset[tuple[int, int]] | None]] = [(folder, frozenset({(here.st_dev, here.st_ino)}))]
    while waiting:
        place, above = waiting.pop()
        if above is None:
            yield place
            continue
        if next(numbers) > MAX_FOLDERS or len(above) > MAX_DEPTH:
            raise DatasetError(
                f"{folder} has more than {MAX_FOLDERS:,} folders, or folders more than {MAX_DEPTH} deep.",
                hint="Do links in it lead back and forth? Name a smaller folder.",
            )
        waiting.extend(reversed(list(_inside(place, above, left_out))))


def _inside(
    folder: Path, above: frozenset[tuple[int, int]], left_out: Counter[str] | None
) -> Iterator[tuple[Path, frozenset[tuple[int, int]] | None]]:
    """Folders and images of a folder. `above`: it and those that it lies in; a link to one of them is passed over."""
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
        elif (suffix := os.path.splitext(entry.name)[1].lower()) in SUFFIXES:  # noqa: PTH122 - Path is slow
            yield folder / entry.name, None
        elif left_out is not None and suffix in OTHER_SUFFIXES:
            left_out[suffix] += 1


def _from_subfolders(
    folder: Path, names: tuple[str, ...] | None, left_out: Counter[str]
) -> tuple[list[Entry], tuple[str, ...] | None]:
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    flat = list(images_under(folder, left_out=left_out)) if not subfolders else []
    # No labels: enough to compare models with each other.
    if flat:
        return [Entry(_readable(path.name), path, UNLABELLED) for path in flat], None
    if not subfolders:
        raise DatasetError(
            f"{folder} has no class sub-folders and no {LABELS}.",
            hint=f"Sort the images into one folder per class, or add {LABELS} with the columns file and label.",
        )
    _refuse_splits(folder, subfolders)
    left_out[_LOOSE] = sum(path.suffix.lower() in SUFFIXES for path in folder.iterdir() if path.name[:1] != ".")
    indices, names = class_indices([_readable(path.name) for path in subfolders], names, str(folder))
    numbers = count(1)
    entries = [
        Entry(_readable(path.relative_to(folder).as_posix()), path, indices[_readable(subfolder.name)])
        for subfolder in subfolders
        for path in images_under(subfolder, numbers, left_out)
    ]
    if not entries:
        raise DatasetError(
            f"{folder} and its sub-folders hold no images.", hint=f"Known: {', '.join(sorted(SUFFIXES))}."
        )
    return entries, names


def _refuse_splits(folder: Path, subfolders: Sequence[Path]) -> None:
    """Refuses folders such as train and val, which are splits and not classes."""
    named = all(path.name.casefold() in _SPLITS for path in subfolders)
    if named and any(below.is_dir() for path in subfolders for below in path.iterdir()):
        splits = ", ".join(path.name for path in subfolders)
        raise DatasetError(
            f"{folder} holds splits of a dataset ({splits}), not classes.", hint=f"Give one: {subfolders[-1]}."
        )


def _from_table(folder: Path, table: Path, names: tuple[str, ...] | None) -> tuple[list[Entry], tuple[str, ...] | None]:
    rows = list(_rows(folder, table))
    if not rows:
        raise DatasetError(f"{table} lists no images.", hint="Its columns are file and label.")
    indices, names = class_indices(sorted({label for _, _, label in rows}), names, str(table))
    return [Entry(file, path, indices[label]) for file, path, label in rows], names


def _rows(folder: Path, table: Path) -> Iterator[tuple[str, Path, str]]:
    root = folder.resolve()
    file_column, label_column = 0, 1
    try:
        with io.StringIO(read_text(table, MAX_TABLE), newline="") as stream:
            for number, row in enumerate(csv.reader(stream), 1):
                if not row:
                    continue
                if len(row) < 2:
                    raise DatasetError(f"{table} line {number} has one column.", hint="Its columns are file and label.")
                if number == 1 and _is_header(folder, row):
                    file_column, label_column = _columns(row, table)
                    continue
                if len(row) <= max(file_column, label_column):
                    raise DatasetError(f"{table} line {number} is shorter than the header.", hint="Complete the line.")
                file = row[file_column].strip()
                if "\0" in file:
                    raise DatasetError(f"{table} line {number} has a null character in a name.", hint="Save it again.")
                label = row[label_column].strip()
                if not label:
                    raise DatasetError(f"{table} line {number} has no label.", hint="Complete the line, or remove it.")
                yield file, _locate(root, file, f"{table} line {number}"), label
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{table} cannot be read: {error}.", hint="Save it as CSV in UTF-8.") from error


def _is_header(folder: Path, row: list[str]) -> bool:
    """A first line that names columns: its first cells are no file and no number."""
    cells = [cell.strip().lower() for cell in row]
    if any(cell in _FILE_COLUMNS for cell in cells):
        return True
    return Path(cells[0]).suffix not in SUFFIXES and not is_file(folder / row[0].strip())


def _columns(header: list[str], table: Path) -> tuple[int, int]:
    """Which columns have the file and the label. Of more than two, none is taken for the label by its place alone."""
    cells = [cell.strip().lower() for cell in header]
    file_column = next((cells.index(name) for name in _FILE_COLUMNS if name in cells), 0)
    label_column = next((cells.index(name) for name in _LABEL_COLUMNS if name in cells), None)
    if label_column is None and len(cells) > 2:
        raise DatasetError(
            f"{table} has the columns {', '.join(cells)[:200]}, and none is called {', '.join(_LABEL_COLUMNS)}.",
            hint="Call the column of labels label.",
        )
    return file_column, (1 - min(file_column, 1)) if label_column is None else label_column


def _locate(root: Path, file: str, where: str) -> Path:
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
