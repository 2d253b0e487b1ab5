"""What a cell of a table means: a text, a number, a label; and which columns have them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.classes import WHOLE, class_indices
from zoolens.inventory.datasets.dataset import NO_LABELS
from zoolens.inventory.datasets.text_tables import Row

LABELS: Final = ("label", "labels", "class", "category", "sentiment", "target")  # usual names of a column
_FRACTION: Final = re.compile(r"[-+]?\d*\.\d+([eE][-+]?\d+)?")

Table = list[tuple[int, Row]]  # rows with their numbers of lines


@dataclass(frozen=True)
class Labels:
    """The number of each row's class, and the names of the classes where they are known."""

    numbers: tuple[int, ...]
    classes: tuple[str, ...] | None
    alphabetical: bool


def usual_columns(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns with one of these names, in any case, the likeliest first."""
    return [column for name in names for column in columns if column.lower() == name]


def number_of(row: Row, column: str, path: Path, line: int) -> float:
    number = as_number(row.get(column))
    if number is None:
        raise DatasetError(
            f"{path} line {line} has no number in {column!r}, but {str(row.get(column))[:40]!r}.",
            hint="Complete the line, or remove it.",
        )
    return number


def as_number(value: Any) -> float | None:
    """A finite number, which may be written as a text; None for anything else."""
    try:
        number = math.nan if isinstance(value, bool) or value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def text_of(row: Row, column: str, path: Path, line: int) -> str:
    value = row.get(column)
    if not isinstance(value, str):
        raise DatasetError(f"{path} line {line} has no text in {column!r}.", hint="Complete the line, or remove it.")
    return value


def labels_of(rows: Table, column: str, names: tuple[str, ...] | None, path: Path) -> Labels:
    """The classes of all rows. `names`: of the classes in the order of their numbers, where somebody says them."""
    words = [_label(row, column, path, line) for line, row in rows]
    _refuse_fractions(words, column, path)
    indices, known = class_indices(sorted(set(words)), names, str(path))
    return Labels(tuple(indices[word] for word in words), known, names is None and known is not None)


def _label(row: Row, column: str, path: Path, line: int) -> str:
    value = row.get(column)
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not str(value).strip():
        raise DatasetError(
            f"{path} line {line} has no label in {column!r}.", hint="Labels are numbers of classes, or words."
        )
    return str(value).strip()


def _refuse_fractions(words: Sequence[str], column: str, path: Path) -> None:
    """Ratings are no classes: as such each of them would be one of its own."""
    odd = next((word for word in words if _FRACTION.fullmatch(word) and not WHOLE.fullmatch(word)), None)
    if odd is not None:
        raise DatasetError(
            f"The column {column!r} of {path} holds the number {odd}, which is not a class.",
            hint=f"Of a quantity, say value={column}; else name another column, label=…, or none, label={NO_LABELS}.",
        )
