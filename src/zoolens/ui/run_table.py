"""What every run of the store is about, in memory: read once, then only what changed.

A hundred thousand runs take about 50 MB. Every filter of a page looks here instead of asking the database.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from zoolens.store.state import Newest
from zoolens.store.store import Store
from zoolens.store.summaries import RunSummary

_REST: Final = 0.5  # seconds between two looks at the store: a page asks several things at once


@dataclass(frozen=True, eq=False)
class Runs:
    """All runs, of every kind, oldest first. `version` is another one after every change; `names` are all names of each
    model, by its fingerprint."""

    version: int
    ordered: Sequence[RunSummary]
    by_id: Mapping[str, RunSummary]
    names: Mapping[str, frozenset[str]]


class RunTable:
    """`runs()` is up to date within half a second; threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store, self._lock = store, threading.Lock()
        self._newest: Newest | None = None
        self._mark = 0
        self._looked = 0.0
        self._runs = Runs(0, (), {}, {})

    def runs(self) -> Runs:
        with self._lock:
            if self._newest is None or time.monotonic() - self._looked > _REST:
                self._update()
                self._looked = time.monotonic()
            return self._runs

    def _update(self) -> None:
        newest = self._store.newest()
        if newest == self._newest:
            return
        if self._newest is None or not self._store.continues(self._newest):
            self._mark, _ = self._store.changed_since(newest.change)
            by_id = {run.id: run for run in self._store.run_summaries()}
        else:
            self._mark, changed = self._store.changed_since(self._mark)
            by_id = dict(self._runs.by_id)
            by_id.update((run.id, run) for run in self._store.run_summaries(changed))
        self._newest = newest
        self._runs = Runs(self._runs.version + 1, sorted(by_id.values()), by_id, self._names())

    def _names(self) -> dict[str, frozenset[str]]:
        names: dict[str, set[str]] = {}
        for name, fingerprint in self._store.model_names():
            names.setdefault(fingerprint, set()).add(name)
        return {fingerprint: frozenset(known) for fingerprint, known in names.items()}
