"""A glance at a store: how many runs, and the newest. For a command that has to answer at once.

SQLAlchemy takes half a second to import, so that this reads the SQLite file by itself, and never writes. What it does
not understand, such as a store of an older version, is left to the store proper.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

_PATIENCE: Final = 0.2  # seconds
_COUNT: Final = "SELECT count(*) FROM runs WHERE kind = 'evaluation'"
_NEWEST: Final = """
    SELECT runs.id, models.ref, stacks.runtime, datasets.name, runs.created FROM runs
    JOIN models ON models.fingerprint = runs.model
    JOIN stacks ON stacks.fingerprint = runs.stack
    JOIN datasets ON datasets.fingerprint = runs.dataset
    WHERE runs.kind = 'evaluation' ORDER BY runs.seq DESC LIMIT ?
"""
_MODELS: Final = "SELECT DISTINCT ref FROM models LIMIT ?"


@dataclass(frozen=True)
class SeenRun:
    id: str
    model: str
    runtime: str
    dataset: str
    created: str  # in UTC, as the store writes it


@dataclass(frozen=True)
class Glance:
    runs: int
    newest: tuple[SeenRun, ...]


def glance(path: Path, newest: int) -> Glance | None:
    """What the SQLite store at `path`, which must be there, holds. None: it cannot be told without opening it."""
    try:
        with closing(_opened(path)) as connection:
            (runs,) = connection.execute(_COUNT).fetchone()
            rows = connection.execute(_NEWEST, (newest,)).fetchall()
    except sqlite3.Error:
        return None
    return Glance(runs, tuple(SeenRun(*map(str, row)) for row in rows))


def measured_models(path: Path, most: int) -> list[str]:
    """References of models that the store has facts of; none where it cannot be told without opening it."""
    try:
        with closing(_opened(path)) as connection:
            return [str(ref) for (ref,) in connection.execute(_MODELS, (most,))]
    except sqlite3.Error:
        return []


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", timeout=_PATIENCE, uri=True)
