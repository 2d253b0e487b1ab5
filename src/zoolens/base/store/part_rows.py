"""Rows of parts: which files of bulk facts are registered. Every function takes an open connection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Connection, select

from zoolens.base.store.queries import in_chunks, load_rows
from zoolens.base.store.records import Part
from zoolens.base.store.schema import parts, runs


def part_name(connection: Connection, run_id: str, kind: str, part: int) -> str | None:
    """The file that is registered for a part; None if there is no such part."""
    same = (parts.c.run_id == run_id, parts.c.kind == kind, parts.c.part == part)
    return connection.execute(select(parts.c.name).where(*same)).scalar()


def any_name(connection: Connection) -> str | None:
    """One of the files that are registered; None: there is none."""
    return connection.execute(select(parts.c.name).order_by(parts.c.run_id).limit(1)).scalar()


def unregistered(connection: Connection, names: Collection[str]) -> list[str]:
    """Those of the names of files that no part has."""
    known: set[str] = set()
    for some in in_chunks(names):
        known.update(connection.execute(select(parts.c.name).where(parts.c.name.in_(some))).scalars())
    return [name for name in names if name not in known]


def of_known_runs(connection: Connection, names: Collection[str]) -> list[str]:
    """Those of the names of files whose run is in the store."""
    run_of = {name: name.partition("/")[0] for name in names}
    known: set[str] = set()
    for some in in_chunks(set(run_of.values())):
        known.update(connection.execute(select(runs.c.id).where(runs.c.id.in_(some))).scalars())
    return [name for name, run in run_of.items() if run in known]


def load_parts(
    connection: Connection, run_ids: Collection[str], kind: str, locate: Callable[[str], str]
) -> dict[str, list[Part]]:
    """The parts of each of the runs that has any, by number."""
    by_run: dict[str, list[Part]] = {}
    for some in in_chunks(run_ids):
        for row in load_rows(connection, parts, parts.c.run_id.in_(some), parts.c.kind == kind):
            by_run.setdefault(row["run_id"], []).append(_part(row, locate))
    return {run: sorted(found, key=lambda part: part.part) for run, found in by_run.items()}


def _part(row: Mapping[str, Any], locate: Callable[[str], str]) -> Part:
    return Part(
        run_id=row["run_id"],
        kind=row["kind"],
        part=row["part"],
        rows=row["rows"],
        bytes=row["bytes"],
        sha256=row["sha256"],
        name=row["name"],
        address=locate(row["name"]),
        created=row["created"],
    )
