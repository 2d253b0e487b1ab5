"""A summary of every run, kept from one query to the next: only runs that changed since are read again.

To choose the data that most models were measured on, and to see which runs belong together, a query needs eight values
of each run. Reading a hundred thousand runs for that takes a minute, reading their summaries takes a moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.base.progress import Progress, Silent
from zoolens.base.store.records import ANSWERING_KINDS, Run, RunKind
from zoolens.base.store.state import Newest
from zoolens.base.store.store import RUNS_AT_ONCE, Store
from zoolens.findings.comparisons.signatures import task_of
from zoolens.findings.index.index_paths import forget_answers, runs_path
from zoolens.findings.index.sources.class_spaces import may_be_renamed
from zoolens.findings.index.tables.array_file import Arrays, read_arrays, write_arrays
from zoolens.findings.index.tables.dictionary_column import DictionaryColumn, dictionary_column, stacked_columns
from zoolens.findings.measure.answers import ANSWERING_STAGES, has_answers
from zoolens.findings.measure.class_order import stored_translation

_TEXTS: Final = ("id", "model", "dataset", "stack", "task", "ref")
_NUMBERS: Final = {
    "attempt": np.int32, "number": np.int64, "inputs": np.int64, "answered": np.bool_, "measured": np.bool_,
    "trained": np.bool_, "misjudged": np.bool_, "renamable": np.bool_,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RunTable:
    """All runs, oldest first."""

    id: DictionaryColumn
    model: DictionaryColumn
    dataset: DictionaryColumn
    stack: DictionaryColumn
    task: DictionaryColumn
    ref: DictionaryColumn
    attempt: NDArray[np.int32]
    number: NDArray[np.int64]
    inputs: NDArray[np.int64]
    answered: NDArray[np.bool_]  # has finished predictions
    measured: NDArray[np.bool_]  # an evaluation that a user asked for: no claim, structure or trial of the doctor
    trained: NDArray[np.bool_]  # a training
    misjudged: NDArray[np.bool_]  # its figures about classes are wrong (`stored_translation`)
    renamable: NDArray[np.bool_]  # names of classes lie in a file of their own (`may_be_renamed`), which may change

    def __len__(self) -> int:
        return len(self.attempt)


@dataclass(frozen=True)
class KnownRuns:
    """A table of runs. `mark` is the last change of the store that it includes."""

    mark: int
    table: RunTable


def run_table(store: Store, watcher: Progress | None = None) -> KnownRuns:
    """The table as the store is now; the last one that was asked for is kept, since a query asks more than once."""
    path = runs_path(store)
    # Not the table's mark, which stays behind it in PostgreSQL.
    newest = store.newest()
    if _last and _last[0][:2] == (path, newest):
        return _last[0][2]
    table = _read(store, path, watcher or Silent())
    _last[:] = [(path, newest, table)]
    return table


_last: list[tuple[Path, Newest, KnownRuns]] = []


def _read(store: Store, path: Path, watcher: Progress) -> KnownRuns:
    kept = read_arrays(path, {})
    if kept is not None and not store.continues(Newest(*kept.details["newest"])):
        # A run that was measured again after a restore may have answered otherwise.
        forget_answers(store)
        kept = None
    known, before = (_table_of(()), 0) if kept is None else (_table_from(kept.arrays), int(kept.details["mark"]))
    mark, changed = store.changed_since(before)
    if not changed:
        return KnownRuns(mark, known)
    read = []
    watcher.begin("index", "runs", len(changed))
    for start in range(0, len(changed), RUNS_AT_ONCE):
        batch = changed[start : start + RUNS_AT_ONCE]
        read.append(_table_of(store.runs_of(batch, stages=ANSWERING_STAGES)))
        watcher.advance(len(batch))
    watcher.end()
    table = _stacked([_taken(known, np.flatnonzero(~known.id.rows_among(changed))), *read])
    table = _taken(table, np.argsort(table.number, kind="stable"))
    write_arrays(path, {}, {"mark": mark, "newest": store.newest()}, _arrays(table))
    return KnownRuns(mark, table)


def _table_of(runs: Sequence[Run]) -> RunTable:
    names = (*_TEXTS, *_NUMBERS)
    columns = (
        dict(zip(names, zip(*map(_summary, runs), strict=True), strict=True)) if runs else dict.fromkeys(names, ())
    )
    texts: dict[str, Any] = {name: dictionary_column(columns[name], len(runs)) for name in _TEXTS}
    numbers: dict[str, Any] = {name: np.array(columns[name], kind) for name, kind in _NUMBERS.items()}
    return RunTable(**texts, **numbers)


def _summary(run: Run) -> tuple[Any, ...]:
    """What the table keeps of a run, in the order of its columns. All of one run at once: its texts are parsed when
    they are looked at, and only those of the last few runs stay parsed."""
    key, answering = run.key, run.kind in ANSWERING_KINDS
    # What lies in a file of its own is looked up when it is asked for: the file may change.
    renamable = answering and may_be_renamed(run)
    misjudged = answering and not renamable and stored_translation(run) is not None
    return (
        run.id, key.model, key.dataset, key.stack, task_of(run) if answering else "", run.ref,
        key.attempt, run.number, run.inputs, has_answers(run), run.kind is RunKind.EVALUATION,
        run.kind is RunKind.TRAINING, misjudged, renamable,
    )  # fmt: skip


def _taken(table: RunTable, rows: NDArray[np.int64]) -> RunTable:
    texts: dict[str, Any] = {name: getattr(table, name).take(rows) for name in _TEXTS}
    return RunTable(**texts, **{name: getattr(table, name)[rows] for name in _NUMBERS})


def _stacked(tables: Sequence[RunTable]) -> RunTable:
    texts: dict[str, Any] = {name: stacked_columns([getattr(table, name) for table in tables]) for name in _TEXTS}
    numbers: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in tables]) for name in _NUMBERS}
    return RunTable(**texts, **numbers)


def _arrays(table: RunTable) -> Arrays:
    texts: dict[str, DictionaryColumn] = {name: getattr(table, name) for name in _TEXTS}
    return {
        **{name: getattr(table, name) for name in _NUMBERS},
        **{f"{name}_codes": column.codes for name, column in texts.items()},
        **{f"{name}_values": column.packed() for name, column in texts.items()},
    }


def _table_from(arrays: Arrays) -> RunTable:
    texts: dict[str, Any] = {
        name: DictionaryColumn(arrays[f"{name}_values"], arrays[f"{name}_codes"]) for name in _TEXTS
    }
    numbers: dict[str, Any] = {name: arrays[name] for name in _NUMBERS}
    return RunTable(**texts, **numbers)


def chosen_probes(table: RunTable, task: str | None) -> list[str]:
    """Ids of the runs (None: of any task) on the dataset that is meant where none is named (`default_dataset`), newest
    first. Of several attempts the last counts."""
    answered = table.measured & table.answered
    if task is not None:
        answered &= table.task.rows_among([task])
    last: dict[tuple[int, int, int], int] = {}
    for run in reversed(np.flatnonzero(answered).tolist()):
        key = (table.model.codes.item(run), table.dataset.codes.item(run), table.stack.codes.item(run))
        if key not in last or table.attempt[last[key]] < table.attempt[run]:
            last[key] = run
    by_data: dict[int, list[int]] = {}
    for (_, dataset, _), run in last.items():
        by_data.setdefault(dataset, []).append(run)
    chosen = max(by_data, key=lambda data: _worth(table, by_data[data]), default=-1)
    return [str(table.id[run]) for run in by_data.get(chosen, ())]


def _worth(table: RunTable, runs: Sequence[int]) -> tuple[int, int, int]:
    """Judges a dataset as `default_dataset` judges whole runs: most models, most inputs, the newest."""
    refs = np.unique(table.ref.codes[runs])
    return len(refs), table.inputs.item(runs[0]), int(table.number[runs].max())


def grouped(table: RunTable, probes: Collection[str]) -> Iterator[tuple[tuple[str, str], NDArray[np.int64]]]:
    """Yield the measured runs of each model in each environment, newest first: of two figures the newer counts.

    `probes`: runs that count whatever their kind.
    """
    rows = np.flatnonzero(table.measured | table.id.rows_among(probes))[::-1]
    if not len(rows):
        return
    model, stack = table.model, table.stack
    pairs = model.codes[rows].astype(np.int64) * len(stack.values) + stack.codes[rows]
    order = np.argsort(pairs, kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order], prepend=-1))
    for group in np.split(rows[order], starts[1:]):
        newest = group[0]
        key = str(model.values[model.codes[newest]]), str(stack.values[stack.codes[newest]])
        yield key, group
