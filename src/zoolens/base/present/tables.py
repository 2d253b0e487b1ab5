"""Tables as plain data: the same one is printed on a terminal, set on a page and written as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from zoolens.base.present.figures import NOTHING, nats, p_value, percent, short_number
from zoolens.base.store.spreadsheets import spreadsheet_cell

Kind = Literal["text", "key", "number", "percent", "nats", "p", "link"]

_WORDS: Final = {"percent": percent, "nats": nats, "p": p_value}


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind = "text"  # how values are formatted; a key is a short word that is never wrapped
    keep: int = 0  # priority: columns with the lowest are dropped first on a narrow terminal
    folds: bool = False  # whether it holds sentences, which may be wrapped

    @property
    def right(self) -> bool:
        return self.kind not in ("text", "key", "link")


@dataclass(frozen=True)
class Link:
    """A cell of a page that leads to another page beside it."""

    text: str
    address: str


@dataclass(frozen=True)
class Table:
    """`name`: of its CSV file. Rows hold plain values; a text stands for itself in a column of any kind."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def filled(self) -> list[int]:
        """The places of the columns that hold something in at least one row."""
        return [i for i in range(len(self.columns)) if any(row[i] not in (None, "") for row in self.rows)]

    def words(self, most: int | None = None) -> list[list[str]]:
        """The first `most` rows as they read, or all of them."""
        return [
            [cell_words(column, value) for column, value in zip(self.columns, row, strict=True)]
            for row in self.rows[:most]
        ]


def cell_words(column: Column, value: Any) -> str:
    """How a value reads in its column."""
    if isinstance(value, str):
        return value
    words = _WORDS.get(column.kind)
    return words(value) if words is not None and value is not None else plain_words(value)


def plain_words(value: Any) -> str:
    """How a value reads that has no unit."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else short_number(value)


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV whose cells no spreadsheet computes. What is not a number is an empty cell."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([_csv_cell(name) for name in header])
    writer.writerows([[_csv_cell(value) for value in row] for row in rows])
    return stream.getvalue()


def _csv_cell(value: Any) -> Any:
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return spreadsheet_cell(value)


def write_csv(tables: Iterable[Table], folder: Path) -> list[Path]:
    """Write one file for each table into the folder; of two with the same name the later is numbered."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for table in tables:
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", table.name)[:60].strip("-") or "table"
        same = sum(re.fullmatch(rf"{re.escape(stem)}(-\d+)?", path.stem) is not None for path in written)
        path = folder / (f"{stem}-{same + 1}.csv" if same else f"{stem}.csv")
        text = csv_text([column.name for column in table.columns], table.rows)
        path.write_text(text, encoding="utf-8", newline="")
        written.append(path)
    return written
