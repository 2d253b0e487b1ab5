"""What every endpoint gets: the store, what is kept of it in memory, and the jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zoolens.store.store import Store, open_store
from zoolens.ui.model_index import ModelIndex
from zoolens.ui.run_table import RunTable
from zoolens.ui.settings import Settings
from zoolens.ui.zoo_listing import ZooListing


@dataclass(frozen=True)
class Context:
    """Threads share it. `runs.runs()` and `models.models()` look up what changed by themselves."""

    settings: Settings
    store: Store
    runs: RunTable
    models: ModelIndex


@contextmanager
def open_context(settings: Settings) -> Iterator[Context]:
    """Open the store, and begin to list the zoos."""
    with open_store(settings.store, must_exist=True) as store, ZooListing() as zoos:
        table = RunTable(store)
        yield Context(settings, store, table, ModelIndex(table, zoos))
