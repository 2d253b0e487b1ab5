"""Whether a store has changed, found without opening it: SQLAlchemy alone takes half a second to import."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

# Of the schema, oldest first, as in `migrations/versions`.
REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
HEAD: Final = REVISIONS[-1]
VERSION_TABLE: Final = "zoolens_version"
_QUICK: Final = 1.0  # seconds: who would have to wait longer opens the store, which is patient


class Newest(NamedTuple):
    """The newest change, run and observation of a store: their numbers (0: there is none yet), and what never changes
    of each. A store that was restored from a backup and written to again may have as many changes as before; the
    checksum of an observation, which covers its time, tells the two apart. `recent`: how many of the last changes are
    visible. In PostgreSQL one may become visible after a later one did."""

    change: int = 0
    changed_run: str | None = None
    run: int = 0
    run_id: str | None = None
    observation: int = 0
    checksum: int | None = None
    recent: int = 0


CHANGES_AGAIN: Final = 1_000  # changes that may become visible in another order than they are numbered
NEWEST: Final = f"""
    SELECT (SELECT coalesce(max(seq), 0) FROM changes), (SELECT run_id FROM changes ORDER BY seq DESC LIMIT 1),
           (SELECT coalesce(max(seq), 0) FROM runs), (SELECT id FROM runs ORDER BY seq DESC LIMIT 1),
           (SELECT coalesce(max(seq), 0) FROM observations),
           (SELECT checksum FROM observations ORDER BY seq DESC LIMIT 1),
           (SELECT count(*) FROM changes WHERE seq > (SELECT max(seq) FROM changes) - {CHANGES_AGAIN})
"""  # noqa: S608 - our constant


@dataclass(frozen=True)
class StoreState:
    """`id`: what the database says of itself, wherever it lies."""

    id: str
    name: str
    newest: Newest


def is_read_only(path: Path) -> bool:
    """Whether a store is there that cannot be written: SQLite needs to write in its folder as well."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def unwritten_log(path: Path) -> Path | None:
    """The write-ahead log of a store, where it holds anything."""
    log = path.with_name(f"{path.name}-wal")
    return log if log.exists() and log.stat().st_size else None


def state_of_file(path: Path) -> StoreState | None:
    """The state of an SQLite store of today's schema. None: it must be opened to know it, or to say what is wrong."""
    if not path.is_file():
        return None
    try:
        if not is_read_only(path):
            # Who may only read leaves SQLite's files beside the store, where they shut others out.
            how = "mode=rw"
        elif unwritten_log(path) is None:
            how = "immutable=1"
        else:
            return None
        with closing(sqlite3.connect(f"{path.as_uri()}?{how}", uri=True, timeout=_QUICK)) as database:
            version = database.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 - our constant
            if version != (HEAD,):
                return None
            (store_id,) = database.execute("SELECT value FROM about WHERE key = 'store_id'").fetchone()
            newest: tuple[Any, ...] = database.execute(NEWEST).fetchone()
            return StoreState(str(store_id), str(path), Newest(*newest))
    except (OSError, sqlite3.Error, TypeError, ValueError):
        return None
