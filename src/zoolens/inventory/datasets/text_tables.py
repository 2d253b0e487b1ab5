"""Tables of texts in files: .csv and .tsv with a line of column names or without, .jsonl with an object a line."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from zoolens.base.errors import DatasetError
from zoolens.base.safety.untrusted import parse_json, read_text

JSON_SUFFIXES: Final = (".jsonl", ".ndjson")
SUFFIXES: Final = (".csv", ".tsv", *JSON_SUFFIXES)
MAX_FILE: Final = 1 << 28  # bytes: all of it is held in memory
_MOST_COLUMNS: Final = 1000

Row = dict[str, Any]


def read_content(path: Path) -> str:
    """All of a text file."""
    try:
        return read_text(path, MAX_FILE)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DatasetError(f"{path} cannot be read: {reason}.", hint="Save it in UTF-8.") from error


def read_table(path: Path, columns: Sequence[str] | None = None) -> tuple[list[str], list[tuple[int, Row]]]:
    """Names of the columns, and the rows with their numbers of lines. `columns`: of a table without a line of names."""
    content = read_content(path)
    suffix = path.suffix.lower()
    if suffix in JSON_SUFFIXES:
        if columns is not None:
            raise DatasetError(
                f"Each line of {path} names its columns; the option columns is for tables without names."
            )
        rows = list(json_lines(content, path, _MOST_COLUMNS))
        return list(dict.fromkeys(name for _, row in rows[:1] for name in row)), rows
    if suffix in (".csv", ".tsv"):
        return _separated(content, path, columns, tabs=suffix == ".tsv")
    raise DatasetError(f"{path} is not called {', '.join(SUFFIXES)}.", hint="Name it by what it is.")


def json_lines(content: str, path: Path, most_values: int) -> Iterator[tuple[int, Row]]:
    """The object of each line that has one, with the line's number."""
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = parse_json(line, most_values)
        except ValueError as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise DatasetError(f"{path} line {number} is not JSON: {reason}.") from error
        if not isinstance(row, dict):
            raise DatasetError(
                f"{path} line {number} is not a JSON object.", hint='Write {"text": …, "label": …} on each line.'
            )
        yield number, row


def _separated(
    content: str, path: Path, columns: Sequence[str] | None, *, tabs: bool
) -> tuple[list[str], list[tuple[int, Row]]]:
    """Quotes are plain characters between tabs, where neither tabs nor line ends can be part of a text."""
    with io.StringIO(content, newline="") as stream:
        lines = csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE) if tabs else csv.reader(stream, strict=True)
        rows: list[tuple[int, Row]] = []
        header = [] if columns is None else _header(list(columns), path)
        try:
            for cells in lines:
                if not cells:
                    continue
                if not header:
                    header = _header(cells, path)
                    continue
                if len(cells) != len(header):
                    who = "the first line" if columns is None else "the option columns"
                    counts = f"{len(cells)} columns, but {who} names {len(header)}"
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
        raise DatasetError(
            f"{path} has two columns of one name.", hint="The first line or the option columns names them."
        )
    return names
