"""A checksum for every row, so that a damaged database is noticed instead of being shown as a figure.

The checksums find accidents, not attackers: a flipped bit, a page of another file, a row that was edited by hand. They
are made of the values themselves, so that they hold in SQLite and in PostgreSQL alike. JSON counts as the text that is
stored.

The columns of CHECKED are fixed. A column that a later revision of the schema adds to a table is listed in ADDED with
its default value, and counts only where it has another value: so all rows that were there before keep their checksums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
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
    "trial_sides": ("trial", "place", "framework", "run_id", "error"),
}
ADDED: Final[Mapping[str, Mapping[str, Any]]] = {"runs": {"kind": "evaluation"}}
_FIGURE_SHIFT: Final = 32


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
    return figure << _FIGURE_SHIFT | rest


def figure_checksum(values: Iterable[Any]) -> int:
    """The checksum of FIGURE's columns, in their order: 31 bits, so that a row's whole one fits a signed integer."""
    return _crc(values) >> 1


def check_row(table: str, row: Any) -> None:
    """Raises `DamagedRow` unless the row, read with all its columns and JSON as text, bears its checksum."""
    values = row._mapping
    if values[COLUMN] != checksum(table, values):
        raise DamagedRow(f"a row of {table} ({_identified(table, values)}) does not match its checksum")


def check_figure(row: Any, values: Iterable[Any]) -> None:
    """Raises `DamagedRow` unless the columns of FIGURE, given as `values`, bear their part of the checksum."""
    if row.checksum is None or row.checksum >> _FIGURE_SHIFT != figure_checksum(values):
        raise DamagedRow(f"a row of observations ({row.metric} of run {row.run_id}) does not match its checksum")


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
