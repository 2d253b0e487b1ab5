"""A database that is opened, read and written with patience: a busy one is tried again, damage is one sentence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.checksums import DamagedRow
from zoolens.base.store.engines import BEGIN, make_engine, read_only_engine
from zoolens.base.store.opening import hold_schema, make_ready, refuse_other_schema
from zoolens.base.store.retry import damaged, is_transient, is_unwritable, patience, with_patience
from zoolens.base.store.target import Target

OPENING_PATIENCE: Final = 10.0  # a mistyped host should not cost a minute

T = TypeVar("T")


class Database:
    """Close it, or use it as a context manager."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self._patience = patience()
        self._engine = make_engine(target, self._patience)
        self._must_exist = target.must_exist and target.path is None
        try:
            # The database carries its id, wherever it lies.
            self.id = self._make_ready()
        except StoreError as error:
            self._engine.dispose()
            if target.path is None or not is_unwritable(error.__cause__):
                raise
            self._engine = read_only_engine(target.path)  # on a full disk one may still look at what there is
            self.id = self._make_ready()
        except BaseException:
            self._engine.dispose()
            raise
        self._writing = self._engine.execution_options(**{BEGIN: "BEGIN IMMEDIATE"})

    def _make_ready(self) -> str:
        patience = min(self._patience, OPENING_PATIENCE)
        return with_patience(lambda: make_ready(self._engine, self.name, self._must_exist), self.name, patience)

    @property
    def engine(self) -> Engine:
        """For queries of your own. Writing through it may break what the store promises."""
        return self._engine

    @property
    def orders_changes(self) -> bool:
        """Whether changes become visible in the order in which they are numbered, as in SQLite. In PostgreSQL a change
        may become visible after a later one did."""
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Let go of the database. Calling it twice is fine."""
        self._engine.dispose()

    def reconnect(self) -> None:
        """Closes pooled connections, so that the next read does not use SQLite's cached pages."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, action: Callable[[Connection], T]) -> T:
        """For queries of your own: tried again while the database is busy, and what is damaged is a sentence."""

        def once() -> T:
            with self._engine.begin() as connection:
                result = action(connection)
                # Afterwards: whoever migrates the store may do so while we read.
                refuse_other_schema(connection, self.name)
                return result

        return self._with(once)

    def read_at_once(self, action: Callable[[Connection], T]) -> T:
        """Does what `read` does, for several queries whose answers are held against each other: all of them see the
        store at one moment. In PostgreSQL each would otherwise see what others have written since the one before."""
        if self._engine.dialect.name == "sqlite":
            # A transaction of SQLite is like that anyhow.
            return self.read(action)

        def once() -> T:
            with self._engine.execution_options(isolation_level="REPEATABLE READ").begin() as connection:
                result = action(connection)
            # In a transaction of its own: that one would not see that somebody has migrated the store meanwhile.
            with self._engine.begin() as connection:
                refuse_other_schema(connection, self.name)
            return result

        return self._with(once)

    def _write(self, action: Callable[[Connection], T]) -> T:
        def once() -> T:
            with self._writing.begin() as connection:
                hold_schema(connection, self.name)
                return action(connection)

        return self._with(once)

    def _with(self, transaction: Callable[[], T]) -> T:
        def once() -> T:
            try:
                return transaction()
            except (DBAPIError, DamagedRow, ValueError, TypeError, LookupError) as error:
                if not is_transient(error):
                    self._blame_migration()
                raise

        try:
            return with_patience(once, self.name, self._patience)
        except ZoolensError:
            raise
        except (DamagedRow, ValueError, TypeError, LookupError) as error:
            # Rows of a sound store are read without an error: a date that is none, say, was not written by us.
            raise damaged(self.name, str(error)) from error

    def _blame_migration(self) -> None:
        """Raise StoreError where a failure comes of an unknown schema: a column that is gone is no damage."""
        with suppress(DBAPIError), self._engine.connect() as connection:
            refuse_other_schema(connection, self.name)
