"""Texts or pairs of texts in a table: a .csv or .tsv file, or a .jsonl file with an object a line.

They are judged by a class, by one or several numbers, or by how alike the two texts of a pair are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.classes import choose_part, class_names
from zoolens.inventory.datasets.dataset import NO_LABELS
from zoolens.inventory.datasets.labelled_files import FILE_COLUMNS
from zoolens.inventory.datasets.table_cells import LABELS, Table, labels_of, number_of, text_of, usual_columns
from zoolens.inventory.datasets.text_dataset import TextDataset, TextPair, Truths, Value
from zoolens.inventory.datasets.text_tables import read_table
from zoolens.inventory.datasets.truth import Truth

_TEXTS: Final = ("text", "sentence", "content", "review", "tweet", "document", "body")


def open_texts(
    location: str,
    *,
    text: str | None = None,
    label: str | None = None,
    value: str | None = None,
    similarity: str | None = None,
    classes: str | None = None,
    columns: str | None = None,
) -> TextDataset:
    """text, label: names of the columns (else the usual ones: text/sentence/content and label/class/category). A file
    without a column of labels is unlabelled, and so is one opened with label=none. text=A,B: pairs of texts.

    value: the column of a true number, or several with commas between them, for task: regression. similarity: the
    column that says how alike the two texts of a pair are, on any scale, for task: embedding.

    classes: a file with class names in the order of their numbers, or the names with commas between them. Labels that
    are words are otherwise in the order of the alphabet, which the names of a model's classes then correct.

    columns: names of the columns, with commas between them, of a table without a line of names.
    """
    path = Path(location).expanduser()
    known, rows = read_table(path, None if columns is None else columns.split(","))
    values = _values(rows, text, known, path)
    if value is not None and similarity is not None:
        raise DatasetError("Give either value or similarity: a sample is judged in one way.")
    if value is not None or similarity is not None:
        if label not in (None, NO_LABELS):
            raise DatasetError("Give either label or a column of numbers: a sample is judged in one way.")
        _check_pairs(values, similarity, path)
        truths = _numbers(rows, value, similarity, known, path)
        return TextDataset(values, name=path.stem, truths=truths)
    return _labelled(values, rows, label, classes, known, path)


def _values(rows: Table, text: str | None, columns: Sequence[str], path: Path) -> list[Value]:
    if text is None or "," not in text:
        pictures = text is None and any(column in FILE_COLUMNS for column in columns)
        folder = f"; of pictures: --data 'imagefolder:{path.parent}?labels={path.name}'" if pictures else ""
        chosen = choose_part("column", "text", text, usual_columns(_TEXTS, columns), columns, path, folder)
        return [text_of(row, chosen, path, number) for number, row in rows]
    names = text.split(",")
    if len(names) != 2:
        raise DatasetError(
            f"A sample is one text or a pair, but text={text[:80]!r} names {len(names)} columns.",
            hint="Name one column, or two.",
        )
    first, second = (choose_part("column", "text", name, (), columns, path) for name in names)
    return [TextPair(text_of(row, first, path, number), text_of(row, second, path, number)) for number, row in rows]


def _check_pairs(values: list[Value], similarity: str | None, path: Path) -> None:
    if similarity is not None and any(not isinstance(value, TextPair) for value in values):
        raise DatasetError(
            f"similarity says how alike two texts are, but a sample of {path} has one text.",
            hint="Name both columns: text=A,B.",
        )


def _numbers(rows: Table, value: str | None, similarity: str | None, columns: Sequence[str], path: Path) -> Truths:
    kind, given = ("value", value.split(",")) if value is not None else ("similarity", [similarity or ""])
    names = [choose_part("column", kind, name, (), columns, path) for name in given]
    numbers = [np.array([number_of(row, name, path, line) for name in names]) for line, row in rows]
    return Truths(kind, [Truth(kind, {kind: each}) for each in numbers])


def _labelled(
    values: list[Value], rows: Table, label: str | None, classes: str | None, columns: Sequence[str], path: Path
) -> TextDataset:
    usual = usual_columns(LABELS, columns)
    labelled = label != NO_LABELS and bool(label is not None or usual)
    names = class_names(classes, path.parent)
    if not labelled:
        unlabelled = TextDataset(values, name=path.stem, classes=names)
        others = [column for column in columns if column not in usual_columns(_TEXTS, columns)]
        if others and label is None:
            unlabelled.notes = (
                f"none of the columns {', '.join(others)[:200]} has a usual name for labels: choose one with label=…, "
                "or a number with value=…",
            )
        return unlabelled
    found = labels_of(rows, choose_part("column", "label", label, usual, columns, path), names, path)
    return TextDataset(values, found.numbers, name=path.stem, classes=found.classes, alphabetical=found.alphabetical)
