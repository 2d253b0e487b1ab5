"""What `zoolens index` does to the index: add and remove models, rebuild it, hold it against the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Progress
from zoolens.base.store.store import Store
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.comparisons.signatures import task_of
from zoolens.findings.index.builder import probe_data, probed_runs
from zoolens.findings.index.index import Index
from zoolens.findings.index.index_paths import index_path, removed_models, set_removed
from zoolens.findings.index.opener import build_index
from zoolens.findings.index.signatures.semantic import check_file
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.plan import Outcome
from zoolens.inventory.tasks.task import DEFAULT_TASK, task_named


@dataclass(frozen=True)
class Added:
    index: Index
    outcomes: tuple[Outcome, ...]


def add_models(
    store: Store,
    models: Sequence[str],
    *,
    probes: DataOrigin | None = None,
    runtimes: Sequence[str] = (),
    device: str = "cpu",
    progress: Progress | None = None,
) -> Added:
    """Run models over the probes once, and index what they answered. `probes`: None takes those of the index."""
    asked = probes or _probes_of(store)
    outcomes = evaluate(
        models,
        asked.data,
        limit=asked.limit,
        seed=asked.seed,
        runtimes=runtimes,
        device=device,
        batches=(),
        cold=False,
        store=store,
        progress=progress,
    )
    runs = [outcome.run for outcome in outcomes if outcome.run is not None]
    if not runs:
        reasons = "; ".join(reason for outcome in outcomes for reason in outcome.errors)
        raise ZoolensError(f"Nothing was added: {reasons or 'no model could be run'}")
    removed = removed_models(store)
    back = {stored.key.model for run in runs for stored in store.runs(model=run.ref)}
    if removed & back:
        set_removed(store, removed - back)
    index = build_index(store, data=runs[0].dataset.fingerprint, task=task_of(runs[0]), progress=progress)
    return Added(index, tuple(outcomes))


def _probes_of(store: Store) -> DataOrigin:
    """Return the dataset of the index as the evaluation named it; that of classifiers first."""
    runs = probed_runs(store, None, DEFAULT_TASK) or probed_runs(store, None, None)
    origin = runs[0].origin if runs else {}
    if not origin.get("data"):
        raise ZoolensError("The index has no probe dataset yet.", hint="Name one with --data.")
    return DataOrigin(origin["data"], origin.get("limit"), origin.get("seed"))


def remove_models(
    store: Store, names: Sequence[str], *, data: str | None = None, task: str = DEFAULT_TASK
) -> list[str]:
    """Take models out of the index, in all formats and runtimes and on all data; the references of those taken out.
    Their observations stay in the store, and adding a model again brings it back."""
    index = build_index(store, data=data, task=task)
    refs = [index.rows[index.find(name)].ref for name in names]
    set_removed(store, removed_models(store) | {row.model for row in index.rows if row.ref in refs})
    build_index(store, data=data, task=task)
    return refs


def rebuild(
    store: Store, *, data: str | None = None, task: str = DEFAULT_TASK, progress: Progress | None = None
) -> Index:
    """Delete the index file and rebuild it from the store."""
    semantic = build_index(store, data=data, task=task).semantic
    if semantic is not None:
        semantic.path.unlink(missing_ok=True)
    return build_index(store, data=data, task=task, refresh=True, progress=progress)


@dataclass(frozen=True)
class Verified:
    """`differing`: references whose indexed answers are not those of the store."""

    path: Path
    signatures: int
    differing: tuple[str, ...]


def verify(store: Store, *, data: str | None = None, task: str = DEFAULT_TASK) -> Verified:
    """Hold every signature of the index file against the store. A file that is `Damaged` is left as it is."""
    runs = probed_runs(store, data, task)
    if not runs:
        raise ZoolensError("There is no index: no model was measured yet.", hint="Run `zoolens eval` first.")
    dataset = probe_data(runs[0])
    path = index_path(store, task, dataset.fingerprint)
    if path.exists():
        check_file(path, dataset=dataset.fingerprint, probes=dataset.size, task=task)
    index = build_index(store, data=data, task=task)
    signed = [number for number, row in enumerate(index.rows) if row.signature]
    differing = [index.rows[number].ref for number in signed if not _equal(index, number)]
    assert index.semantic is not None  # there are runs
    return Verified(index.semantic.path, len(signed), tuple(differing))


def _equal(index: Index, row: int) -> bool:
    assert index.semantic is not None  # there are runs
    signature = index.signature(row)
    stored = task_named(signature.main.task).signature(signature.main)
    return np.array_equal(index.semantic.answers(index.rows[row].key), stored)
