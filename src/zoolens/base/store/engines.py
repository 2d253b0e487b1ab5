"""The SQLAlchemy engine that reaches a store."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
import weakref
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Dialect, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import LRUCache

from zoolens.base.errors import MissingDependency, StoreError
from zoolens.base.store.state import is_read_only, unwritten_log
from zoolens.base.store.target import Target
from zoolens.base.store.values import to_json

BEGIN: Final = "zoolens_begin"  # execution option: how SQLite is to begin a transaction; "" for none
_SQLITE_HEADER: Final = b"SQLite format 3\0"
_engines: Final = weakref.WeakKeyDictionary[Engine, Path]()  # that this process has, with the file of each
# SQLAlchemy makes the SQL of each statement once for an engine and its dialect, and each call of `zoolens.evaluate` or
# `query` opens the store anew. Making a statement takes as long as executing it: stores of one process share what was
# made, which saves a third of the processor time of a small evaluation.
_compiled: Final = LRUCache[Any, Any](1000)
BUSY_SECONDS: Final = 5.0  # SQLite waits this long by itself; `retry` goes on from there


@cache
def _dialect() -> Dialect:
    """SQLite as all stores of this process speak it. It is complete once an engine has connected."""
    engine = create_engine("sqlite://", json_serializer=to_json)
    engine.connect().close()
    engine.dispose()
    return engine.dialect


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], KeyboardInterrupt))


# SQLAlchemy logs a Ctrl-C that comes while it takes a connection back, with its traceback, and passes it on: whoever
# pressed the keys knows.
logging.getLogger("sqlalchemy.pool.impl.QueuePool").addFilter(_is_no_interrupt)


def make_engine(target: Target, patience: float) -> Engine:
    if target.path is not None:
        return _sqlite(target.path, patience)
    assert target.url is not None
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingDependency("A PostgreSQL store", "psycopg", "postgres") from error
    arguments = {"connect_timeout": "10", "application_name": "zoolens", "client_encoding": "utf8"}
    chosen_by_user = target.url.query
    return create_engine(
        target.url,
        connect_args={key: value for key, value in arguments.items() if key not in chosen_by_user},
        json_serializer=to_json,
        pool_pre_ping=True,
        max_overflow=32,
    )


def _sqlite(path: Path, patience: float) -> Engine:
    if path.is_dir():
        raise StoreError(f"The store {path} is a folder.", hint=f"Name a file, such as {path / 'store.sqlite'}.")
    if path.exists() and not path.is_file():  # to open a pipe is to wait for ever
        raise StoreError(f"The store {path} is a pipe or a device.", hint="Name a regular file.")
    if is_read_only(path):
        _refuse_other_file(path)
        return read_only_engine(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The folder of the store {path} cannot be made: {error.strerror}.", hint="Set ZOOLENS_STORE elsewhere."
        ) from error
    _refuse_other_file(path)
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"timeout": min(patience, BUSY_SECONDS)},
        json_serializer=to_json,
        pool_pre_ping=True,
        max_overflow=32,
        execution_options={"compiled_cache": _compiled},
    )
    engine.dialect = _dialect()
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    _engines[engine] = path
    return engine


def read_only_engine(path: Path) -> Engine:
    """An engine that writes nothing, for a store on a medium that cannot be written or is full.

    Even to read, SQLite wants to create a file beside a database with a write-ahead log, unless it is told that the
    database never changes. What such a log holds would then be overlooked, so that both are copied first.
    """
    folder: tempfile.TemporaryDirectory[str] | None = None
    if (log := unwritten_log(path)) is not None:
        folder = _copied(path, log)
        uri = f"{Path(folder.name, path.name).as_uri()}?mode=rw"
    else:
        uri = f"{path.as_uri()}?immutable=1"
    engine = create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(uri, uri=True, check_same_thread=False), json_serializer=to_json,
        poolclass=QueuePool, max_overflow=32,
    )  # fmt: skip
    if folder is not None:
        weakref.finalize(engine, folder.cleanup)
    event.listen(engine, "connect", _refuse_writing)
    event.listen(engine, "begin", _begin_read_only)
    return engine


def _copied(path: Path, log: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="zoolens-store-")
        for file in (path, log):
            shutil.copyfile(file, Path(folder.name, file.name))
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be written, and what was last written to it cannot be read elsewhere: "
            f"{error.strerror or error}.",
            hint="Make room for a copy in the folder for temporary files, or set TMPDIR to another.",
        ) from error
    return folder


def _refuse_writing(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA query_only = ON")


def _begin_read_only(connection: Connection) -> None:
    """Begins a transaction, not with BEGIN IMMEDIATE, which would fail before the statement does that says what cannot
    be written."""
    connection.exec_driver_sql("BEGIN")


def _refuse_other_file(path: Path) -> None:
    """SQLite takes any file of a few bytes for an empty database, and would write over it.

    A store that this process has open is not read: to close a file takes from the process every lock that it holds on
    it, those of SQLite's connections too. Another process would then take itself for the last one, and remove the
    write-ahead log from under them.
    """
    if any(_is_same_file(path, other) for other in list(_engines.values())):
        return
    try:
        with path.open("rb") as file:
            start = file.read(len(_SQLITE_HEADER))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(
            f"The store {path} cannot be read: {error.strerror}.", hint="Check whose file it is."
        ) from error
    if start and start != _SQLITE_HEADER:
        raise StoreError(f"{path} is not a zoolens store.", hint="Name another file; this one was not altered.")


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        # One of them is not there yet, or no longer.
        return False


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # We say BEGIN ourselves: the driver's own would not cover DDL.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL: with WAL, NORMAL may forget the last commits when the power fails. What a user has seen finished must stay
    # finished, and a commit is rare (one a part or stage), so its one fsync is cheap against the work it records.
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    how = connection.get_execution_options().get(BEGIN, "BEGIN")
    if how:
        connection.exec_driver_sql(how)
