"""`zoolens store check`: every row against its checksum, every run's id against its key, every file of bulk facts, in a
folder or an object store, against its digest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import DBAPIError

from zoolens.base.errors import DamagedStore
from zoolens.base.progress import Progress, Silent
from zoolens.base.store import schema
from zoolens.base.store.checksums import CHECKED, DamagedRow, check_row
from zoolens.base.store.figures import stale_figures
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.records import Part, RunKey
from zoolens.base.store.retry import is_transient, reason
from zoolens.base.store.statements import everything
from zoolens.base.store.store import RUNS_AT_ONCE, Store

MOST: Final = 1_000  # damages that are told; who has more restores a backup
_TOLD: Final = 5_000  # rows between two steps of a progress bar


@dataclass(frozen=True)
class Checked:
    """What was looked at, and what of it is damaged: one sentence each, at most `MOST`."""

    rows: int
    files: int
    damage: tuple[str, ...]


def check_store(store: Store, progress: Progress | None = None) -> Checked:
    """Checks everything in the store without changing it; what is measured in the meantime may be missed."""
    watch = progress or Silent()
    damage: list[str] = []
    rows = files = 0
    watch.begin("check", "the database's own pages and indexes", None)
    damage += store.read(_database_damage)
    for name in CHECKED:
        check = partial(_check_table, table=schema.metadata.tables[name], watch=watch)
        count, broken = store.read(check)
        rows += count
        damage += broken
        watch.say(f"{name}: {count:,} rows")
    watch.begin("check", "what rows refer to", None)
    damage += store.read(lambda connection: list(_missing_facts(connection)))
    damage += _wrong_figures(store, watch)
    watch.begin("check", "keys of runs", None)
    damage += store.read(lambda connection: list(_wrong_keys(connection)))
    watch.begin("check", "files", _row_count(store, schema.parts), "files")
    for part in _all_parts(store, damage):
        files += 1
        watch.advance(1)
        try:
            store.verify_part(part)
        except DamagedStore as error:
            damage.append(error.message)
    watch.end()
    return Checked(rows, files, tuple(dict.fromkeys(damage))[:MOST])


def _row_count(store: Store, table: Table) -> int | None:
    """How many rows a table has, for the bar alone: None where it cannot be read, which is told elsewhere."""
    counted = select(func.count()).select_from(table)
    try:
        return int(store.read(lambda connection: connection.execute(counted).scalar_one()))
    except DamagedStore:
        return None


def _database_damage(connection: Connection) -> list[str]:
    """What SQLite finds wrong with its own pages and indexes; PostgreSQL has checksums of its own."""
    if connection.dialect.name != "sqlite":
        return []
    try:
        lines = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(100)")]
    except DBAPIError as error:
        _raise_passing(error)
        lines = [reason(error)]
    return [f"The database reports: {' '.join(text.split())}." for text in lines if text != "ok"]


def _raise_passing(error: Exception) -> None:
    """A server that is away or busy is no damage: `Store.read` tries again, and says so in the end."""
    if is_transient(error):
        raise error


def _check_table(connection: Connection, table: Table, watch: Progress) -> tuple[int, list[str]]:
    count, damage = 0, []
    try:
        total = connection.execute(select(func.count()).select_from(table)).scalar_one()
        watch.begin("check", f"rows of {table.name}", total, "rows")
        for row in connection.execute(everything(table)):
            count += 1
            if count % _TOLD == 0:
                watch.advance(_TOLD)
            try:
                check_row(table.name, row)
            except DamagedRow as error:
                damage.append(f"{str(error)[:1].upper()}{str(error)[1:]}.")
            if len(damage) >= MOST:
                break
    except (DBAPIError, ValueError, TypeError) as error:
        _raise_passing(error)
        damage.append(f"Table {table.name} cannot be read beyond row {count:,}: {reason(error)}.")
    return count, damage


def _missing_facts(connection: Connection) -> Iterator[str]:
    """Stages that have lost observations, and rows that refer to what is not there."""
    stages, facts = schema.stages.c, schema.observations.c
    counted = select(facts.run_id, facts.stage, func.count().label("n")).group_by(facts.run_id, facts.stage).subquery()
    same = (counted.c.run_id == stages.run_id) & (counted.c.stage == stages.stage)
    there = func.coalesce(counted.c.n, 0)
    query = select(stages.run_id, stages.stage, stages.facts, there.label("there"))
    query = query.select_from(schema.stages.outerjoin(counted, same)).where(stages.facts != there).limit(MOST)
    try:
        for row in connection.execute(query):
            yield f"Stage {row.stage} of run {row.run_id} has {row.there} observations instead of {row.facts}."
        for table in schema.metadata.sorted_tables:
            for key in table.foreign_keys:
                lost = select(func.count()).where(~select(key.column).where(key.column == key.parent).exists())
                if count := connection.execute(lost.select_from(table)).scalar_one():
                    yield f"{count:,} rows of {table.name} refer to {key.column.table.name} that are not there."
    except DBAPIError as error:
        _raise_passing(error)
        yield f"The rows of stages and runs cannot be compared: {reason(error)}."


def _wrong_figures(store: Store, watch: Progress) -> list[str]:
    """Runs whose figures are not those of their observations."""
    damage: list[str] = []
    try:
        ids = store.read(lambda connection: connection.execute(select(schema.runs.c.id)).scalars().all())
        watch.begin("check", "figures of runs", len(ids), "runs")
        for some in in_chunks(ids, RUNS_AT_ONCE):
            watch.advance(len(some))
            # At once: a stage that is finished between the two looks is no damage.
            wrong = store.read_at_once(lambda connection, some=some: stale_figures(connection, some))  # type: ignore[misc]
            damage += [f"The figures of run {run} are not those of its observations." for run in wrong]
            if len(damage) >= MOST:
                break
    except DamagedStore as error:
        damage.append(error.message)
    return damage


def _wrong_keys(connection: Connection) -> Iterator[str]:
    """Runs whose id is not the digest of model, dataset, stack and attempt: other stores would not know them."""
    run = schema.runs.c
    try:
        for row in connection.execute(select(run.id, run.model, run.dataset, run.stack, run.attempt)):
            wanted = RunKey(row.model, row.dataset, row.stack, row.attempt).id
            if row.id != wanted:
                yield f"Run {row.id} has a wrong id: that of its model, dataset, stack and attempt is {wanted}."
    except (DBAPIError, ValueError, TypeError) as error:
        _raise_passing(error)
        yield f"The keys of runs cannot be read: {reason(error)}."


def _all_parts(store: Store, damage: list[str]) -> Iterator[Part]:
    """Yields the parts of all runs; damaged rows were reported already."""
    ids = select(schema.parts.c.run_id, schema.parts.c.kind).distinct()
    try:
        groups = store.read(lambda connection: connection.execute(ids).all())
    except DamagedStore as error:
        damage.append(error.message)
        return
    for row in groups:
        try:
            yield from store.parts(row.run_id, row.kind)
        except DamagedStore as error:
            damage.append(error.message)
