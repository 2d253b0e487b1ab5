"""The index that queries search: rows, their figures in columns, and their agreement with each other.

It is light: whatever needs the store or a framework is imported by who builds it, or when somebody asks.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ZoolensError
from zoolens.base.recent_values import RecentValues
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.state import Newest, StoreState
from zoolens.findings.comparisons.wording import changed_file_note
from zoolens.findings.index.changed_files import ChangedFiles
from zoolens.findings.index.index_paths import files_path
from zoolens.findings.index.name_lookup import NameLookup
from zoolens.findings.index.search.ranking import Ranking
from zoolens.findings.index.search.search_columns import SearchColumns
from zoolens.findings.index.signatures.memory import memory_budget
from zoolens.findings.index.signatures.semantic import SemanticIndex
from zoolens.findings.index.tables.row_table import RowTable, table_of
from zoolens.findings.index.tables.rows import Row
from zoolens.inventory.tasks.task import task_named

if TYPE_CHECKING:
    from zoolens.base.store.store import Store
    from zoolens.findings.comparisons.contents import FileState
    from zoolens.findings.comparisons.signatures import Signature

NO_DATA: Final = DatasetRecord("", "no data", 0)  # where nothing was measured
_RANGES_KEPT: Final = 8


@dataclass(frozen=True)
class Origin:
    """The store that an index was built from."""

    store: Callable[[], Store] | None = None
    state: StoreState | None = None  # of the store when the index was built
    lasts: bool = False  # the index depends on nothing but the store, so it may be kept until the store changes


class AgreementRange(NamedTuple):
    """Between which numbers the agreement of one row with each other row lies; NaN where nothing is known of it."""

    least: NDArray[np.float64]
    most: NDArray[np.float64]


class Index:
    """Rows, their figures in columns, and their agreement with each other; a snapshot, for one thread."""

    def __init__(
        self,
        rows: Sequence[Row],
        *,
        # whose inputs are the probes
        dataset: DatasetRecord = NO_DATA,
        semantic: SemanticIndex | None = None,
        # For each row a number for its class names, and how many classes there are; −1: unknown. Rows that differ in
        # one of the two cannot be compared.
        classes: Sequence[NDArray[np.int64]] = (),
        origin: Origin = Origin(),  # noqa: B008 - frozen
        memory: int | None = None,
        # what is missing, and why
        notes: Sequence[str] = (),
    ) -> None:
        self.rows = rows if isinstance(rows, RowTable) else table_of(rows)
        self.dataset = dataset
        self.semantic = semantic
        self.columns = columns_of(self.rows)
        self.notes = tuple(notes)
        self.memory = memory_budget(memory)
        self.classes = tuple(classes)
        self.lasts = origin.lasts
        self._names = NameLookup(self.rows)
        self._open_store = origin.store
        self._state = origin.state
        places = {key: place for place, key in enumerate(semantic.keys)} if semantic is not None else {}
        self._places = np.full(len(self.rows), -1)
        if places:
            key = self.rows.columns["key"]
            codes = key.codes[self.rows.signed].tolist()
            self._places[self.rows.signed] = [places.get(str(key.values[code]), -1) for code in codes]
        self._rankings: OrderedDict[int, Ranking] = OrderedDict()
        self._held = 0
        self._ranges: RecentValues[int, AgreementRange] = RecentValues(_RANGES_KEPT)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        signed = int(self.rows.signed.sum())
        probes = f"{self.dataset.size:,} inputs of {self.dataset.name}"
        return f"Index({len(self):,} rows, {signed:,} with a signature over {probes})"

    @property
    def nbytes(self) -> int:
        """Bytes in memory for searching: columns, signatures or sketches, rankings."""
        signatures = self.semantic.nbytes if self.semantic is not None else 0
        return self.columns.nbytes + signatures + sum(ranking.nbytes for ranking in self._rankings.values())

    def as_data(self) -> dict[str, Any]:
        """What the index holds, as `zoolens index show --json` prints it."""
        semantic = self.semantic
        return {
            "rows": len(self),
            "models": len({row.ref for row in self.rows}),
            "signatures": sum(row.signature for row in self.rows),
            "probes": semantic.probes if semantic else 0,
            "dataset": {"name": self.dataset.name, "fingerprint": self.dataset.fingerprint},
            "metrics": list(self.columns.names),
            "file": str(semantic.path) if semantic else None,
            "file_bytes": semantic.file_bytes if semantic else 0,
            "memory_bytes": self.nbytes,
            "memory_budget_bytes": self.memory,
            "sketched": bool(semantic and semantic.sketched),
            "unsigned": [{"ref": row.ref, "runtime": row.runtime} for row in self.rows if not row.signature],
            "notes": list(self.notes),
        }

    def only(self, keys: Collection[str]) -> Index:
        """The index of the rows with these keys alone, such as those of the models in one folder."""
        kept = np.array([key in keys for key in self.rows.columns["key"].to_list()], np.bool_)
        return Index(
            self.rows.where(kept),
            dataset=self.dataset,
            semantic=self.semantic,
            classes=[kind[kept] for kind in self.classes],
            origin=Origin(self._open_store, self._state),
            memory=self.memory,
        )

    def find(self, reference: str, exec: Mapping[str, Any] | None = None) -> int:  # noqa: A002 - the clause is called so
        """The row that a name means; an error that lists close ones where there is none, or several."""
        return self._names.find(reference, exec)

    def agreement(self, row: int) -> NDArray[np.float64]:
        """Agreement with every row; NaN where a row has no signature, other class names or another class count."""
        semantic = self._signed(row)
        if not self.compares_signatures:
            return self.agreement_range(row).most.copy()
        shares = semantic.agreement(self.rows[row].key)
        return self._of_same_classes(row, np.where(self._places >= 0, shares[self._places], np.nan))

    def agreement_range(self, row: int) -> AgreementRange:
        """Agreement with every row, between what it is at least and at most. They differ only of tasks that keep too
        little of an answer to know it."""
        self._signed(row)
        if self.compares_signatures:
            agreement = self.agreement(row)
            return AgreementRange(agreement, agreement)
        return self._ranges.kept(row, lambda: self._agreement_of_answers(row))

    def _of_same_classes(self, row: int, agreement: NDArray[np.float64]) -> NDArray[np.float64]:
        for kind in self.classes:
            if kind[row] >= 0:
                agreement[(kind >= 0) & (kind != kind[row])] = np.nan
        return agreement

    @property
    def compares_signatures(self) -> bool:
        """Whether signatures tell the agreement: classes that are the same or not, and vectors of tasks that are
        searched by distance. Otherwise all answers are read from the store, and their task compares them."""
        if self.semantic is None:
            return True
        task = task_named(self.semantic.task)
        return task.searched_by_distance or (task.discrete and not task.graded)

    def _agreement_of_answers(self, row: int) -> AgreementRange:
        """The means of what the task says of the main output, input by input."""
        from zoolens.findings.comparisons.behaviour import pair_answers

        ours = self.signature(row).main
        least, most = np.full((2, len(self.rows)), np.nan)
        for other in np.flatnonzero(self._places >= 0):
            theirs = self.signature(int(other)).main
            if theirs.width == ours.width:
                # One model whose answers cannot be compared, such as masks of another size, must not end the query.
                with contextlib.suppress(ZoolensError):
                    least[other], most[other] = pair_answers(ours, theirs).mean
        return AgreementRange(self._of_same_classes(row, least), self._of_same_classes(row, most))

    def _signed(self, row: int) -> SemanticIndex:
        if self.semantic is None or self._places[row] < 0:
            where = f"on {self.dataset.name}" if self.semantic is not None else "on any data"
            raise ZoolensError(
                f"{self.rows[row].ref} was not measured {where}, so that nothing can be compared with it.",
                hint=f"Add it with `zoolens index add {self.rows[row].ref.partition('@')[0]}`.",
            )
        return self.semantic

    def ranking(self, row: int) -> Ranking:
        """All rows ranked by agreement with this row. The last used ones are kept as far as memory allows."""
        if row not in self._rankings:
            self._rankings[row] = Ranking(self.columns, self.agreement(row))
        self._rankings.move_to_end(row)
        # Something came in: counting bytes takes as long as a search.
        if self._held != self._arrays_held():
            while len(self._rankings) > 1 and self.nbytes > self.memory:
                self._rankings.popitem(last=False)
            self._held = self._arrays_held()
        return self._rankings[row]

    def _arrays_held(self) -> int:
        return sum([ranking.arrays for ranking in self._rankings.values()])

    @cached_property
    def _store(self) -> Store:
        if self._open_store is None:
            raise ZoolensError("This index was built without a store, which has the signatures.")
        return self._open_store()

    def signature(self, row: int) -> Signature:
        """All answers of a row, read from the store, with classes in the dataset's order."""
        from zoolens.findings.comparisons.signatures import signature_of
        from zoolens.findings.index.sources.class_spaces import class_space
        from zoolens.findings.measure.predictions import renumbered

        self._signed(row)
        run = self._store.run(self.rows[row].key)
        return renumbered(signature_of(self._store, run), class_space(run).translation)

    def outputs(self, row: int) -> tuple[str, ...]:
        """The names of all outputs that a row answered with, the main one first."""
        if self._open_store is None:
            return ()
        declared = self._store.run(self.rows[row].key).resolved.get("outputs") or ()
        return tuple(str(output.get("name") or "unnamed") for output in declared)

    def changed_files(self, rows: Iterable[int]) -> list[str]:
        """Notes about models among these whose file is another by now than the one that was measured."""
        changed = [self.rows[row] for row in self.changed_rows(rows)]
        return [changed_file_note(row.ref, row.key) for row in changed]

    def changed_rows(self, rows: Iterable[int]) -> list[int]:
        """Those of the rows whose model's file is another by now than the one that was measured."""
        if self._open_store is None:
            return []
        key, runtime = self.rows.columns["key"], self.rows.attribute("runtime").codes
        measured = {str(key[row]): row for row in rows if runtime[row] >= 0}
        return [measured[key] for key in self._changed_files.among(list(measured))]

    @cached_property
    def _changed_files(self) -> ChangedFiles:
        state = self._state
        path, newest = (None, Newest()) if state is None else (files_path(state), state.newest)
        return ChangedFiles(path, newest, self._file_states)

    def _file_states(self, keys: Sequence[str]) -> dict[str, FileState]:
        from zoolens.findings.comparisons.contents import file_states

        runs = {run.id: run for run in self._store.runs_of(keys, stages=False)}
        for gone in set(keys) - runs.keys():  # the store was restored from a backup meanwhile
            runs[gone] = self._store.run(gone)
        return file_states(runs.values())


def columns_of(rows: RowTable) -> SearchColumns:
    """Every figure of every row, by name; NaN where a row has none."""
    return SearchColumns(rows.figures.names, rows.figures.values, len(rows))
