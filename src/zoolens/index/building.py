"""The index that queries search, from the one store.

index = zoolens.build_index(data="demo")
index.rows[index.find("lenet-wide")], index.semantic.nearest(...)

Rows are worked out from the store's observations every time; of the signatures only those that are not in the index
file yet are read. Nothing is measured here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from zoolens.equivalence.behaviour import translated
from zoolens.equivalence.contents import changed_notes
from zoolens.equivalence.signatures import Signature, default_dataset, probe_runs, signature_of
from zoolens.errors import UnknownName, ZoolensError
from zoolens.index.columns import Columns
from zoolens.index.contents import current_rows
from zoolens.index.estimates import latency_estimates
from zoolens.index.facts import rows_from
from zoolens.index.figurematrix import matrix_of
from zoolens.index.filling import fill
from zoolens.index.finding import Names
from zoolens.index.memory import memory_budget
from zoolens.index.placing import index_path, removed_models, rows_path, store_state
from zoolens.index.ranking import Ranking
from zoolens.index.resources import with_resources
from zoolens.index.rows import Row
from zoolens.index.runtable import chosen_probes, run_table
from zoolens.index.semantic import SemanticIndex, open_semantic
from zoolens.index.spaces import Space, class_spaces
from zoolens.index.structures import read_structures
from zoolens.measure.classorder import JUDGED_WRONGLY
from zoolens.measure.predictions import CLASSIFICATION
from zoolens.measure.progress import Progress, Silent
from zoolens.store.records import DatasetRecord, Run
from zoolens.store.store import Store, borrowed_store

_log = logging.getLogger("zoolens.index")
NO_DATA: Final = DatasetRecord("", "no data", 0)  # where nothing was measured
_RANKED: Final = 16  # bytes a row that a ranking takes, roughly


class Index:
    """Rows, their figures in columns, and how alike they answer; a snapshot, for one thread.

    `dataset` is what was probed with; `notes` say what is missing, and why.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        dataset: DatasetRecord = NO_DATA,
        semantic: SemanticIndex | None = None,
        spaces: Mapping[str, Space] | None = None,
        columns: Columns | None = None,
        store: Store | None = None,
        memory: int | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.rows = tuple(rows)
        self._names = Names(self.rows)
        self.dataset = dataset
        self.semantic = semantic
        self.columns = columns or columns_of(self.rows)
        self.notes = tuple(notes)
        self.memory = memory_budget(memory)
        self._store = store
        self._spaces = spaces or {}
        places = {key: place for place, key in enumerate(semantic.keys)} if semantic is not None else {}
        self._places = np.array([places.get(row.key, -1) for row in self.rows], np.int64)
        given = [self._spaces.get(row.key, Space()) for row in self.rows]
        self._classes = tuple(_numbered(kind) for kind in ([one.name for one in given], [one.width for one in given]))
        self._rankings: OrderedDict[int, Ranking] = OrderedDict()
        self._held = 0

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        signed = sum(row.signature for row in self.rows)
        probes = f"{self.dataset.size:,} inputs of {self.dataset.name}"
        return f"Index({len(self):,} rows, {signed:,} with a signature over {probes})"

    @property
    def nbytes(self) -> int:
        """Bytes in memory for searching: columns, signatures or sketches, rankings."""
        signatures = self.semantic.nbytes if self.semantic is not None else 0
        return self.columns.nbytes + signatures + sum(one.nbytes for one in self._rankings.values())

    def find(self, reference: str, exec: Mapping[str, Any] | None = None) -> int:  # noqa: A002 - the clause is called so
        """The row that a name means; an error that lists close ones where there is none, or several."""
        return self._names.find(reference, exec)

    def agreement(self, row: int) -> NDArray[np.float64]:
        """With every row; NaN where a row has no signature, or other classes by name or by number."""
        semantic = self._signed(row)
        shares = semantic.agreement(self.rows[row].key)
        found = np.where(self._places >= 0, shares[self._places], np.nan)
        for kind in self._classes:
            if kind[row] >= 0:
                found[(kind >= 0) & (kind != kind[row])] = np.nan
        return found

    def _signed(self, row: int) -> SemanticIndex:
        if self.semantic is None or self._places[row] < 0:
            where = f"on {self.dataset.name}" if self.semantic is not None else "on any data"
            raise ZoolensError(
                f"{self.rows[row].ref} was not measured {where}, so that nothing can be compared with it.",
                hint=f"Add it with `zoolens index add {self.rows[row].ref.partition('@')[0]}`.",
            )
        return self.semantic

    def ranking(self, row: int) -> Ranking:
        """All rows by agreement with this one. Kept as far as memory allows, the last used ones."""
        if row not in self._rankings:
            self._rankings[row] = Ranking(self.columns, self.agreement(row))
        self._rankings.move_to_end(row)
        if self._held != self._arrays_held():  # something came in: counting bytes takes as long as a search
            while len(self._rankings) > 1 and self.nbytes > self.memory:
                self._rankings.popitem(last=False)
            self._held = self._arrays_held()
        return self._rankings[row]

    def _arrays_held(self) -> int:
        return sum([one.arrays for one in self._rankings.values()])

    def signature(self, row: int) -> Signature:
        """All that was answered, from the store; classes in the data's order."""
        self._signed(row)
        if self._store is None:
            raise ZoolensError("This index was built without a store, which has the signatures.")
        found = signature_of(self._store, self._store.run(self.rows[row].key))
        space = self._spaces.get(self.rows[row].key)
        return found if space is None else translated(found, space.translation)

    def changed_files(self, rows: Iterable[int]) -> list[str]:
        """Notes about models among these whose file is another by now than the one that was measured."""
        if self._store is None:
            return []
        measured = [self.rows[row] for row in rows if self.rows[row].runtime is not None]
        return list(changed_notes(self._store.run(row.key) for row in measured))


def _numbered(values: Sequence[object]) -> NDArray[np.int64]:
    """Equal values have equal numbers; −1: not known."""
    numbers: dict[object, int] = {None: -1}
    for value in values:
        numbers.setdefault(value, len(numbers))
    return np.array([numbers[value] for value in values], np.int64)


def columns_of(rows: Sequence[Row]) -> Columns:
    """Every figure of every row, by name; NaN where a row has none."""
    matrix = matrix_of([row.figures for row in rows])
    return Columns(dict(zip(matrix.names, matrix.values, strict=True)))


def build_index(
    store: Store | str | Path | None = None,
    *,
    data: str | None = None,
    task: str = CLASSIFICATION,
    refresh: bool = False,
    progress: Progress | None = None,
    memory: int | None = None,
) -> Index:
    """The index of everything that the store knows of a task, over the answers to one dataset.

    `data`: the probe dataset, by a pattern on its name; None: the one that most models were measured on. `refresh`:
    read the structure of models that have none yet. `memory`: bytes, else $ZOOLENS_INDEX_MB megabytes, else 20 MB.
    An unchanged store gives the same object again.
    """
    watcher, budget = progress or _Logged(), memory_budget(memory)
    with borrowed_store(store, must_exist=True) as opened:
        if refresh:
            read_structures(opened, probe_runs(opened, data=data, task=task), progress)
        removed = removed_models(opened)
        key = (opened.name, data, task, budget)
        state = (store_state(opened), removed)
        if key in _recent and _recent[key].state == state and not refresh:
            return _recent[key].index
        index = _build(opened, probed_runs(opened, data, task), task, removed, budget, watcher)
        _recent[key] = _Kept(state, index)
        while len(_recent) > _RECENT:
            _recent.popitem(last=False)
        return index


class _Logged(Silent):
    """Where nobody watches: that a file had to be made anew is said all the same."""

    def say(self, text: str) -> None:
        _log.warning(text)


@dataclass(frozen=True)
class _Kept:
    state: tuple[Any, ...]
    index: Index


_RECENT: Final = 4
_recent: OrderedDict[tuple[Any, ...], _Kept] = OrderedDict()


def probed_runs(store: Store, data: str | None, task: str | None) -> list[Run]:
    """The runs (None: of any task) on one dataset: the one with most models, then most inputs, then the newest."""
    if data is None:
        return store.runs_of(chosen_probes(run_table(store), task))
    runs = probe_runs(store, data=data, task=task)
    if not runs:
        known = {run.dataset.name for run in probe_runs(store, task=task)}
        raise UnknownName("dataset with measured models", data, known)
    chosen = default_dataset(runs)
    return [run for run in runs if run.key.dataset == chosen]


def _build(
    store: Store, probes: Sequence[Run], task: str, removed: frozenset[str], memory: int, watcher: Progress
) -> Index:
    runs = [run for run in probes if run.key.model not in removed]
    known, replaced = current_rows(store, _rows(store, runs, task))
    rows = [row for row in known if row.model not in removed]
    kept = {row.key for row in rows}
    runs = [run for run in runs if run.id in kept]
    columns = columns_of(rows)
    if not probes:
        which = "model" if task == CLASSIFICATION else f"model of the task {task}"
        return Index(rows, columns=columns, store=store, memory=memory, notes=(f"No {which} was measured yet.",))
    spaces = class_spaces(runs)
    room = max(memory // 4, memory - columns.nbytes - _RANKED * len(rows))
    semantic, notes = _semantic(store, runs, spaces, probes[0].dataset, task, room, watcher)
    notes += replaced
    if "#" in (name := probes[0].dataset.name):
        notes.append(f"Several datasets have this name; this is {name}, and `zoolens runs` lists the others.")
    unnamed = dict.fromkeys(one.problem for one in spaces.values() if one.problem)
    notes += [f"{problem} Its classes are taken in the data's order." for problem in unnamed]
    misjudged = dict.fromkeys(run.ref for run in runs if spaces[run.id].translation is not None)
    notes += [f"{ref} has no accuracy here: {JUDGED_WRONGLY}. `zoolens eval` measures it anew." for ref in misjudged]
    signed = [replace(row, signature=row.signature and row.key in semantic) for row in rows]
    return Index(
        signed, dataset=probes[0].dataset, semantic=semantic, spaces=spaces, columns=columns, store=store,
        memory=memory, notes=notes,
    )  # fmt: skip


def _rows(store: Store, runs: Sequence[Run], task: str) -> list[Row]:
    cache = rows_path(store, task, runs[0].key.dataset if runs else "")
    return [
        row
        for row in with_resources(rows_from(store, runs, estimators=[latency_estimates], cache=cache))
        if row.attributes.get("task") in (None, task)
    ]


def _semantic(
    store: Store,
    runs: Sequence[Run],
    spaces: Mapping[str, Space],
    dataset: DatasetRecord,
    task: str,
    memory: int,
    watcher: Progress,
) -> tuple[SemanticIndex, list[str]]:
    def opened(path: Path | None) -> SemanticIndex:
        return open_semantic(
            path, dataset=dataset.fingerprint, probes=dataset.size, task=task, memory=memory, say=watcher.say
        )

    def read(run: Run) -> Signature:
        return translated(signature_of(store, run), spaces[run.id].translation)

    return fill(opened, index_path(store, task, dataset.fingerprint), runs, read, watcher)
