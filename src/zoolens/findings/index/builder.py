"""Building the index that queries search, from the one store.

Of the rows only those are worked out that something new is known of; of the signatures only those are read that are not
in the index file yet. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import StoreError, UnknownName
from zoolens.base.progress import Progress
from zoolens.base.store.records import DatasetRecord, Part, Run, RunKind
from zoolens.base.store.state import StoreState
from zoolens.base.store.store import RUNS_AT_ONCE, Store
from zoolens.findings.comparisons.signatures import Signature, default_dataset, probe_runs, signature_of
from zoolens.findings.index.index import Index, Origin
from zoolens.findings.index.index_paths import index_path, rows_path
from zoolens.findings.index.signatures.semantic import SemanticIndex, open_semantic
from zoolens.findings.index.signatures.synchronisation import SignatureSource, synchronise
from zoolens.findings.index.sources.class_spaces import ClassSpaces
from zoolens.findings.index.sources.latency_estimates import latency_estimates
from zoolens.findings.index.sources.replaced_contents import current_rows
from zoolens.findings.index.sources.resources import installed_resources, with_resources
from zoolens.findings.index.sources.row_builder import rows_from
from zoolens.findings.index.sources.row_cache import RecordedSpace, recorded_spaces
from zoolens.findings.index.sources.run_table import chosen_probes, run_table
from zoolens.findings.index.tables.row_table import RowTable
from zoolens.findings.measure.answers import ANSWERING_STAGES
from zoolens.findings.measure.class_order import JUDGED_WRONGLY
from zoolens.findings.measure.predictions import KIND, renumbered
from zoolens.inventory.catalog.names import is_pattern
from zoolens.inventory.tasks.task import DEFAULT_TASK

_NAMED: Final = 3  # datasets that a note names
_RANKED: Final = 16  # bytes a row that a ranking takes, roughly
_COLUMNS: Final = 8  # of figures that are at hand together, roughly


def probed_runs(store: Store, data: str | None, task: str | None) -> list[Run]:
    """The runs (None: of any task) on one dataset: the one with most models, then most inputs, then the newest."""
    return store.runs_of(_probes(store, data, task))


def _probes(store: Store, data: str | None, task: str | None, watcher: Progress | None = None) -> list[str]:
    if data is None:
        return chosen_probes(run_table(store, watcher).table, task)
    runs = probe_runs(store, data=data, task=task)
    runs = runs or probe_runs(store, data=data, task=task, kind=RunKind.TRAINING)  # of what was trained on these data
    if not runs:
        known = {run.dataset.name for run in probe_runs(store, task=task)}
        raise UnknownName("dataset with measured models", data, known)
    chosen = default_dataset(runs)
    return [run.id for run in runs if run.key.dataset == chosen]


def probe_data(run: Run) -> DatasetRecord:
    """The data of a run, with the number of inputs that it answered."""
    return replace(run.dataset, size=run.inputs)


def build(
    store: Store,
    state: StoreState | None,
    data: str | None,
    task: str,
    removed: frozenset[str],
    memory: int,
    watcher: Progress,
) -> Index:
    """Build an index. `state` is the store's state where it is known; `removed` are models that a user took out."""
    probes = _probes(store, data, task, watcher)
    dataset = probe_data(store.run(probes[0])) if probes else None
    rows = _rows(store, probes, task, "" if dataset is None else dataset.fingerprint, watcher)
    current, notes = current_rows(store, rows)
    rows = rows.where(current & ~rows.columns["model"].rows_among(removed))
    lasts = not installed_resources() and not rows.columns["fleeting"].values
    if dataset is None:
        which = "model" if task == DEFAULT_TASK else f"model of the task {task}"
        notes = [f"No {which} was measured yet."]
        return Index(rows, origin=Origin(lambda: store, state, lasts), memory=memory, notes=notes)
    room = max(memory // 4, memory - len(rows) * (_RANKED + 8 * min(_COLUMNS, len(rows.figures.names))))
    semantic, missing = _semantic(store, rows, dataset, task, room, watcher)
    notes = [*missing, *notes, *_notes(rows, dataset), *_said_of_pattern(store, data, task, dataset)]
    signed = replace(rows, signed=rows.signed & rows.columns["key"].rows_among(semantic.keys))
    origin = Origin(lambda: store, state, lasts and not missing)
    return Index(
        signed,
        dataset=dataset,
        semantic=semantic,
        classes=_classes(signed),
        origin=origin,
        memory=memory,
        notes=notes,
    )


def _rows(store: Store, probes: Sequence[str], task: str, dataset: str, watcher: Progress) -> RowTable:
    cache = rows_path(store, task, dataset)
    rows = rows_from(store, probes, estimators=[latency_estimates], cache=cache, watcher=watcher)
    tasks = rows.attribute("task")
    return with_resources(rows.where((tasks.codes < 0) | tasks.rows_among([task])))


def _notes(rows: RowTable, dataset: DatasetRecord) -> list[str]:
    notes = []
    if "#" in dataset.name:
        notes.append(f"Several datasets have this name; this is {dataset.name}, and `zoolens runs` lists the others.")
    spaces = recorded_spaces(rows)
    unnamed = dict.fromkeys(space.problem for space in spaces if space.problem)
    notes += [f"{problem} Its classes are taken in the dataset's order." for problem in unnamed]
    misjudged = rows.columns["ref"].take(
        np.flatnonzero(rows.columns["space"].rows_where([space.misjudged for space in spaces]))
    )
    return notes + [
        f"{ref} has no accuracy here: {JUDGED_WRONGLY}. `zoolens eval` measures it again." for ref in misjudged.values
    ]


def _said_of_pattern(store: Store, data: str | None, task: str, dataset: DatasetRecord) -> list[str]:
    """Which of the datasets that a pattern fits was taken."""
    if data is None or not is_pattern(data, "*?"):
        return []
    names = sorted({run.dataset.name for run in probe_runs(store, data=data, task=task)} - {dataset.name})
    if not names:
        return []
    more = ", …" if len(names) > _NAMED else ""
    return [f"{data} also fits {', '.join(names[:_NAMED])}{more}; {dataset.name} is the one with the most models."]


def _classes(rows: RowTable) -> list[NDArray[np.int64]]:
    """For each row, a number for its class names and one for its class count; −1 means unknown."""
    spaces, codes = [*recorded_spaces(rows), RecordedSpace()], rows.columns["space"].codes  # code −1 takes the last
    kinds: list[Callable[[RecordedSpace], object]] = [lambda space: space.name, lambda space: space.width]
    return [_numbered([kind(space) for space in spaces])[codes] for kind in kinds]


def _numbered(values: Sequence[object]) -> NDArray[np.int64]:
    """Number the values so that equal values have equal numbers; −1 means unknown."""
    numbers: dict[object, int] = {None: -1}
    for value in values:
        numbers.setdefault(value, len(numbers))
    return np.array([numbers[value] for value in values], np.int64)


def _semantic(
    store: Store, rows: RowTable, dataset: DatasetRecord, task: str, memory: int, watcher: Progress
) -> tuple[SemanticIndex, list[str]]:
    def opened(path: Path | None) -> SemanticIndex:
        return open_semantic(
            path, dataset=dataset.fingerprint, probes=dataset.size, task=task, memory=memory, say=watcher.say
        )

    spaces = ClassSpaces()
    parts: dict[str, list[Part]] = {}

    def runs(ids: Sequence[str]) -> Iterator[Run]:
        for start in range(0, len(ids), RUNS_AT_ONCE):
            some = ids[start : start + RUNS_AT_ONCE]
            parts.clear()
            with suppress(StoreError):  # whose row is damaged is told when that run is read
                parts.update(store.parts_of(some, KIND))
            yield from store.runs_of(some, stages=ANSWERING_STAGES)

    def signature(run: Run) -> Signature:
        return renumbered(signature_of(store, run, parts.get(run.id, ())), spaces.of(run).translation)

    key = rows.columns["key"]
    fleeting = rows.signed & (rows.columns["fleeting"].codes >= 0)
    changeable = {str(run_id) for run_id in key.take(np.flatnonzero(fleeting)).values}
    source = SignatureSource(runs, signature, changeable)
    wanted = [str(run_id) for run_id in key.take(np.flatnonzero(rows.signed)).values]
    return synchronise(opened, index_path(store, task, dataset.fingerprint), wanted, source, watcher)
