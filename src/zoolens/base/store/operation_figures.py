"""Figures of a store and of its records of operation, as a monitor asks for them every few seconds.

Everything is counted by the database: no list of jobs or runs is read. Records of jobs are removed after a while
(`forget_jobs`), so that these are figures of what the store still lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select

from zoolens.base.store.database import Database
from zoolens.base.store.database_clock import now_there
from zoolens.base.store.jobs import JobState, driver_is_gone, shown_state
from zoolens.base.store.records import RunKind
from zoolens.base.store.schema import drivers, jobs, parts, runs


@dataclass(frozen=True)
class JobTimes:
    """How long jobs of one state took. `within`: how many took no longer than each of the bounds."""

    count: int = 0
    seconds: float = 0.0
    within: tuple[int, ...] = ()


@dataclass(frozen=True)
class OperationFigures:
    """`retries`: further attempts after the first, of all jobs."""

    jobs: Mapping[JobState, int] = field(default_factory=dict)
    times: Mapping[JobState, JobTimes] = field(default_factory=dict)  # of those that began and ended
    retries: int = 0
    drivers: int = 0  # that are alive
    runs: Mapping[RunKind, int] = field(default_factory=dict)
    database_bytes: int = 0
    bulk_bytes: int = 0
    bulk_parts: int = 0


def operation_figures(database: Database, bounds: Sequence[float] = ()) -> OperationFigures:
    """Count everything. `bounds`: of the times of jobs, in seconds, in ascending order."""

    def load(connection: Connection) -> OperationFigures:
        now = now_there(connection)
        counted = {JobState(row[0]): row for row in connection.execute(_jobs(now, bounds))}
        alive = select(func.count()).select_from(drivers).where(~driver_is_gone(now))
        by_kind = connection.execute(select(runs.c.kind, func.count()).group_by(runs.c.kind)).all()
        bulk = connection.execute(select(func.count(), func.coalesce(func.sum(parts.c.bytes), 0))).one()
        return OperationFigures(
            jobs={state: int(row.jobs) for state, row in counted.items()},
            times={
                state: JobTimes(int(row.ended), float(row.seconds), tuple(int(n) for n in row[5:]))
                for state, row in counted.items()
                if row.ended
            },
            retries=sum(int(row.retries) for row in counted.values()),
            drivers=int(connection.execute(alive).scalar_one()),
            runs={RunKind(kind): int(count) for kind, count in by_kind},
            database_bytes=_database_bytes(connection),
            bulk_bytes=int(bulk[1]),
            bulk_parts=int(bulk[0]),
        )

    return database.read(load)


def _jobs(now: float, bounds: Sequence[float]) -> Select[Any]:
    shown = shown_state(now)
    seconds = jobs.c.ended - jobs.c.started
    took = and_(jobs.c.ended.is_not(None), jobs.c.started.is_not(None))
    attempts = func.json_array_length(jobs.c.attempts)
    within = [_count(and_(took, seconds <= bound)).label(f"within{place}") for place, bound in enumerate(bounds)]
    return (
        select(
            shown.label("state"),
            func.count().label("jobs"),
            _count(took).label("ended"),
            func.coalesce(func.sum(case((took, seconds), else_=0.0)), 0.0).label("seconds"),
            func.coalesce(func.sum(case((attempts > 1, attempts - 1), else_=0)), 0).label("retries"),
            *within,
        )
        .select_from(jobs.outerjoin(drivers, drivers.c.id == jobs.c.driver))
        .group_by(shown)
    )


def _count(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((condition, 1), else_=0)), 0)


def _database_bytes(connection: Connection) -> int:
    if connection.dialect.name == "sqlite":
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages) * int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
