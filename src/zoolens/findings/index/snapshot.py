"""The whole index as the last query found it, kept in a file: the next one need not open the store at all.

It holds for one state of the store and for the packages that are installed (plug-ins give rows further figures). An
index that depends on anything else is not kept.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.state import StoreState
from zoolens.findings.index.index import Index, Origin
from zoolens.findings.index.index_paths import index_path, removed_models, snapshot_path
from zoolens.findings.index.signatures.journal import Damaged
from zoolens.findings.index.signatures.semantic import SemanticIndex, open_semantic
from zoolens.findings.index.tables.array_file import read_arrays, write_arrays
from zoolens.findings.index.tables.row_table import table_from

if TYPE_CHECKING:
    from zoolens.base.store.store import Store


def read_snapshot(
    state: StoreState,
    data: str | None,
    task: str,
    memory: int,
    *,
    store: Callable[[], Store],
    say: Callable[[str], None],
) -> Index | None:
    """The index of a store in this state; None where it has to be built. `say` is told of damage that costs time."""
    kept = read_arrays(snapshot_path(state, task, data), _about(state))
    if kept is None:
        return None
    rows = table_from(kept.arrays)
    dataset = DatasetRecord(**kept.details["dataset"])
    semantic = None
    if kept.details["room"] is not None:
        room = min(memory, int(kept.details["room"]))
        semantic = _semantic(state, dataset, task, kept.details.get("labels"), room, say)
        if semantic is None or not set(rows.columns["key"].take(np.flatnonzero(rows.signed)).values) <= set(
            semantic.keys
        ):
            return None
    classes = [kept.arrays[name] for name in ("class_names", "class_widths") if name in kept.arrays]
    return Index(
        rows,
        dataset=dataset,
        semantic=semantic,
        classes=classes,
        origin=Origin(store, state),
        memory=memory,
        notes=kept.details["notes"],
    )


def _semantic(
    state: StoreState, dataset: DatasetRecord, task: str, labels: bool | None, room: int, say: Callable[[str], None]
) -> SemanticIndex | None:
    path = index_path(state, task, dataset.fingerprint)
    if not path.exists():
        return None
    try:
        about: dict[str, Any] = {"dataset": dataset.fingerprint, "probes": dataset.size, "task": task, "labels": labels}
        return open_semantic(path, **about, memory=room, say=say)
    except (Damaged, OSError):
        return None


def write_snapshot(index: Index, state: StoreState, data: str | None, task: str) -> None:
    named = dict(zip(("class_names", "class_widths"), index.classes, strict=False))
    details: dict[str, Any] = {
        "dataset": {**vars(index.dataset), "details": dict(index.dataset.details)},
        "notes": index.notes,
        "room": None if index.semantic is None else index.semantic.memory,
        "labels": None if index.semantic is None else index.semantic.labels,
    }
    write_arrays(snapshot_path(state, task, data), _about(state), details, {**index.rows.arrays(), **named})


def _about(state: StoreState) -> dict[str, Any]:
    removed = hashlib.sha256("\n".join(sorted(removed_models(state))).encode()).hexdigest()
    return {"store": state.id, "newest": list(state.newest), "removed": removed, "packages": _installed_packages()}


def _installed_packages() -> str:
    """A digest of which distributions are installed where, and since when: their entry points are plug-ins. Asking
    importlib for entry points takes a tenth of a second, this takes a hundredth."""
    stamps = []
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                stamps += [
                    f"{entry.path} {entry.stat(follow_symlinks=False).st_mtime_ns}"
                    for entry in entries
                    if entry.name.endswith((".dist-info", ".egg-info"))
                ]
        except OSError:
            continue
    return hashlib.sha256("\n".join(sorted(stamps)).encode()).hexdigest()
