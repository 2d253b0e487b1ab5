"""The clock of the database, in seconds since 1970. Clocks of machines differ, so that records of operation use it."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Dialect, literal_column, select
from sqlalchemy.sql.elements import ColumnElement

_SECONDS: Final = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS double precision)",
}


def now_column(dialect: Dialect) -> ColumnElement[float]:
    return literal_column(_SECONDS[dialect.name])


def now_there(connection: Connection) -> float:
    return float(connection.execute(select(now_column(connection.dialect))).scalar_one())
