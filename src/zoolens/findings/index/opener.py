"""The index of a store: as it was where nothing has changed since, else built.

index = zoolens.build_index(data="demo")
index.rows[index.find("lenet-wide")], index.semantic.nearest(...)
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zoolens.base.progress import Progress, Silent
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.state import StoreState, state_of_file
from zoolens.base.store.target import resolve
from zoolens.findings.index.index import Index
from zoolens.findings.index.index_paths import removed_models
from zoolens.findings.index.signatures.memory import memory_budget
from zoolens.findings.index.snapshot import read_snapshot, write_snapshot
from zoolens.inventory.tasks.task import DEFAULT_TASK

if TYPE_CHECKING:
    from zoolens.base.store.store import Store

_log = logging.getLogger("zoolens.index")
_RECENT: Final = 4


@dataclass(frozen=True)
class _Kept:
    state: tuple[Any, ...]
    index: Index


_recent: RecentValues[tuple[Any, ...], _Kept] = RecentValues(_RECENT)


def build_index(
    store: Store | str | Path | None = None,
    *,
    data: str | None = None,
    task: str = DEFAULT_TASK,
    refresh: bool = False,
    progress: Progress | None = None,
    memory: int | None = None,
) -> Index:
    """The index of everything that the store knows of a task, over the answers to one dataset.

    `data`: the probe dataset, by a pattern on its name; None: the one that most models were measured on. `refresh`:
    read the structure of models that have none yet. `memory`: bytes, else $ZOOLENS_INDEX_MB megabytes, else 20 MB.
    An unchanged SQLite store gives the same object again.
    """
    watcher, budget = progress or _Logged(), memory_budget(memory)
    state = None if refresh else _state(store)
    if state is not None and (kept := _as_it_was(store, state, data, task, budget, watcher)) is not None:
        return kept

    from zoolens.base.store.store import borrowed_store
    from zoolens.findings.comparisons.signatures import probe_runs
    from zoolens.findings.index.builder import build
    from zoolens.findings.index.sources.structures import read_structures

    with borrowed_store(store, must_exist=True) as opened:
        if refresh:
            read_structures(opened, probe_runs(opened, data=data, task=task), progress)
        state = _state(opened)
        removed = removed_models(opened)
        index = build(opened, state, data, task, removed, budget, watcher)
        if state is not None and not index.rows.columns["fleeting"].values:
            _recent.put((state.name, data, task, budget), _Kept((state, removed), index))
            if index.lasts:
                write_snapshot(index, state, data, task)
        return index


def _state(store: Store | str | Path | None) -> StoreState | None:
    """The state of a store. None where it cannot be known without opening the store, or cannot be relied on: in
    PostgreSQL a change may become visible after a later one did."""
    if store is None or isinstance(store, str | Path):
        path = resolve(store).path
        return None if path is None else state_of_file(path)
    if not store.orders_changes:
        return None
    return StoreState(store.id, store.name, store.newest())


def _as_it_was(
    store: Store | str | Path | None,
    state: StoreState,
    data: str | None,
    task: str,
    budget: int,
    watcher: Progress,
) -> Index | None:
    key, known = (state.name, data, task, budget), (state, removed_models(state))
    recent = _recent.get(key)
    if recent is not None and recent.state == known:
        return recent.index
    index = read_snapshot(state, data, task, budget, store=lambda: _opened(store, state), say=watcher.say)
    if index is not None:
        _recent.put(key, _Kept(known, index))
    return index


def _opened(store: Store | str | Path | None, state: StoreState) -> Store:
    """The store that the index is of: the working folder and $ZOOLENS_STORE may be others by now."""
    from zoolens.base.store.store import Store, open_store

    return store if isinstance(store, Store) else open_store(Path(state.name), must_exist=True)


class _Logged(Silent):
    """Logs messages where no progress display is given, so that a rebuilt file is still reported."""

    def say(self, text: str) -> None:
        _log.warning(text)
