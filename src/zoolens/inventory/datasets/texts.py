"""Texts in a table: a .csv or .tsv file with a line of column names, or a .jsonl file with an object a line."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import parse_json, read_text
from zoolens.inventory.datasets.arrays import check_samples
from zoolens.inventory.datasets.classes import WHOLE, check_labels, choose_part, class_indices, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS, UNLABELLED, Dataset, Rows, Sample

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson")
MAX_FILE: Final = 1 << 28  # bytes: all of it is held in memory
_MOST_COLUMNS: Final = 1000
_TEXTS: Final = ("text", "sentence", "content", "review", "tweet", "document", "body")
_LABELS: Final = ("label", "labels", "class", "category", "sentiment", "target")
_FRACTION: Final = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")

Row = dict[str, Any]


class TextDataset(Dataset):
    """All texts in memory; a sample is called by its place, counted from 0."""

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[int],
        *,
        name: str,
        classes: tuple[str, ...] | None = None,
        alphabetical: bool = False,
    ) -> None:
        check_samples(name, len(texts))
        check_labels(name, labels, classes)
        self.name, self.classes, self.alphabetical = name, classes, alphabetical
        self._texts = np.empty(len(texts), object)
        self._texts[:] = texts
        self._labels = np.array(labels, np.int64)

    def __len__(self) -> int:
        return len(self._texts)

    def read(self, index: int) -> Sample:
        place = range(len(self))[index]  # a negative index counts from the end
        text = np.array(self._texts[index], object)
        return Sample(str(place), text, int(self._labels[index]))

    def read_rows(self, indices: NDArray[np.int64]) -> Rows:
        return Rows(tuple(map(str, indices.tolist())), self._texts[indices], self._labels[indices])

    def labels(self) -> NDArray[np.int64]:
        return self._labels

    def fingerprint(self) -> str:
        digest = hashlib.sha256(b"texts;")
        for text in self._texts:
            content = text.encode("utf-8", "surrogatepass")
            digest.update(f"{len(content)};".encode() + content)
        digest.update(b"labels" + self._labels.astype("<i8").tobytes())
        return digest.hexdigest()


def open_texts(
    location: str, *, text: str | None = None, label: str | None = None, classes: str | None = None
) -> TextDataset:
    """text, label: names of the columns (else the usual ones: text/sentence/content and label/class/category). A file
    without a column of labels is unlabelled, and so is one opened with label=none.

    classes: a file with class names in the order of their numbers, or the names with commas between them. Labels that
    are words are otherwise in the order of the alphabet, which the names of a model's classes then correct.
    """
    path = Path(location).expanduser()
    if text is not None and "," in text:
        raise DatasetError(
            f"A sample has one text, but text={text[:80]!r} names several columns: pairs of texts are not read.",
            hint="Name one column.",
        )
    columns, rows = _table(path)
    text_column = choose_part("column", "text", text, _usual(_TEXTS, columns), columns, path)
    usual = _usual(_LABELS, columns)
    labelled = label != NO_LABELS and bool(label is not None or usual)
    label_column = choose_part("column", "label", label, usual, columns, path) if labelled else None
    texts = [_text(row, text_column, path, number) for number, row in rows]
    names = class_names(classes, path.parent)
    if label_column is None:
        unlabelled = TextDataset(texts, [UNLABELLED] * len(texts), name=path.stem, classes=names)
        others = [column for column in columns if column != text_column]
        if others and label is None:
            unlabelled.notes = (
                f"none of the columns {', '.join(others)[:200]} has a usual name for labels: choose one with label=…",
            )
        return unlabelled
    words = [_label(row, label_column, path, number) for number, row in rows]
    _refuse_fractions(words, label_column, path)
    indices, known = class_indices(sorted(set(words)), names, str(path))
    return TextDataset(
        texts,
        [indices[word] for word in words],
        name=path.stem,
        classes=known,
        alphabetical=names is None and known is not None,
    )


def _usual(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns with one of these names, in any case, the likeliest first."""
    return [column for name in names for column in columns if column.lower() == name]


def _table(path: Path) -> tuple[list[str], list[tuple[int, Row]]]:
    """Names of the columns, and the rows with their numbers of lines."""
    try:
        content = read_text(path, MAX_FILE)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{path} cannot be read: {reason}.", hint="Save it in UTF-8.") from error
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        rows = list(_objects(content, path))
        return list(dict.fromkeys(name for _, row in rows[:1] for name in row)), rows
    if suffix in (".csv", ".tsv"):
        return _separated(content, path, tabs=suffix == ".tsv")
    raise DatasetError(f"{path} is not called {', '.join(SUFFIXES)}.", hint="Name it by what it is.")


def _objects(content: str, path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line, _MOST_COLUMNS)
        except ValueError as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise DatasetError(f"{path} line {number} is not JSON: {reason}.") from error
        if not isinstance(row, dict):
            raise DatasetError(
                f"{path} line {number} is not a JSON object.", hint='Write {"text": …, "label": …} on each line.'
            )
        yield number, row


def _separated(content: str, path: Path, *, tabs: bool) -> tuple[list[str], list[tuple[int, Row]]]:
    """Quotes are plain characters between tabs, where neither tabs nor line ends can be part of a text."""
    with io.StringIO(content, newline="") as stream:
        lines = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(stream, strict=True)
        rows: list[tuple[int, Row]] = []
        header: list[str] = []
        try:
            for cells in lines:
                if not cells:
                    continue
                if not header:
                    header = _header(cells, path)
                    continue
                if len(cells) != len(header):
                    counts = f"{len(cells)} columns, but the first line names {len(header)}"
                    raise DatasetError(
                        f"{path} line {lines.line_num} has {counts}.",
                        hint="Between tabs quotes are plain characters."
                        if tabs
                        else "Put texts with commas in quotes.",
                    )
                rows.append((lines.line_num, dict(zip(header, cells, strict=True))))
        except csv.Error as error:
            raise DatasetError(f"{path} line {lines.line_num} cannot be read: {error}.") from error
    return header, rows


def _header(cells: list[str], path: Path) -> list[str]:
    names = [cell.strip() for cell in cells]
    if len(names) == 1 and (sign := next((sign for sign in ";\t|" if sign in names[0]), None)):
        raise DatasetError(
            f"{path} has one column, {names[0][:80]!r}: its columns seem to be separated by {sign!r}.",
            hint="Write it with commas between the columns, or as a .tsv file with tabs.",
        )
    if len(set(names)) < len(names):
        raise DatasetError(f"{path} has two columns of one name.", hint="Its first line names the columns.")
    return names


def _text(row: Row, column: str, path: Path, number: int) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        raise DatasetError(f"{path} line {number} has no text in {column!r}.", hint="Complete the line, or remove it.")
    return value


def _label(row: Row, column: str, path: Path, number: int) -> str:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise DatasetError(
            f"{path} line {number} has no label in {column!r}.", hint="Labels are numbers of classes, or words."
        )
    return str(value).strip()


def _refuse_fractions(words: Sequence[str], column: str, path: Path) -> None:
    """Ratings are no classes: as such each of them would be one of its own."""
    odd = next((word for word in words if _FRACTION.fullmatch(word) and not WHOLE.fullmatch(word)), None)
    if odd is not None:
        raise DatasetError(
            f"The column {column!r} of {path} holds the number {odd}, which is not a class.",
            hint=f"Name another column with label=…, or none of them: label={NO_LABELS}.",
        )
