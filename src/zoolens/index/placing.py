"""Where a store's index files lie, which models were taken out of them, and whether the store has changed."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sqlalchemy import Connection, func, select

from zoolens.paths import cache_dir, data_dir
from zoolens.store import schema
from zoolens.store.records import fingerprint
from zoolens.store.store import Store


def index_path(store: Store, task: str, dataset: str) -> Path:
    """May be deleted at any time: everything in it is in the store."""
    return cache_dir() / "index" / _folder(store) / f"{task}-{dataset[:12]}.zli"


def runs_path(store: Store) -> Path:
    """Summaries of all runs."""
    return cache_dir() / "index" / _folder(store) / "runs.jsonl"


def rows_path(store: Store, task: str, dataset: str) -> Path:
    """Rows of measured models, with their answers to one dataset."""
    return cache_dir() / "index" / _folder(store) / f"rows-{task}-{dataset[:12] or 'none'}.jsonl"


def _folder(store: Store) -> str:
    """By the id that the database carries, and by its place: a copy may hold other facts under the same id."""
    return fingerprint([store.read(_store_id), store.name])[:16]


def _store_id(connection: Connection) -> str:
    query = select(schema.about.c.value).where(schema.about.c.key == "store_id")
    return str(connection.execute(query).scalar_one())


def store_state(store: Store) -> tuple[Any, ...]:
    """Another value whenever something was added to the store, or a stored model was evaluated again."""

    newest = select(func.max(schema.changes.c.seq)).scalar_subquery()
    last = store.read(lambda connection: connection.execute(select(newest)).scalar())
    return store.read(_store_id), last


# --- what a user took out: a decision, and so among the data that are kept


def removed_models(store: Store) -> frozenset[str]:
    """Fingerprints of models that are not to be found by queries, though the store knows them."""
    try:
        found = json.loads(_removed_path(store).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def set_removed(store: Store, models: Collection[str]) -> None:
    path = _removed_path(store)
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, delete=False, encoding="utf-8") as file:
        json.dump(sorted(models), file)
    Path(file.name).replace(path)


def _removed_path(store: Store) -> Path:
    return data_dir() / "index" / _folder(store) / "removed.json"
