"""Reports: pages that somebody composed of figures, charts and notes, in a table of their own.

What is said of a report is never changed. A later row about the same one counts instead, so that whoever wrote last
wins, and what was there before is still in the store.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection

from zoolens.base.errors import UnknownName
from zoolens.base.store.commands import now
from zoolens.base.store.database import Database
from zoolens.base.store.queries import load_rows
from zoolens.base.store.schema import reports
from zoolens.base.store.studies import insert_row
from zoolens.base.store.values import storable_text, to_json

_ID_BYTES: Final = 6


@dataclass(frozen=True)
class ReportRecord:
    """A report as it is now. `version` counts what was written about it; `pieces` are data of whoever shows them."""

    id: str
    title: str
    pieces: Sequence[Mapping[str, Any]]
    created: datetime
    changed: datetime
    version: int = 1


class StaleReport(Exception):
    """Somebody else has written the report since it was read."""


def add_report(database: Database, title: str, pieces: Sequence[Mapping[str, Any]] = ()) -> ReportRecord:
    """A new report."""
    report_id = secrets.token_hex(_ID_BYTES)

    database._write(lambda connection: _write(connection, report_id, title, pieces))
    return load_report(database, report_id)


def write_report(
    database: Database, report_id: str, version: int, title: str, pieces: Sequence[Mapping[str, Any]]
) -> ReportRecord:
    """The report with another title and other pieces. StaleReport: it is not of this version any more."""

    def write(connection: Connection) -> bool:
        known = _loaded(connection, report_id)
        if known is None or known.version != version:
            return False
        _write(connection, report_id, title, pieces)
        return True

    if not database._write(write):
        load_report(database, report_id)  # says so where there is none
        raise StaleReport(report_id)
    return load_report(database, report_id)


def remove_report(database: Database, report_id: str) -> None:
    """Take a report off the list."""
    known = load_report(database, report_id)
    database._write(lambda connection: _write(connection, report_id, known.title, [], removed=True))


def load_report(database: Database, report_id: str) -> ReportRecord:
    """UnknownName: there is none of this id."""
    found = database.read(lambda connection: _loaded(connection, report_id))
    if found is None:
        raise UnknownName("report", report_id, [])
    return found


def load_reports(database: Database) -> list[ReportRecord]:
    """All reports, the one that was changed last first."""
    found = database.read(lambda connection: _records(load_rows(connection, reports)))
    return sorted(found, key=lambda report: report.changed, reverse=True)


def _write(
    connection: Connection, report_id: str, title: str, pieces: Sequence[Mapping[str, Any]], *, removed: bool = False
) -> None:
    content = json.loads(to_json({"pieces": list(pieces)}))
    row = {"name": report_id, "title": title, "content": content, "removed": removed, "created": now()}
    insert_row(connection, reports, row)


def _loaded(connection: Connection, report_id: str) -> ReportRecord | None:
    rows = load_rows(connection, reports, reports.c.name == storable_text(report_id))
    return next(iter(_records(rows)), None)


def _records(rows: Sequence[Mapping[str, Any]]) -> list[ReportRecord]:
    """The last word on each report that was not removed."""
    by_id: dict[str, list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: int(row["seq"])):
        by_id.setdefault(row["name"], []).append(row)
    return [_record(words) for words in by_id.values() if not words[-1]["removed"]]


def _record(words: Sequence[Mapping[str, Any]]) -> ReportRecord:
    last = words[-1]
    return ReportRecord(
        id=last["name"],
        title=last["title"],
        pieces=tuple(json.loads(last["content"])["pieces"]),
        created=words[0]["created"],
        changed=last["created"],
        version=len(words),
    )
