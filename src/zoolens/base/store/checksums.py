"""A checksum for every row, so that a damaged database is noticed instead of being shown as a figure.

The checksums find accidents, not attackers: a flipped bit, a page of another file, a row that was edited by hand. They
are made of the values themselves, so that they hold in SQLite and in PostgreSQL alike. JSON counts as the text that is
stored.

The columns of CHECKED are fixed. A column that a later revision of the schema adds to a table is listed in ADDED with
its default value, and counts only where it has another value: so all rows that were there before keep their checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final
from zlib import crc32

from zoolens.base.store.values import storable_text, to_json

COLUMN: Final = "checksum"
# What a figure is. It has a checksum of its own within the row's, since the index reads these columns and no others.
FIGURE: Final = ("run_id", "stage", "metric", "scope", "value", "low", "high", "unit", "provenance")
CHECKED: Final[Mapping[str, tuple[str, ...]]] = {
    "models": ("fingerprint", "ref", "format", "manifest", "created"),
    "datasets": ("fingerprint", "name", "size", "details", "created"),
    "stacks": ("fingerprint", "runtime", "identity", "created"),
    "locks": ("fingerprint", "content", "created"),
    "aliases": ("kind", "name", "fingerprint"),
    "runs": ("id", "model", "dataset", "stack", "attempt", "lock", "resolved", "created"),
    "stages": ("run_id", "stage", "state", "error", "details", "updated", "facts"),
    "observations": ("n", "details", "created"),
    "parts": ("run_id", "kind", "part", "name", "sha256", "rows", "bytes", "created"),
    "studies": ("name", "frameworks", "details", "removed", "created"),
    "trials": ("study", "name", "hyperparameters", "notes", "details", "sides", "created"),
    "reports": ("name", "title", "content", "removed", "created"),
    "trial_sides": ("trial", "place", "framework", "run_id", "error"),
    "figures": ("run_id", "text"),
}
ADDED: Final[Mapping[str, Mapping[str, Any]]] = {"runs": {"kind": "evaluation"}}
FIGURE_SHIFT: Final = 32


class DamagedRow(Exception):
    """A row does not match its checksum. `Store` adds its name and says what to do."""


def checksum(table: str, row: Mapping[str, Any]) -> int:
    """The checksum of a row that is about to be written, or was read with JSON as text: at most 63 bits."""
    values = [row[name] for name in CHECKED[table]]
    if table in ADDED:
        values += [f"{name}={row[name]}" for name, plain in ADDED[table].items() if row.get(name, plain) != plain]
    rest = _crc(values)
    if table != "observations":
        return rest
    figure = figure_checksum(row[name] for name in FIGURE)
    return figure << FIGURE_SHIFT | rest


def figure_checksum(values: Iterable[Any]) -> int:
    """The checksum of FIGURE's columns, in their order: 31 bits, so that a row's whole one fits a signed integer."""
    return _crc(values) >> 1


def check_row(table: str, row: Any) -> None:
    """Raises `DamagedRow` unless the row, read with all its columns and JSON as text, bears its checksum."""
    values = row._mapping
    if values[COLUMN] != checksum(table, values):
        raise damaged_row(table, values)


def damaged_row(table: str, values: Mapping[str, Any]) -> DamagedRow:
    return DamagedRow(f"a row of {table} ({_identified(table, values)}) does not match its checksum")


def checked_rows(table: str, result: Any) -> Iterator[Any]:
    """Yields the rows of a result; raises `DamagedRow` as `check_row` does. Where each column stands is looked up once,
    which makes it three times as quick: a list of runs asks a million times."""
    keys = list(result.keys())

    def places(names: Iterable[str]) -> list[int]:
        return [keys.index(name) for name in names]

    values, written = itemgetter(*places(CHECKED[table])), keys.index(COLUMN)
    figure = itemgetter(*places(FIGURE)) if table == "observations" else None
    added = [(keys.index(name), name, plain) for name, plain in ADDED.get(table, {}).items()]
    for row in result:
        given = values(row)
        # Most values are plain text, which is taken as it is: whether all of it is, one look at the whole tells.
        text = "\x1f".join([value if type(value) is str else _text(value) for value in given])
        if not text.isascii() or "\0" in text:
            text = "\x1f".join(map(_text, given))
        for place, name, plain in added:
            if row[place] != plain:
                text += f"\x1f{_text(f'{name}={row[place]}')}"
        made = crc32(text.encode())
        if figure is not None:
            made |= figure_checksum(figure(row)) << FIGURE_SHIFT
        if row[written] != made:
            raise damaged_row(table, row._mapping)
        yield row


def _identified(table: str, row: Mapping[str, Any]) -> str:
    named_by = {"observations": ("run_id", "metric", "scope"), "runs": ("id",)}
    keys = named_by.get(table, CHECKED[table][:2])
    return ", ".join(f"{key} {str(row[key])[:40]!r}" for key in keys)


def _crc(values: Iterable[Any]) -> int:
    return crc32("\x1f".join(map(_text, values)).encode())


# The texts are pinned by a test: if one changed, every stored row would be called damaged.
def _text(value: Any) -> str:
    # The commonest first: a list of runs asks a million times.
    if isinstance(value, str):
        return value if value.isascii() and "\0" not in value else storable_text(value)
    if value is None:
        return "\x00"
    if isinstance(value, float):
        # SQLite keeps no sign of zero.
        return repr(value + 0.0)
    if isinstance(value, datetime):
        return (value if value.tzinfo is UTC else value.astimezone(UTC)).isoformat(timespec="microseconds")
    return to_json(value) if isinstance(value, Mapping | list) else repr(value)
