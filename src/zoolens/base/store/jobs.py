"""Jobs that commands gave to other machines, and the drivers: the processes that gave them out and keep the results.

These rows are records of operation, not facts about models. A driver writes what changed now and then, in one
transaction, which also renews its lease and tells it what somebody wants cancelled. Times are told by the database. A
job whose driver died is lost: its row says that it waits or runs, and whoever reads sees that the lease has ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, case, delete, or_, select, update

from zoolens.base.errors import AmbiguousName, UnknownName
from zoolens.base.store.database import Database
from zoolens.base.store.database_clock import now_there
from zoolens.base.store.schema import drivers, jobs

MOST_JOBS: Final = 1_000  # that are listed unless asked otherwise


class JobState(StrEnum):
    WAITING = "waiting"  # given out; no machine has begun it
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"  # the model's or our own fault: another attempt would fail too
    LOST = "lost"  # its machine, its process or its driver is gone
    CANCELLED = "cancelled"


OPEN: Final = (JobState.WAITING, JobState.RUNNING)


@dataclass(frozen=True)
class Attempt:
    """One start of a job on a machine. `reason`: why it ended without a result; empty: it runs, or it had one."""

    host: str = ""
    node: str = ""
    started: float | None = None
    ended: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class LogLine:
    """What a job said, when (seconds since 1970, by the clock of the database)."""

    at: float
    text: str


@dataclass(frozen=True)
class JobRecord:
    """One job. Times are seconds since 1970 by the clock of the database, as is `now`, when this was read."""

    id: str
    driver: str  # id
    given_by: str  # user@host:process of the driver
    command: str  # such as "eval"
    title: str
    model: str
    dataset: str
    runtimes: tuple[str, ...]  # asked for; empty: all that can run the model
    kind: str  # of machine that it was meant for; empty: any
    agent: str  # the machine that it was sent to; empty: any
    node: str  # of the cluster that began it last
    state: JobState
    attempts: tuple[Attempt, ...]
    given: float
    started: float | None
    ended: float | None
    runs: tuple[str, ...]  # ids of what came of it
    error: str
    cancelled_by: str  # who cancelled it, or asked for that
    now: float = field(compare=False)

    @property
    def seconds(self) -> float | None:
        """How long it runs or ran, from the start of its last attempt."""
        return None if self.started is None else max(0.0, (self.ended or self.now) - self.started)


@dataclass(frozen=True)
class DriverRecord:
    """One process that gives out jobs. `alive`: it gave a sign of life within its lease, and has not ended."""

    id: str
    name: str
    command: str
    alive: bool
    started: float
    ended: float | None
    cancelled_by: str
    now: float = field(compare=False)


@dataclass(frozen=True)
class Cancellations:
    """What of a driver's work somebody wants cancelled: who, by job; and who wants all of it to end."""

    jobs: Mapping[str, str]
    all: str = ""

    def by(self, job_id: str) -> str:
        return self.jobs.get(job_id) or self.all


# --- for drivers


def write_jobs(
    database: Database, driver: Mapping[str, Any], changed: Sequence[Mapping[str, Any]], *, ended: bool = False
) -> Cancellations:
    """Renews a driver's lease, writes its changed jobs and returns what is to be cancelled. Times in `changed` are
    ages: seconds before now. Rows that somebody removed are written again."""

    def write(connection: Connection) -> Cancellations:
        now = now_there(connection)
        beat = {"beat": now, "ended": now if ended else None}
        row = {**driver, "started": now, **beat}
        _upsert(connection, drivers, [row], set(beat))
        rows = [_row(job, driver["id"], now) for job in changed]
        if rows:
            _upsert(connection, jobs, rows, set(rows[0]) - {"id"})
        mine = and_(jobs.c.driver == driver["id"], jobs.c.cancelled_by.is_not(None))
        asked = connection.execute(select(jobs.c.id, jobs.c.cancelled_by).where(mine))
        everything = connection.execute(select(drivers.c.cancelled_by).where(drivers.c.id == driver["id"])).scalar()
        return Cancellations({str(job): str(by) for job, by in asked}, str(everything or ""))

    return database._write(write)


def _row(job: Mapping[str, Any], driver: str, now: float) -> dict[str, Any]:
    times = {name: None if job[name] is None else now - job[name] for name in ("given", "started", "ended")}
    attempts = [
        {**one, **{name: None if one[name] is None else now - one[name] for name in ("started", "ended")}}
        for one in job["attempts"]
    ]
    log = [[now - age, text] for age, text in job["log"]]
    return {**job, **times, "attempts": attempts, "log": log, "driver": driver}


def _upsert(connection: Connection, table: Any, rows: list[dict[str, Any]], updated: set[str]) -> None:
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite as dialect
    else:
        from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]
    statement = dialect.insert(table)
    new = {name: getattr(statement.excluded, name) for name in updated}
    connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=new), rows)


# --- for people


def load_jobs(
    database: Database,
    *,
    states: Sequence[JobState] = (),
    model: str = "",
    driver: str = "",
    job: str = "",
    limit: int | None = MOST_JOBS,
) -> list[JobRecord]:
    """Jobs, the newest first. `model`, `driver`, `job`: a name or how an id begins."""

    def load(connection: Connection) -> list[JobRecord]:
        now = now_there(connection)
        shown = shown_state(now)
        wanted: list[ColumnElement[bool]] = []
        if states:
            wanted.append(shown.in_([str(state) for state in states]))
        if model:
            wanted.append(jobs.c.model == model)
        if driver:
            wanted.append(or_(jobs.c.driver.startswith(driver, autoescape=True), drivers.c.name == driver))
        if job:
            wanted.append(jobs.c.id.startswith(job, autoescape=True))
        columns = [column for column in jobs.c if column.name != "log"]
        query = (
            select(*columns, drivers.c.name.label("given_by"), drivers.c.command, shown.label("shown"))
            .select_from(jobs.outerjoin(drivers, drivers.c.id == jobs.c.driver))
            .where(*wanted)
            .order_by(jobs.c.given.desc(), jobs.c.id)
            .limit(limit)
        )
        return [_job(row, now) for row in connection.execute(query).mappings()]

    return database.read(load)


def job_named(database: Database, name: str) -> JobRecord:
    """The job whose id begins so."""
    found = load_jobs(database, job=name, limit=5) if name else []
    if not found:
        raise UnknownName("job", name, hint="`zoolens fleet jobs` lists them.")
    if len(found) > 1:
        raise AmbiguousName(name, [job.id for job in found], hint="Give more of its id.")
    return found[0]


def job_log(database: Database, job_id: str) -> list[LogLine]:
    """What a job said, oldest first; lines in the middle of a long log are left out, which a line says."""

    def load(connection: Connection) -> list[LogLine]:
        log = connection.execute(select(jobs.c.log).where(jobs.c.id == job_id)).scalar()
        return [LogLine(float(at), str(text)) for at, text in log or ()]

    return database.read(load)


def load_drivers(database: Database) -> list[DriverRecord]:
    """The drivers, the newest first."""

    def load(connection: Connection) -> list[DriverRecord]:
        now = now_there(connection)
        rows = connection.execute(select(drivers, driver_is_gone(now).label("dead")).order_by(drivers.c.started.desc()))
        return [
            DriverRecord(
                row["id"],
                row["name"],
                row["command"],
                not row["dead"],
                row["started"],
                row["ended"],
                row["cancelled_by"] or "",
                now,
            )
            for row in rows.mappings()
        ]

    return database.read(load)


def cancel_jobs(database: Database, ids: Sequence[str] | None, by: str) -> int:
    """Asks the drivers of these jobs, or of all (None), to cancel those that wait or run. How many jobs that concerns.
    Drivers see it at their next heartbeat."""

    def cancel(connection: Connection) -> int:
        now = now_there(connection)
        open_jobs = jobs.c.state.in_([str(state) for state in OPEN])
        alive = jobs.c.driver.in_(select(drivers.c.id).where(~driver_is_gone(now)))
        chosen = [open_jobs, alive, *([] if ids is None else [jobs.c.id.in_(ids)])]
        if ids is None:
            # Also those that it has not given out yet.
            connection.execute(update(drivers).where(~driver_is_gone(now)).values(cancelled_by=by))
        return connection.execute(update(jobs).where(*chosen).values(cancelled_by=by)).rowcount

    return int(database._write(cancel))


def forget_jobs(database: Database, older_than: float) -> int:
    """Removes the records of jobs that ended or were lost so many seconds ago, and of drivers that have none. How many
    jobs that were."""

    def forget(connection: Connection) -> int:
        now = now_there(connection)
        old_drivers = select(drivers.c.id).where(driver_is_gone(now), drivers.c.beat < now - older_than)
        ended = jobs.c.ended < now - older_than
        orphaned = and_(jobs.c.ended.is_(None), jobs.c.driver.in_(old_drivers))
        count = connection.execute(delete(jobs).where(or_(ended, orphaned))).rowcount
        unused = drivers.c.id.not_in(select(jobs.c.driver))
        connection.execute(delete(drivers).where(driver_is_gone(now), drivers.c.beat < now - older_than, unused))
        return count

    return int(database._write(forget))


def driver_is_gone(now: float) -> ColumnElement[bool]:
    return or_(drivers.c.ended.is_not(None), now - drivers.c.beat > drivers.c.lease)


def shown_state(now: float) -> ColumnElement[str]:
    """The state of a job in a query over jobs with their drivers: one whose driver is gone is lost."""
    abandoned = and_(jobs.c.state.in_([str(state) for state in OPEN]), or_(drivers.c.id.is_(None), driver_is_gone(now)))
    return case((abandoned, str(JobState.LOST)), else_=jobs.c.state)


def _job(row: RowMapping, now: float) -> JobRecord:
    by, error = str(row["given_by"] or "an unknown driver"), str(row["error"])
    if row["shown"] == JobState.LOST and row["state"] in OPEN:
        error = f"Its driver {by} is gone. Run the same command again: what is finished is kept."
    plain = {name: row[name] for name in ("id", "driver", "title", "model", "dataset", "kind", "agent", "node")}
    return JobRecord(
        **plain,
        given_by=by,
        command=str(row["command"] or ""),
        runtimes=tuple(map(str, row["runtimes"])),
        state=JobState(row["shown"]),
        attempts=tuple(Attempt(**one) for one in row["attempts"]),
        given=row["given"],
        started=row["started"],
        ended=row["ended"],
        runs=tuple(map(str, row["runs"])),
        error=error,
        cancelled_by=str(row["cancelled_by"] or ""),
        now=now,
    )
