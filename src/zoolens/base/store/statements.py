"""Statements that are made once, and are immutable.

To make one takes SQLAlchemy as long as to execute it, and every stage of an evaluation needs a dozen of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import JSON, Column, Executable, Select, Table, Text, bindparam, cast, func, select

from zoolens.base.store.schema import datasets, observations, runs, stages


@cache
def everything(table: Table) -> Select[Any]:
    """Returns a SELECT of all columns, JSON as text."""
    return select(*(_as_text(column) for column in table.c))


def _as_text(column: Column[Any]) -> Any:
    """JSON as it is stored: checksums are made of the text, and most of it is never looked at."""
    return cast(column, Text).label(column.name) if isinstance(column.type, JSON) else column


@cache
def one_run() -> Select[Any]:
    return everything(runs).where(runs.c.id == bindparam("run"))


@cache
def of_fingerprints(table: Table) -> Select[Any]:
    key = table.c.fingerprint
    return everything(table).where(key.in_(bindparam("wanted", type_=key.type, expanding=True)))


@cache
def shared_names() -> Select[tuple[str]]:
    name = datasets.c.name
    return select(name).group_by(name).having(func.count() > 1).order_by(name)


@cache
def stages_of_runs() -> Select[Any]:
    run = stages.c.run_id
    some = run.in_(bindparam("of_runs", type_=run.type, expanding=True))
    return everything(stages).where(some).order_by(stages.c.updated, stages.c.stage)


@cache
def held_run() -> Select[Any]:
    return everything(runs).where(runs.c.id == bindparam("run")).with_for_update(key_share=True)


@cache
def one_stage() -> Select[Any]:
    table = stages.c
    same = (table.run_id == bindparam("run"), table.stage == bindparam("stage_name"))
    return everything(stages).where(*same)


@cache
def fact_count() -> Select[int]:
    facts = observations.c
    return select(func.count()).where(facts.run_id == bindparam("run"), facts.stage == bindparam("stage_name"))


@cache
def insert_new(table: Table, database: str) -> Executable:
    if database == "sqlite":
        from sqlalchemy.dialects import sqlite as dialect
    else:
        from sqlalchemy.dialects import postgresql as dialect  # type: ignore[no-redef]
    return dialect.insert(table).on_conflict_do_nothing()
