"""Migrates a store to this version's schema when it is opened, also by several processes at once."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from sqlalchemy import Connection, Engine, column, create_engine, insert, select, table

from zoolens.base.errors import StoreError
from zoolens.base.store.engines import BEGIN
from zoolens.base.store.schema import about, metadata
from zoolens.base.store.state import HEAD, REVISIONS, VERSION_TABLE

MIGRATIONS: Final = Path(__file__).parent / "migrations"
# What all migrations make of an empty file; a test holds the two equal. A new store needs no Alembic then.
SQLITE_SCHEMA: Final = MIGRATIONS / "sqlite.sql"
_one_migration_at_a_time = threading.Lock()  # Alembic keeps the current one in globals of this process
_VERSION: Final = f"SELECT version_num FROM {VERSION_TABLE}"  # noqa: S608 - our constant
_LOCK_WAIT: Final = "5s"
_MIGRATION_LOCK: Final = 0x7A6F6F6C656E73  # "zoolens": the key of PostgreSQL's advisory lock


def make_ready(engine: Engine, name: str, must_exist: bool = False) -> str:
    """Migrate the store if it needs it, and return its id. A store that is current is only read. `must_exist`: an empty
    database is refused and left empty."""
    with engine.connect() as connection:
        version = _version(connection, name)
        if version == HEAD:
            return _store_id(connection)
        if version is None and must_exist:
            raise StoreError(f"There is no zoolens store in {name}.", hint="Check the name of the database.")
    if engine.dialect.name == "sqlite":
        _use_write_ahead_log(engine)
    with engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"}).begin() as connection:
        if engine.dialect.name == "postgresql":
            # PostgreSQL has no BEGIN IMMEDIATE: several processes would migrate at once.
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})")
        # Another process may have been first.
        if _version(connection, name) != HEAD:
            if engine.dialect.name == "sqlite" and not _tables(connection):
                _create(connection)
            else:
                _upgrade(connection)
        return _store_id(connection)


def _store_id(connection: Connection) -> str:
    return str(connection.execute(select(about.c.value).where(about.c.key == "store_id")).scalar_one())


def _version(connection: Connection, name: str) -> str | None:
    """The schema's revision, None for an empty database; refuses what is not ours or is from the future."""
    tables = _tables(connection)
    if VERSION_TABLE not in tables:
        in_the_way = tables if connection.dialect.name == "sqlite" else tables & set(metadata.tables)
        if in_the_way:
            raise StoreError(
                f"{name} is a database of another program: it has a table named {min(in_the_way)!r}.",
                hint="Name another file or an empty database; this one was not altered.",
            )
        return None
    version = _written_version(connection)
    if version is not None and version not in REVISIONS:
        raise StoreError(
            f"The store {name} was written by a newer zoolens (schema {version}, this one knows {HEAD}).",
            hint="Upgrade zoolens: pip install -U zoolens. The store was not altered.",
        )
    return version


def _written_version(connection: Connection) -> str | None:
    version = connection.exec_driver_sql(_VERSION).scalar()
    return None if version is None else str(version)


def refuse_other_schema(connection: Connection, name: str) -> None:
    """Raise StoreError where an open store has another schema by now: somebody has migrated it with a newer zoolens, or
    has put an older backup in its place."""
    version = _written_version(connection)
    if version == HEAD:
        return
    if version in REVISIONS:
        raise StoreError(
            f"The store {name} was replaced by an older one (schema {version}) while it was open.",
            hint="Run the same command again: it brings the store up to date first.",
        )
    raise StoreError(
        f"The store {name} was migrated by a newer zoolens while it was open: schema {version}, this one knows {HEAD}.",
        hint="Upgrade zoolens, then run the same command again: what was stored is kept.",
    )


def hold_schema(connection: Connection, name: str) -> None:
    """Keep others from migrating the store until this transaction, which writes, has ended; refuse another schema."""
    if connection.dialect.name == "postgresql":
        # A statement of its own: one that had to wait for the lock would still see the version from before. Its wait is
        # limited, so that whoever holds the lock too long is met with the store's patience, and told.
        connection.exec_driver_sql(
            f"SET LOCAL lock_timeout = '{_LOCK_WAIT}'; SELECT pg_advisory_xact_lock_shared({_MIGRATION_LOCK}); "
            "SET LOCAL lock_timeout = DEFAULT"
        )
    # SQLite's writers are alone anyhow.
    refuse_other_schema(connection, name)


def _tables(connection: Connection) -> set[str]:
    if connection.dialect.name == "sqlite":
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
    else:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    return {row[0] for row in connection.exec_driver_sql(query)}


def _use_write_ahead_log(engine: Engine) -> None:
    """Readers then never wait for a writer. The mode is kept in the file, and cannot be set in a transaction."""
    with engine.execution_options(**{BEGIN: ""}).connect() as connection:
        connection.exec_driver_sql("PRAGMA journal_mode = WAL")


def _create(connection: Connection) -> None:
    """Write the schema of today into an empty SQLite file, without importing Alembic and running every migration."""
    for statement in statements_of(SQLITE_SCHEMA.read_text("utf-8")):
        connection.exec_driver_sql(statement)
    connection.execute(insert(about).values(key="store_id", value=uuid4().hex))
    connection.execute(insert(table(VERSION_TABLE, column("version_num"))).values(version_num=HEAD))


def statements_of(script: str) -> Iterator[str]:
    """The statements of an SQL script. SQLite's own `executescript` would end the transaction that holds the lock."""
    statement = ""
    for line in script.splitlines(keepends=True):
        # A semicolon inside a trigger does not end its statement, so that the script cannot simply be split.
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement.strip().removesuffix(";")
            statement = ""


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _one_migration_at_a_time:
        command.upgrade(config, "head")


def migrated_schema() -> list[str]:
    """The statements, in their order, that the migrations together make of an empty SQLite database."""
    with create_engine("sqlite://").begin() as connection:
        _upgrade(connection)
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        return [str(sql) for (sql,) in connection.exec_driver_sql(query)]
