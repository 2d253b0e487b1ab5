"""Which store: the file or URL a user names, and the engine that reaches it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from zoolens.errors import MissingDependency, StoreError
from zoolens.paths import data_dir
from zoolens.store.values import to_json

STORE_VARIABLE: Final = "ZOOLENS_STORE"
BULK_VARIABLE: Final = "ZOOLENS_BULK"
BEGIN: Final = "zoolens_begin"  # execution option: how SQLite is to begin a transaction; "" for none
_SQLITE_HEADER: Final = b"SQLite format 3\0"
BUSY_SECONDS: Final = 5.0  # SQLite waits this long by itself; `retry` goes on from there


@dataclass(frozen=True)
class Target:
    url: URL
    path: Path | None  # of the SQLite file

    @property
    def name(self) -> str:
        """As shown to people: never with the password."""
        if self.path is not None:
            return str(self.path)
        return self.url.set(drivername="postgresql").render_as_string(hide_password=True)

    def bulk_root(self, store_id: str) -> Path:
        """`x.sqlite` keeps its files in `x.bulk`. A server's lie on this machine or a share, one folder a database;
        the folder is named by the id that the database carries, since one server may be reached by several URLs."""
        if self.path is not None:
            stem = self.path.stem if self.path.suffix == ".sqlite" else self.path.name
            return self.path.with_name(f"{stem}.bulk")
        shared = os.environ.get(BULK_VARIABLE)
        return (Path(shared) if shared else data_dir() / "bulk") / store_id


def resolve(target: str | Path | None) -> Target:
    """None: $ZOOLENS_STORE, else the user's own store; a path: SQLite; postgresql://…: PostgreSQL."""
    chosen = target if target is not None else os.environ.get(STORE_VARIABLE) or data_dir() / "store.sqlite"
    chosen = chosen.strip() if isinstance(chosen, str) else chosen
    if isinstance(chosen, Path) or "://" not in chosen:
        return _file(Path(chosen))
    try:
        url = make_url(chosen)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            "The store's URL cannot be read.", hint="It looks like postgresql://user@host/name."
        ) from error
    if url.drivername.partition("+")[0] in ("postgresql", "postgres"):
        return Target(url.set(drivername="postgresql+psycopg"), None)
    if url.drivername == "sqlite" and url.database:
        return _file(Path(url.database))
    raise StoreError(
        f"A store cannot live in {url.drivername!r}.", hint="Name a file (SQLite) or a URL that starts postgresql://."
    )


def missing_file(target: str | Path | None) -> Path | None:
    """The file of a store that the caller or $ZOOLENS_STORE names and that is not there. The user's own store is never
    missing: it is made at its first use."""
    if target is None and not os.environ.get(STORE_VARIABLE):
        return None
    path = resolve(target).path
    return path if path is not None and not path.exists() else None


def refuse_missing(target: str | Path | None) -> None:
    """Raise StoreError where a store is named and is not there; for those who only read."""
    path = missing_file(target)
    if path is None:
        return
    where = f"{path}, which ${STORE_VARIABLE} names" if target is None else str(path)
    raise StoreError(f"There is no store at {where}.", hint="Check the name; `zoolens eval` makes a new store.")


def _file(path: Path) -> Target:
    path = path.expanduser().absolute()
    return Target(URL.create("sqlite", database=str(path)), path)


def make_engine(target: Target, patience: float) -> Engine:
    if target.path is not None:
        return _sqlite(target, target.path, patience)
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


def _sqlite(target: Target, path: Path, patience: float) -> Engine:
    if path.is_dir():
        raise StoreError(f"The store {path} is a folder.", hint=f"Name a file, such as {path / 'store.sqlite'}.")
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
        target.url,
        connect_args={"timeout": min(patience, BUSY_SECONDS)},
        json_serializer=to_json,
        pool_pre_ping=True,
        max_overflow=32,
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def is_read_only(path: Path) -> bool:
    """Whether a store is there that cannot be written: SQLite needs to write in its folder as well."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def read_only_engine(path: Path) -> Engine:
    """An engine that writes nothing, for a store on a medium that cannot be written or is full.

    Even to read, SQLite wants to create a file beside a database with a write-ahead log, unless it is told that the
    database never changes. What such a log holds would then be overlooked, so that both are copied first.
    """
    log = path.with_name(f"{path.name}-wal")
    folder: tempfile.TemporaryDirectory[str] | None = None
    if log.exists() and log.stat().st_size:
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
    """Not BEGIN IMMEDIATE, which would fail before the statement does that says what cannot be written."""
    connection.exec_driver_sql("BEGIN")


def _refuse_other_file(path: Path) -> None:
    """SQLite takes any file of a few bytes for an empty database, and would write over it."""
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


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves: the driver's own would not cover DDL
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL: with WAL, NORMAL may forget the last commits when the power fails. What a user has seen finished must stay
    # finished, and a commit is rare (one a part or stage), so its one fsync is cheap against the work it records.
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    how = connection.get_execution_options().get(BEGIN, "BEGIN")
    if how:
        connection.exec_driver_sql(how)
