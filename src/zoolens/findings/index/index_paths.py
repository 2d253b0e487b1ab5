"""Where a store's index files lie, and which models were taken out of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from zoolens.base.paths import cache_dir, data_dir, replaced_file
from zoolens.base.store.records import fingerprint


class StoreIdentity(Protocol):
    """A store, open or not (`StoreState`): the id that it carries, and its place."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...


def index_path(store: StoreIdentity, task: str, dataset: str) -> Path:
    """The file of signatures. It may be deleted at any time: everything in it is in the store."""
    return cache_dir() / "index" / _folder(store) / f"{task}-{dataset[:12]}.zli"


def forget_answers(store: StoreIdentity) -> None:
    """Delete all index files of a store. One that cannot be deleted stays."""
    for path in runs_path(store).parent.glob("*.zli"):
        with suppress(OSError):
            path.unlink()


def forget_index(store: StoreIdentity) -> None:
    """Delete everything that was kept of a store's index, for a store that is itself deleted."""
    shutil.rmtree(runs_path(store).parent, ignore_errors=True)


def runs_path(store: StoreIdentity) -> Path:
    """The file of summaries of all runs."""
    return cache_dir() / "index" / _folder(store) / "runs.zla"


def rows_path(store: StoreIdentity, task: str, dataset: str) -> Path:
    """The file of rows of measured models, for one task and one probe dataset."""
    return cache_dir() / "index" / _folder(store) / f"rows-{task}-{dataset[:12] or 'none'}.zla"


def snapshot_path(store: StoreIdentity, task: str, data: str | None) -> Path:
    """The file of the whole index, as the last query over this data saw it."""
    return cache_dir() / "index" / _folder(store) / f"index-{fingerprint([task, data])[:16]}.zla"


def files_path(store: StoreIdentity) -> Path:
    """The file that remembers which model files have changed."""
    return cache_dir() / "index" / _folder(store) / "files.json"


def _folder(store: StoreIdentity) -> str:
    """The folder is named by the store's id and its place: a copy may hold other facts under the same id."""
    return fingerprint([store.id, store.name])[:16]


# --- what a user took out: a decision, and so among the data that are kept


def removed_models(store: StoreIdentity) -> frozenset[str]:
    """Fingerprints of models that are not to be found by queries, though the store knows them."""
    try:
        models = json.loads(_removed_path(store).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return frozenset()
    return frozenset(map(str, models)) if isinstance(models, list) else frozenset()


def set_removed(store: StoreIdentity, models: Collection[str]) -> None:
    with replaced_file(_removed_path(store)) as file:
        file.write(json.dumps(sorted(models)).encode())


def _removed_path(store: StoreIdentity) -> Path:
    return data_dir() / "index" / _folder(store) / "removed.json"
