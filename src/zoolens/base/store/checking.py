"""`zoolens store check`: every row against its checksum, every run's id against its key, every file of bulk facts, in a
folder or an object store, against its digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.exc import DBAPIError

from zoolens.base.errors import DamagedStore
from zoolens.base.store import schema
from zoolens.base.store.checksums import CHECKED, DamagedRow, check_row
from zoolens.base.store.figures import stale_figures
from zoolens.base.store.queries import in_chunks
from zoolens.base.store.records import Part, RunKey
from zoolens.base.store.retry import is_transient, reason
from zoolens.base.store.statements import everything
from zoolens.base.store.store import RUNS_AT_ONCE, Store

MOST: Final = 1_000  # damages that are told; who has more restores a backup
Say = Callable[[str, int], None]  # a table's name, how many of its rows were looked at


@dataclass(frozen=True)
class Checked:
    """What was looked at, and what of it is damaged: one sentence each, at most `MOST`."""

    rows: int
    files: int
    damage: tuple[str, ...]


def check_store(store: Store, say: Say | None = None) -> Checked:
    """Checks everything in the store without changing it; what is measured in the meantime may be missed."""
    damage: list[str] = []
    rows = files = 0
    damage += store.read(_database_damage)
    for name in CHECKED:
        table = schema.metadata.tables[name]
        count, broken = store.read(lambda connection, table=table: _check_table(connection, table))  # type: ignore[misc]
        rows += count
        damage += broken
        if say is not None:
            say(name, count)
    damage += store.read(lambda connection: list(_missing_facts(connection)))
    damage += _wrong_figures(store)
    damage += store.read(lambda connection: list(_wrong_keys(connection)))
    for part in _all_parts(store, damage):
        files += 1
        try:
            store.verify_part(part)
        except DamagedStore as error:
            damage.append(error.message)
    return Checked(rows, files, tuple(dict.fromkeys(damage))[:MOST])


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


def _check_table(connection: Connection, table: Table) -> tuple[int, list[str]]:
    count, damage = 0, []
    try:
        for row in connection.execute(everything(table)):
            count += 1
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


def _wrong_figures(store: Store) -> list[str]:
    """Runs whose figures are not those of their observations."""
    damage: list[str] = []
    try:
        ids = store.read(lambda connection: connection.execute(select(schema.runs.c.id)).scalars().all())
        for some in in_chunks(ids, RUNS_AT_ONCE):
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
