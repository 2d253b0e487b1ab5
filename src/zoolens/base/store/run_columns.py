"""What lists of runs are filtered, counted and sorted by, as columns in memory.

In SQL, a filter that fits few of a hundred thousand runs, or a count for every value of a facet, takes up to a second
on a small machine; over these columns it takes milliseconds, in SQLite and in PostgreSQL alike. They hold about 250
bytes a run and no more than a list needs. What is shown of a run is then read from the store, where its rows bear
checksums.

The columns are read once and brought up to date from the journal of changes: `RunIndex.columns` never gives less than
what was stored when it was called.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, Text, cast, exists, select

from zoolens.base.recent_values import RecentValues
from zoolens.base.store.queries import full_name, in_chunks
from zoolens.base.store.records import FAILED, DatasetRecord, RunKind
from zoolens.base.store.schema import aliases, datasets, models, observations, runs, stacks, stages
from zoolens.base.store.state import Newest
from zoolens.base.store.store import Store

KINDS: Final = tuple(RunKind)
_KIND_CODES: Final = {kind.value: code for code, kind in enumerate(KINDS)}
METRICS_KEPT: Final = 24  # columns of figures in memory: 8 bytes a run each
ORDERS_KEPT: Final = 8  # of runs by a figure: as large as columns of figures
DERIVED_KEPT: Final = 8
_REREAD: Final = 5_000  # more changed runs than these, and everything is read again
_AT_ONCE: Final = 5_000  # ids a statement
_LATE: Final = 100_000  # PostgreSQL may show an observation after others of higher numbers

T = TypeVar("T")
Integers = NDArray[np.int32]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
Figure = tuple[str, str]  # a metric and its scope


class RunState(StrEnum):
    """How far a run came, as far as the store can tell: which stages were still to come is not stored."""

    MEASURED = "measured"  # at least one stage was finished, and none failed
    FAILED = "failed"  # a stage failed
    BEGUN = "begun"  # no stage was finished yet


STATES: Final = tuple(RunState)


@dataclass(frozen=True)
class RunSubject:
    """A model, a dataset or an environment that runs are about. An environment is named by its runtime."""

    fingerprint: str
    name: str  # the one to show, which no other dataset has
    names: tuple[str, ...]  # every name that it was given
    searched: str  # all names, one per line, case folded
    format: str = ""  # of a model's file
    options: str = ""  # of an environment: what was asked of its runtime (precision, device, mode, threads)


def _subject(fingerprint: str, name: str, names: Iterable[str], file_format: str = "") -> RunSubject:
    every_name = tuple(dict.fromkeys(names))
    return RunSubject(fingerprint, name, every_name, "\n".join(every_name).casefold(), file_format)


@dataclass(frozen=True)
class RunColumns:
    """One row a run, in the order in which runs were stored. Columns of codes refer to the lists of subjects, to
    `KINDS` and to `STATES`. The arrays must not be changed."""

    reading: int  # in one reading a run keeps its place, whatever is added
    newest: Newest  # of the store when this was read
    mark: int  # of the journal of changes
    ids: tuple[str, ...]
    id_bytes: NDArray[np.bytes_]
    places: Mapping[str, int]  # of each id
    created: NDArray[np.datetime64]  # UTC, in microseconds
    by_time: NDArray[np.int64]  # places, the one that was stored last first: clocks of several writers differ
    model: Integers
    dataset: Integers
    stack: Integers
    kind: Integers
    state: Integers
    models: tuple[RunSubject, ...]
    datasets: tuple[RunSubject, ...]
    stacks: tuple[RunSubject, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        return iter(self.ids)


class RunIndex:
    """The columns of one store's runs, kept up to date. Several threads may use one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._columns: RunColumns | None = None
        self._readings = 0
        self._figures: RecentValues[Figure, tuple[RunColumns, Floats]] = RecentValues(METRICS_KEPT)
        self._orders: RecentValues[tuple[str, str, bool], tuple[Floats, Places]] = RecentValues(ORDERS_KEPT)
        self._derived: RecentValues[Hashable, tuple[RunColumns, Any]] = RecentValues(DERIVED_KEPT)

    @property
    def newest(self) -> Newest:
        """What was newest in the store when the columns were read last."""
        columns = self._columns
        return Newest() if columns is None else columns.newest

    def columns(self) -> RunColumns:
        """The columns as the store is now."""
        with self._lock:
            self._columns = self._current()
            return self._columns

    def figures(self, columns: RunColumns, metric: str, scope: str) -> Floats:
        """The value that each run has of a metric in a scope; NaN where it has none, or none that is a number."""
        key = (metric, scope)
        kept = self._figures.get(key)
        if kept is not None and kept[0] is columns:
            return kept[1]
        if kept is not None and kept[0].reading == columns.reading and len(kept[0]) <= len(columns):
            since = kept[0].newest.observation - (0 if self.store.orders_changes else _LATE)
            values = np.concatenate([kept[1], np.full(len(columns) - len(kept[1]), np.nan)])
        else:
            since, values = 0, np.full(len(columns), np.nan)
        rows = self.store.read(lambda connection: _figures_since(connection, metric, scope, since))
        read = _with_figures(columns, values, rows)
        self._figures.put(key, (columns, read))
        return read

    def ordered(self, columns: RunColumns, metric: str, scope: str, *, descending: bool) -> Places:
        """The places of all runs by a figure: those without it come last, and among equals the newest first."""
        key, values = (metric, scope, descending), self.figures(columns, metric, scope)
        kept = self._orders.get(key)
        if kept is not None and kept[0] is values:
            return kept[1]
        by_time = values[columns.by_time]
        order = columns.by_time[np.argsort(-by_time if descending else by_time, kind="stable")]  # NaN comes last
        self._orders.put(key, (values, order))
        return order

    def derived(self, key: Hashable, compute: Callable[[RunColumns], T]) -> T:
        """What is computed from the columns alone, kept under `key` until they change."""
        columns = self.columns()
        kept = self._derived.get(key)
        if kept is None or kept[0] is not columns:
            kept = columns, compute(columns)
            self._derived.put(key, kept)
        value: T = kept[1]
        return value

    def _current(self) -> RunColumns:
        known = self._columns
        newest = self.store.newest()
        if known is not None and newest == known.newest:
            return known
        if known is None or not self.store.continues(known.newest):
            return self._read()
        mark, changed = self.store.changed_since(known.mark)
        if len(changed) > _REREAD:
            return self._read()
        return self.store.read(lambda connection: _updated(connection, known, newest, mark, changed))

    def _read(self) -> RunColumns:
        # Both are read before the rows: what is stored meanwhile is told again by the journal.
        newest = self.store.newest()
        mark, _ = self.store.changed_since(newest.change)
        self._figures.clear()
        self._readings += 1
        return self.store.read(lambda connection: _read_columns(connection, self._readings, newest, mark))


# --- all runs


def _read_columns(connection: Connection, reading: int, newest: Newest, mark: int) -> RunColumns:
    rows = _tuples(connection, _RUNS.order_by(runs.c.seq))
    begun = {run_id for (run_id,) in _tuples(connection, _WITHOUT_STAGES)}
    # Not DISTINCT: SQLite would then walk through an index, and look up every row from there.
    failed = {run_id for (run_id,) in _tuples(connection, select(stages.c.run_id).where(stages.c.state == FAILED))}
    subjects = _Subjects.of(connection)
    values = _Values.of(rows, subjects, begun, failed)
    ids = tuple([row[0] for row in rows])
    places = {run_id: place for place, run_id in enumerate(ids)}
    return _columns((reading, newest, mark), ids, np.array(ids, "S16"), places, subjects, values)


_RUNS: Final = select(runs.c.id, runs.c.model, runs.c.dataset, runs.c.stack, runs.c.kind, runs.c.created)
_WITHOUT_STAGES: Final = select(runs.c.id).where(~exists().where(stages.c.run_id == runs.c.id))


@dataclass(frozen=True)
class _Subjects:
    models: tuple[RunSubject, ...]
    datasets: tuple[RunSubject, ...]
    stacks: tuple[RunSubject, ...]

    @classmethod
    def of(cls, connection: Connection) -> _Subjects:
        return cls(*(_subjects(connection, name) for name in ("model", "dataset", "stack")))


@dataclass(frozen=True)
class _Values:
    """The columns of some runs, subjects as codes."""

    model: Integers
    dataset: Integers
    stack: Integers
    kind: Integers
    state: Integers
    created: NDArray[np.datetime64]

    @classmethod
    def of(
        cls,
        rows: Sequence[tuple[Any, ...]],
        subjects: _Subjects,
        begun: Collection[str],
        failed: Collection[str],
    ) -> _Values:
        """`begun`: runs without a finished or failed stage."""
        ids, model, dataset, stack, kind, created = zip(*rows, strict=True) if rows else [()] * 6
        state = np.full(len(ids), STATES.index(RunState.MEASURED), np.int32)
        for some, reached in ((begun, RunState.BEGUN), (failed, RunState.FAILED)):
            state[np.fromiter(map(some.__contains__, ids), np.bool_, len(ids))] = STATES.index(reached)
        return cls(
            model=_codes(subjects.models, model),
            dataset=_codes(subjects.datasets, dataset),
            stack=_codes(subjects.stacks, stack),
            kind=np.fromiter(map(_KIND_CODES.__getitem__, kind), np.int32, len(kind)),
            state=state,
            created=_times(created),
        )


def _codes(subjects: Sequence[RunSubject], fingerprints: Sequence[str]) -> Integers:
    code_of = {subject.fingerprint: code for code, subject in enumerate(subjects)}
    return np.fromiter(map(code_of.__getitem__, fingerprints), np.int32, len(fingerprints))


def _columns(
    version: tuple[int, Newest, int],
    ids: tuple[str, ...],
    id_bytes: NDArray[np.bytes_],
    places: Mapping[str, int],
    subjects: _Subjects,
    values: _Values,
) -> RunColumns:
    return RunColumns(
        *version,
        ids=ids,
        id_bytes=id_bytes,
        places=places,
        created=values.created,
        by_time=np.arange(len(ids), dtype=np.int64)[::-1],
        model=values.model,
        dataset=values.dataset,
        stack=values.stack,
        kind=values.kind,
        state=values.state,
        models=subjects.models,
        datasets=subjects.datasets,
        stacks=subjects.stacks,
    )


def _subjects(connection: Connection, name: str) -> tuple[RunSubject, ...]:
    if name == "stack":
        rows = _tuples(connection, select(stacks.c.fingerprint, stacks.c.runtime, cast(stacks.c.identity, Text)))
        return tuple(replace(_subject(key, runtime, [runtime]), options=_options(text)) for key, runtime, text in rows)
    names: dict[str, list[str]] = {}
    for key, alias in _tuples(
        connection, select(aliases.c.fingerprint, aliases.c.name).where(aliases.c.kind == name).order_by(aliases.c.name)
    ):
        names.setdefault(key, []).append(alias)
    if name == "model":
        rows = _tuples(connection, select(models.c.fingerprint, models.c.ref, models.c.format))
        return tuple(_subject(key, shown, [shown, *names.get(key, ())], form) for key, shown, form in rows)
    rows = _tuples(connection, select(datasets.c.fingerprint, datasets.c.name))
    return tuple(_told_apart([_subject(key, shown, [shown, *names.get(key, ())]) for key, shown in rows]))


def _options(identity: str) -> str:
    """Lists are told nothing of damaged rows, which whoever shows a run reads with their checksums."""
    try:
        return json.dumps(json.loads(identity).get("options"), sort_keys=True)
    except (ValueError, AttributeError):
        return ""


def _told_apart(listed: Sequence[RunSubject]) -> Iterator[RunSubject]:
    """Datasets with names by which they can be found: those that share theirs are called name#fingerprint."""
    seen: dict[str, int] = {}
    for subject in listed:
        seen[subject.name] = seen.get(subject.name, 0) + 1
    for subject in listed:
        if not subject.name.isprintable() or "*" in subject.name or "?" in subject.name:
            # The fingerprint names it wherever it is written again.
            yield replace(subject, name=subject.fingerprint[:12])
        elif seen[subject.name] > 1:
            yield replace(subject, name=full_name(DatasetRecord(subject.fingerprint, subject.name, 0)))
        else:
            yield subject


def _times(values: Sequence[Any]) -> NDArray[np.datetime64]:
    """SQLite has text in UTC, PostgreSQL times of any zone."""
    if values and isinstance(values[0], datetime):
        values = [value.astimezone(UTC).replace(tzinfo=None) for value in values]
    return np.array(values, "datetime64[us]")


def _tuples(connection: Connection, query: Select[Any]) -> Sequence[tuple[Any, ...]]:
    """Returns the driver's own rows: SQLAlchemy's row objects would take most of the time of reading this many."""
    result = connection.execute(query)
    rows: Sequence[tuple[Any, ...]] = result.cursor.fetchall() if result.cursor is not None else []
    result.close()
    return rows


# --- what changed


def _updated(
    connection: Connection, known: RunColumns, newest: Newest, mark: int, changed: Collection[str]
) -> RunColumns:
    """The columns with these runs read again, and runs that are new behind the others."""
    query = _RUNS.order_by(runs.c.seq)
    rows = [
        row for some in in_chunks(changed, _AT_ONCE) for row in _tuples(connection, query.where(runs.c.id.in_(some)))
    ]
    ids = [row[0] for row in rows]
    found = [row for some in in_chunks(ids, _AT_ONCE) for row in _tuples(connection, _states_of(some))]
    begun = set(ids) - {run_id for run_id, _ in found}
    subjects = _Subjects.of(connection)
    values = _Values.of(rows, subjects, begun, {run_id for run_id, state in found if state == FAILED})
    new = [run_id for run_id in ids if run_id not in known.places]
    places = {**known.places, **{run_id: len(known) + place for place, run_id in enumerate(new)}}
    at = np.array([places[run_id] for run_id in ids], np.int64)

    def spread(old: NDArray[Any], fresh: NDArray[Any]) -> NDArray[Any]:
        column = np.concatenate([old, np.zeros(len(new), old.dtype)])
        column[at] = fresh
        return column

    def recoded(codes: Integers, before: Sequence[RunSubject], after: Sequence[RunSubject]) -> Integers:
        return _codes(after, [subject.fingerprint for subject in before])[codes] if len(codes) else codes

    merged = _Values(
        model=spread(recoded(known.model, known.models, subjects.models), values.model),
        dataset=spread(recoded(known.dataset, known.datasets, subjects.datasets), values.dataset),
        stack=spread(recoded(known.stack, known.stacks, subjects.stacks), values.stack),
        kind=spread(known.kind, values.kind),
        state=spread(known.state, values.state),
        created=spread(known.created, values.created),
    )
    id_bytes = np.concatenate([known.id_bytes, np.array(new, "S16")])
    return _columns((known.reading, newest, mark), (*known.ids, *new), id_bytes, places, subjects, merged)


def _states_of(ids: Sequence[str]) -> Select[Any]:
    return select(stages.c.run_id, stages.c.state).where(stages.c.run_id.in_(ids)).distinct()


# --- figures


def _figures_since(connection: Connection, metric: str, scope: str, since: int) -> Sequence[tuple[Any, ...]]:
    """Runs and values that were stored after the observation of this number: what is stored is never changed."""
    column = observations.c
    query = select(column.run_id, column.value).where(column.metric == metric, column.scope == scope)
    return _tuples(connection, query.where(column.value.is_not(None), column.seq > since))


def _with_figures(columns: RunColumns, values: Floats, rows: Sequence[tuple[Any, ...]]) -> Floats:
    # A run that was begun since the columns were read has no place in them.
    known = [(columns.places[run_id], value) for run_id, value in rows if run_id in columns.places]
    if known:
        at, figures = zip(*known, strict=True)
        values[np.array(at, np.int64)] = figures
    return values
