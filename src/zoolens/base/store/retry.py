"""Patience: a server that restarts or a database that is locked costs time, not results.

Every action the store hands over here may safely run twice: all its writes are idempotent.
"""

from __future__ import annotations

import logging
import math
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from zoolens.base.errors import DamagedStore, StoreError

T = TypeVar("T")

logger = logging.getLogger("zoolens.store")

PATIENCE_VARIABLE: Final = "ZOOLENS_STORE_PATIENCE"
DEFAULT_PATIENCE: Final = 60.0
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0

# connection lost, server stopping or starting, too many connections, serialisation failure, deadlock, a lock of others
_TRANSIENT_SQLSTATES: Final = ("08", "57P01", "57P02", "57P03", "53300", "40001", "40P01", "55P03")
_CORRUPTED: Final = ("XX001", "XX002")  # a table's page, an index
# libpq reports a refused connection by message only, without a code
_LASTING: Final = ("authentication failed", "does not exist", "no password supplied", "pg_hba.conf", "resolve host")


class Unavailable(Exception):
    """A place that cannot be used at the moment; trying again may help."""


def patience() -> float:
    """Seconds to keep trying, from ZOOLENS_STORE_PATIENCE."""
    text = os.environ.get(PATIENCE_VARIABLE)
    if text is None:
        return DEFAULT_PATIENCE
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise StoreError(
            f"{PATIENCE_VARIABLE} is {text!r}, which is not a number of seconds.",
            hint="Set it to, say, 60, or unset it.",
        )
    return seconds


def is_transient(error: Exception) -> bool:
    """Whether trying again may help."""
    if isinstance(error, PoolTimeout | Unavailable):
        return True
    if not isinstance(error, DBAPIError):
        return False
    original = error.orig
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", 0) & 0xFF
        return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    sqlstate = getattr(original, "sqlstate", None)
    if sqlstate is not None:
        return str(sqlstate).startswith(_TRANSIENT_SQLSTATES)
    if error.connection_invalidated:
        return True
    return isinstance(error, OperationalError) and not any(text in str(original) for text in _LASTING)


def is_unwritable(error: BaseException | None) -> bool:
    """Whether SQLite failed for want of room or of the right to write, so that reading alone may still work."""
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


_most: ContextVar[float] = ContextVar("zoolens_patience", default=math.inf)


@contextmanager
def patience_at_most(seconds: float) -> Iterator[None]:
    """Within it, nobody waits longer than that for a store: whoever asks would be gone."""
    before = _most.set(seconds)
    try:
        yield
    finally:
        _most.reset(before)


def with_patience(action: Callable[[], T], store: str, seconds: float) -> T:
    """The result of `action`, tried again while the trouble may pass; then a StoreError that says what happened."""
    seconds = min(seconds, _most.get())
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE
    warned = False
    while True:
        try:
            return action()
        except UnicodeDecodeError as error:
            # SQLite keeps any bytes in a column of text.
            raise damaged(store, f"a text in it is not UTF-8 ({error.reason})") from error
        except (DBAPIError, PoolTimeout, Unavailable) as error:
            left = deadline - time.monotonic()
            if not is_transient(error):
                raise _explained(error, store) from error
            if left <= 0:
                raise StoreError(
                    f"The store {store} has been unavailable for {seconds:g} s: {reason(error)}.",
                    hint="Nothing that was stored is lost: run the same command again when the store is back.",
                ) from error
            if not warned:
                logger.warning("The store %s is unavailable (%s); trying for up to %.0f s.", store, reason(error), left)
                warned = True
        # jitter keeps processes that wait for the same lock from colliding again
        time.sleep(min(pause * random.uniform(0.5, 1.0), max(left, 0.0)))  # noqa: S311
        pause = min(2 * pause, LONGEST_PAUSE)


def reason(error: Exception) -> str:
    """The first line of what the database itself said."""
    original = getattr(error, "orig", None) or error
    lines = [line.strip() for line in str(original).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:300] if lines else type(original).__name__


def damaged(store: str, what: str) -> DamagedStore:
    return DamagedStore(
        f"The store {store} is damaged: {what.rstrip('.')}.",
        hint="`zoolens store check` lists all damage; restore it from a backup, or move it away to begin a new one. "
        "It was not altered.",
    )


def _explained(error: Exception, store: str) -> StoreError:
    original = getattr(error, "orig", None)
    if isinstance(original, sqlite3.Error):
        if "decode to UTF-8" in str(original):
            return damaged(store, reason(error))
        code = getattr(original, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return StoreError(f"{store} is not a zoolens store.", hint="Name another file; this one was not altered.")
        if code == sqlite3.SQLITE_CORRUPT:
            return damaged(store, reason(error))
        if code == sqlite3.SQLITE_FULL:
            return StoreError(f"There is no room left for the store {store}.", hint="Free some disk space.")
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return StoreError(
                f"The store {store} cannot be opened for writing: {reason(error)}.",
                hint="Check that its file and its folder are yours to write, or set ZOOLENS_STORE to another place.",
            )
    if getattr(original, "sqlstate", None) in _CORRUPTED:
        return damaged(store, reason(error))
    return StoreError(
        f"The store {store} cannot be used: {reason(error)}.", hint="Check ZOOLENS_STORE and the database."
    )
