"""Samples of any kind with what is right of each held in memory: true texts, numbers, relations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.dataset import UNLABELLED, Dataset, DatasetView
from zoolens.inventory.datasets.labelled_files import FILE_COLUMNS, Entry, located
from zoolens.inventory.datasets.text_dataset import Truths, add_truth
from zoolens.inventory.datasets.text_tables import read_content, read_table
from zoolens.inventory.datasets.truth import Truth

TEXT: Final = "text"  # the kind of truth, and its only array
MAX_TEXT: Final = 1 << 20  # characters of one true text
_TEXT_COLUMNS: Final = ("text", "transcription", "transcript", "sentence", "label", "words")


class JudgedSamples(DatasetView):
    """A dataset whose samples are judged by truths that the parent does not have."""

    def __init__(self, parent: Dataset, truths: Truths) -> None:
        super().__init__(parent)
        if len(truths.of) != len(parent):
            raise DatasetError(f"Dataset {parent.name} has {len(parent):,} inputs but {len(truths.of):,} truths.")
        self.classes, self.truth_kind = None, truths.kind
        self._truths = truths
        self._fingerprint: str | None = None

    def labels(self) -> NDArray[np.int64]:
        return np.full(len(self), UNLABELLED, np.int64)

    def truth(self, index: int) -> Truth | None:
        return self._truths.of[range(len(self))[index]]

    def fingerprint(self) -> str:
        if self._fingerprint is None:
            digest = hashlib.sha256(f"{self._truths.kind} {self.parent.fingerprint()};".encode())
            for truth in self._truths.of:
                add_truth(digest, truth)
            self._fingerprint = digest.hexdigest()
        return self._fingerprint


def true_texts(texts: Iterable[Any], where: str) -> Truths:
    """The true text of each sample; None where nobody said it. An empty text says that there is nothing to read."""
    return Truths(TEXT, [_true_text(text, f"{where}, sample {place}") for place, text in enumerate(texts)])


def _true_text(text: Any, where: str) -> Truth | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise DatasetError(f"{where}: the true text is {str(text)[:40]!r}, which is no text.")
    if len(text) > MAX_TEXT:
        raise DatasetError(f"{where}: the true text has {len(text):,} characters, more than {MAX_TEXT:,}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DatasetError(f"{where}: the true text has half a character (a lone surrogate).") from error
    return Truth(TEXT, {TEXT: np.array([text])})


def read_text_table(folder: Path, name: str) -> tuple[list[Entry], Truths]:
    """Files of a folder and their texts: .csv, .tsv and .jsonl with columns file and text, or a .txt whose lines are a
    file, a tab and its text."""
    root = folder.resolve()
    table = located(root, name, "The option text")
    rows = _plain_lines(table) if table.suffix.lower() == ".txt" else _named_columns(table)
    if not rows:
        raise DatasetError(f"{table} lists no files.", hint="Its columns are file and text.")
    entries = [Entry(file, str(located(root, file, f"{table} line {line}")), UNLABELLED) for line, file, _ in rows]
    if len({entry.file for entry in entries}) < len(entries):
        raise DatasetError(f"{table} lists a file twice.", hint="A sample has one true text.")
    return entries, true_texts((text for _, _, text in rows), str(table))


def _named_columns(table: Path) -> list[tuple[int, str, Any]]:
    columns, rows = read_table(table)
    file_column, text_column = _column(columns, FILE_COLUMNS, table), _column(columns, _TEXT_COLUMNS, table)
    return [(line, str(row.get(file_column, "")).strip(), row.get(text_column)) for line, row in rows]


def _column(columns: list[str], names: tuple[str, ...], table: Path) -> str:
    found = [column for name in names for column in columns if column.lower() == name]
    if not found:
        raise DatasetError(
            f"{table} has no column called {', '.join(names[:-1])} or {names[-1]}.",
            hint=f"It has {', '.join(columns)[:200]}: call them file and text.",
        )
    return found[0]


def _plain_lines(table: Path) -> list[tuple[int, str, Any]]:
    rows = []
    for number, line in enumerate(read_content(table).split("\n"), 1):
        if not line:
            continue
        file, tab, text = line.partition("\t")
        if not tab:
            raise DatasetError(f"{table} line {number} has no tab between a file and its text.")
        rows.append((number, file, text))
    return rows
