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

from sqlalchemy import Connection, Row, select
from sqlalchemy.sql.elements import ColumnElement

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


@dataclass(frozen=True)
class ReportHead:
    """What a list of reports is searched and sorted by, read without the pieces, which may be megabytes."""

    id: str
    title: str
    changed: datetime


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
        # Two writers at once on a server would both see the version before: the second waits here, and then reads.
        own = select(reports.c.seq).where(reports.c.name == storable_text(report_id))
        connection.execute(own.order_by(reports.c.seq).limit(1).with_for_update(key_share=True)).all()
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


def report_heads(database: Database) -> list[ReportHead]:
    """All reports, the one that was changed last first."""
    words = database.read(_words).values()
    heads = [ReportHead(rows[-1].name, rows[-1].title, rows[-1].created) for rows in words if not rows[-1].removed]
    return sorted(heads, key=lambda head: head.changed, reverse=True)


def load_reports(database: Database, ids: Sequence[str]) -> list[ReportRecord]:
    """Those of these reports that are there, in this order."""
    chosen = reports.c.name.in_([storable_text(report_id) for report_id in ids])
    found = {report.id: report for report in database.read(lambda connection: _records(connection, chosen))}
    return [found[report_id] for report_id in ids if report_id in found]


def _write(
    connection: Connection, report_id: str, title: str, pieces: Sequence[Mapping[str, Any]], *, removed: bool = False
) -> None:
    content = json.loads(to_json({"pieces": list(pieces)}))
    row = {"name": report_id, "title": title, "content": content, "removed": removed, "created": now()}
    insert_row(connection, reports, row)


def _loaded(connection: Connection, report_id: str) -> ReportRecord | None:
    return next(iter(_records(connection, reports.c.name == storable_text(report_id))), None)


def _records(connection: Connection, chosen: ColumnElement[bool]) -> list[ReportRecord]:
    """The last word on each report that was not removed; what was said before is counted, and not read."""
    by_id = _words(connection, chosen)
    last = [rows[-1].seq for rows in by_id.values() if not rows[-1].removed]
    written = load_rows(connection, reports, reports.c.seq.in_(last)) if last else []
    return [_record(row, by_id[row["name"]]) for row in written]


def _words(connection: Connection, *chosen: ColumnElement[bool]) -> dict[str, list[Row[*tuple[Any, ...]]]]:
    """What was said of each report, oldest first, without the pieces."""
    column = reports.c
    query = select(column.seq, column.name, column.title, column.removed, column.created).where(*chosen)
    by_id: dict[str, list[Row[*tuple[Any, ...]]]] = {}
    for row in connection.execute(query.order_by(column.seq)):
        by_id.setdefault(row.name, []).append(row)
    return by_id


def _record(last: Mapping[str, Any], words: Sequence[Row[*tuple[Any, ...]]]) -> ReportRecord:
    return ReportRecord(
        id=last["name"],
        title=last["title"],
        pieces=tuple(json.loads(last["content"])["pieces"]),
        created=words[0].created,
        changed=last["created"],
        version=len(words),
    )
