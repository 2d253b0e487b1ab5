"""Rows that are copied from one store to another as they are: values, times and texts, each with its checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import JSON, Connection, Table

from zoolens.base.store.commands import add_rows

Row = Mapping[str, Any]


def insert_rows(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows as `load_rows` gives them; those whose key is there already stay."""
    add_rows(connection, table, [parsed(table, row) for row in rows])


def parsed(table: Table, row: Row) -> dict[str, Any]:
    """The row with its JSON as values, as it is inserted."""
    texts = [column.name for column in table.c if isinstance(column.type, JSON)]
    return {**row, **{name: json.loads(row[name]) for name in texts}}


def without(row: Row, *names: str) -> dict[str, Any]:
    """The row without some of its columns, such as its number in the order of arrival, which the database gives."""
    return {name: value for name, value in row.items() if name not in names}
