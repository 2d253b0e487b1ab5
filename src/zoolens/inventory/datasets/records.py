"""Samples of several parts (images, texts, numbers), one on each line of a table, for models with several inputs.

A sample is a record with a field for each part. Images are of any size, texts of any length: each record has a type of
its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import read_bytes
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.classes import check_labels, choose_part, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Dataset, Sample
from zoolens.inventory.datasets.encoded_images import EncodedImages
from zoolens.inventory.datasets.images import MAX_ENCODED
from zoolens.inventory.datasets.judged_samples import JudgedSamples
from zoolens.inventory.datasets.labelled_files import file_digest, located, readable
from zoolens.inventory.datasets.table_cells import (
    LABELS,
    Labels,
    Table,
    as_number,
    labels_of,
    number_of,
    text_of,
    usual_columns,
)
from zoolens.inventory.datasets.text_dataset import Truths
from zoolens.inventory.datasets.text_tables import read_table
from zoolens.inventory.datasets.truth import Truth

_MOST_NUMBERS: Final = 1 << 16  # of one part of a sample
_UNLABELLED: Final = Labels((), None, alphabetical=False)


@dataclass(frozen=True)
class Part:
    """One part of all samples: files of images or texts, or numbers (samples × numbers)."""

    name: str
    is_image: bool
    texts: tuple[str, ...] = ()
    numbers: NDArray[np.float64] | None = None


class Records(EncodedImages):
    """A sample is called by its place, counted from 0."""

    def __init__(self, parts: Sequence[Part], size: int, labels: Labels, *, name: str) -> None:
        super().__init__(keep_gray=False)
        self.name, self.classes, self.alphabetical = name, labels.classes, labels.alphabetical
        self.encoded = any(part.is_image for part in parts)
        self._parts = tuple(parts)
        self._labels = np.array(labels.numbers or [UNLABELLED] * size, np.int64)
        check_samples(name, size)
        check_labels(name, self._labels.tolist(), self.classes)

    def __len__(self) -> int:
        return len(self._labels)

    def read(self, index: int) -> Sample:
        place = range(len(self))[index]
        values = [self._value(part, place) for part in self._parts]
        fields = [(part.name, value.dtype, value.shape) for part, value in zip(self._parts, values, strict=True)]
        record = np.empty((), np.dtype(fields))
        for part, value in zip(self._parts, values, strict=True):
            record[part.name] = value
        return Sample(str(place), record, int(self._labels[place]))

    def _value(self, part: Part, place: int) -> NDArray[Any]:
        if part.numbers is not None:
            return np.asarray(part.numbers[place])
        text = part.texts[place]
        return self._pixels(text, readable(text)) if part.is_image else np.array(text)

    def read_encoded(self, index: int) -> bytes | None:
        """The file of the first image of a sample."""
        images = next((part for part in self._parts if part.is_image), None)
        if images is None:
            return None
        file = images.texts[index]
        try:
            return read_bytes(file, MAX_ENCODED)
        except OSError as error:
            raise DatasetError(f"{readable(file)} cannot be read: {error.strerror or error}.") from error

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        digest = hashlib.sha256(b"records;")
        for part in self._parts:
            digest.update(f"{part.name} {'image' if part.is_image else 'values'};".encode())
            for content in _contents(part):
                digest.update(f"{len(content)};".encode() + content)
        digest.update(b"labels" + self._labels.astype("<i8").tobytes())
        return digest.hexdigest()


def _contents(part: Part) -> Iterator[bytes]:
    if part.numbers is not None:
        yield f"{part.numbers.shape[1:]}".encode()
        yield part.numbers.astype("<f8").tobytes()
    for text in part.texts:
        yield file_digest(text).encode() if part.is_image else text.encode("utf-8", "surrogatepass")


def open_records(
    location: str,
    *,
    images: str | None = None,
    texts: str | None = None,
    numbers: str | None = None,
    label: str | None = None,
    value: str | None = None,
    classes: str | None = None,
) -> Dataset:
    """A .csv, .tsv or .jsonl file. images, texts, numbers: names of columns, with commas between them; each is the part
    of a sample for the input of its name. A cell of images is a file, named from the table's folder on; a cell of
    numbers is a number, in .jsonl also a list of them. numbers=NAME:A,B is a single part that has the numbers of both.

    label: the column of classes (else a usual name: label, class, category); label=none: there are none. value: the
    column of a true number, or several with commas between them, for task: regression.

    classes: a file with class names in the order of their numbers, or the names with commas between them.
    """
    path = Path(location).expanduser()
    known, rows = read_table(path)
    parts = [
        *(_images(rows, column, path) for column in _chosen("images", images, known, path)),
        *(_texts(rows, column, path) for column in _chosen("texts", texts, known, path)),
        *_numbers(rows, numbers, known, path),
    ]
    _check_parts([part.name for part in parts], path)
    if value is not None and label not in (None, NO_LABELS):
        raise DatasetError("Give either label or value: a sample is judged in one way.")
    labels = _UNLABELLED if value is not None else _labels(rows, label, classes, known, path)
    dataset = Records(parts, len(rows), labels, name=path.stem)
    return dataset if value is None else JudgedSamples(dataset, _true_values(rows, value, known, path))


def _chosen(option: str, given: str | None, known: Sequence[str], path: Path) -> list[str]:
    names = [] if given is None else given.split(",")
    return [choose_part("column", option, name, (), known, path) for name in names]


def _check_parts(names: Sequence[str], path: Path) -> None:
    if not names:
        raise DatasetError(
            f"Nothing says what the samples of {path} are made of.",
            hint="Name columns: images=…, texts=… and numbers=…, one for each input of the model.",
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DatasetError(f"Two parts of a sample of {path} are called {twice[:80]!r}.", hint="Name each column once.")


def _images(rows: Table, column: str, path: Path) -> Part:
    root = path.parent.resolve()
    places = (
        (text_of(row, column, path, line).strip(), f"{path} line {line}, column {column!r}") for line, row in rows
    )
    return Part(column, is_image=True, texts=tuple(str(located(root, file, where)) for file, where in places))


def _texts(rows: Table, column: str, path: Path) -> Part:
    texts = tuple(text_of(row, column, path, line) for line, row in rows)
    ended = next((place for place, text in enumerate(texts) if text.endswith("\0")), None)
    if ended is not None:
        # numpy takes such a character for the end of a text.
        raise DatasetError(f"{path} line {rows[ended][0]} has a text that ends in a zero character.", hint="Remove it.")
    return Part(column, is_image=False, texts=texts)


def _numbers(rows: Table, option: str | None, known: Sequence[str], path: Path) -> Iterator[Part]:
    """A part for each column, or one for all of them that has a name before a colon."""
    vector, colon, listed = (option or "").rpartition(":")
    columns = _chosen("numbers", listed if option else None, known, path)
    if colon:
        found = [[number_of(row, column, path, line) for column in columns] for line, row in rows]
        yield Part(vector, is_image=False, numbers=_within_float32(found, vector, path))
        return
    for column in columns:
        yield Part(column, is_image=False, numbers=_column(rows, column, path))


def _column(rows: Table, column: str, path: Path) -> NDArray[np.float64]:
    """A column of numbers, or of lists of them of one length."""
    if not any(isinstance(row.get(column), list) for _, row in rows):
        return _within_float32([number_of(row, column, path, line) for line, row in rows], column, path)
    found: list[list[float | None]] = []
    for line, row in rows:
        listed = row.get(column)
        known = [as_number(cell) for cell in listed] if isinstance(listed, list) else []
        wanted = len(found[0]) if found else len(known)
        if len(known) != wanted or not known or None in known or len(known) > _MOST_NUMBERS:
            raise DatasetError(
                f"{path} line {line} has no list of {wanted:,} numbers in {column!r}, but {str(listed)[:40]!r}.",
                hint=f"All lines have as many numbers, from 1 to {_MOST_NUMBERS:,}.",
            )
        found.append(known)
    return _within_float32(found, column, path)


def _within_float32(numbers: Sequence[Any], name: str, path: Path) -> NDArray[np.float64]:
    """Numbers keep all their digits, since an input may take whole numbers; most take float32."""
    found = np.array(numbers, np.float64)
    if (np.abs(found) > np.finfo(np.float32).max).any():
        raise DatasetError(f"A number of {name!r} in {path} is too large for float32.", hint="Scale the column.")
    return found


def _labels(rows: Table, label: str | None, classes: str | None, columns: Sequence[str], path: Path) -> Labels:
    usual, names = usual_columns(LABELS, columns), class_names(classes, path.parent)
    if label == NO_LABELS or (label is None and not usual):
        return Labels((), names, alphabetical=False)
    return labels_of(rows, choose_part("column", "label", label, usual, columns, path), names, path)


def _true_values(rows: Table, value: str, columns: Sequence[str], path: Path) -> Truths:
    names = [choose_part("column", "value", name, (), columns, path) for name in value.split(",")]
    found = (np.array([number_of(row, name, path, line) for name in names]) for line, row in rows)
    return Truths("value", [Truth("value", {"value": each}) for each in found])
