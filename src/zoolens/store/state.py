"""Whether a store has changed, told without opening it: SQLAlchemy alone takes half a second to import."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REVISIONS: Final = ("0001", "0002")  # of the schema, oldest first, as in `migrations/versions`
HEAD: Final = REVISIONS[-1]
VERSION_TABLE: Final = "zoolens_version"
_QUICK: Final = 1.0  # seconds: who would have to wait longer opens the store, which is patient


@dataclass(frozen=True)
class StoreState:
    """`id`: what the database says of itself, wherever it lies. `last_change`: the number of its newest change, 0 where
    there is none yet."""

    id: str
    name: str
    last_change: int


def state_of_file(path: Path) -> StoreState | None:
    """Of an SQLite store of today's schema. None: it has to be opened to know, or to say what is wrong with it."""
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=_QUICK)) as database:
            version = database.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()  # noqa: S608 - our constant
            if version != (HEAD,):
                return None
            (store_id,) = database.execute("SELECT value FROM about WHERE key = 'store_id'").fetchone()
            (newest,) = database.execute("SELECT max(seq) FROM changes").fetchone()
            return StoreState(str(store_id), str(path), int(newest or 0))
    except (sqlite3.Error, TypeError, ValueError):
        return None
