"""Reading: rows to records. Every function takes an open connection and begins no transaction of its own."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from sqlalchemy import Connection, Select, Table, Text, and_, bindparam, func, or_, select
from sqlalchemy.engine import Row
from sqlalchemy.sql.elements import ColumnElement

from zoolens.base.store import statements
from zoolens.base.store.checksums import DamagedRow, checked_rows
from zoolens.base.store.json_columns import JsonText
from zoolens.base.store.records import (
    DONE,
    MEASURED_KINDS,
    DatasetRecord,
    ModelRecord,
    Observation,
    Provenance,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    StageState,
    stage_words,
)
from zoolens.base.store.schema import aliases, datasets, locks, models, observations, runs, stacks, stages
from zoolens.base.store.statements import everything
from zoolens.base.store.values import storable_text

if TYPE_CHECKING:
    import pyarrow as pa

_Values = dict[str, Any]
_SHOWN: Final = 8  # digits of a fingerprint
NAME_AND_DIGITS: Final = re.compile(r"(?:(.+)#)?([0-9a-fA-F]{6,64})")  # of a dataset: name#fingerprint, or that alone
T = TypeVar("T")

_CHUNK: Final = 10_000  # ids a statement: SQLite takes at most 32,766 values


class RunFilter(TypedDict, total=False):
    """Which runs are meant; see `Store.runs`."""

    model: str | None
    dataset: str | None
    runtime: str | None
    kind: RunKind | None
    trials: bool
    limit: int | None


def load_runs(
    connection: Connection,
    *where: ColumnElement[bool],
    limit: int | None = None,
    offset: int = 0,
    stages: bool | Collection[str] = True,
) -> list[Run]:
    """Returns the runs that meet all conditions, newest first. `stages`: which of them are told of each run."""
    query = everything(runs).where(*where).order_by(runs.c.seq.desc()).limit(limit)
    if offset:
        query = query.offset(offset)
    return _as_runs(connection, connection.execute(query), stages)


def load_run(connection: Connection, run_id: str) -> Run | None:
    """Returns the run of this id, if there is one."""
    result = connection.execute(statements.one_run(), {"run": storable_text(run_id)})
    return next(iter(_as_runs(connection, result, stages=True)), None)


def _as_runs(connection: Connection, result: Any, stages: bool | Collection[str]) -> list[Run]:
    rows = list(checked_rows(runs.name, result))
    names = None if isinstance(stages, bool) else stages
    states = _stage_words(connection, [row.id for row in rows], names) if stages else {}
    subjects = _Subjects(connection, rows)
    return [subjects.run(row, states.get(row.id, {})) for row in rows]


def load_run_ids(connection: Connection, *where: ColumnElement[bool], limit: int | None = None) -> list[str]:
    """Returns the ids of the runs that meet all conditions, newest first."""
    query = select(runs.c.id).where(*where).order_by(runs.c.seq.desc()).limit(limit)
    return [str(row.id) for row in connection.execute(query)]


def has_id(*ids: str) -> ColumnElement[bool]:
    """Whether a run has one of these ids."""
    # One parameter: SQLAlchemy would look at each of a thousand ids otherwise.
    return runs.c.id.in_(bindparam("ids", [storable_text(one) for one in ids], Text(), expanding=True, unique=True))


def matches(wanted: RunFilter) -> Iterator[ColumnElement[bool]]:
    """Yields the conditions of a filter, its limit left out."""
    model, dataset, runtime = wanted.get("model"), wanted.get("dataset"), wanted.get("runtime")
    kind, trials = wanted.get("kind"), wanted.get("trials", False)
    if model is not None:
        yield runs.c.model.in_(_named("model", model))
    if dataset is not None:
        yield runs.c.dataset.in_(_named("dataset", dataset))
    if runtime is not None:
        yield runs.c.stack.in_(select(stacks.c.fingerprint).where(_like(stacks.c.runtime, runtime)))
    if kind is not None:
        yield of_kinds(kind)
    elif runtime is None:
        # "last" is the last evaluation; other facts come only when they are named.
        yield of_kinds(*MEASURED_KINDS) if trials else of_kinds(RunKind.EVALUATION)
    elif not trials:
        yield runs.c.kind != RunKind.TRIAL.value


def of_kinds(*kinds: RunKind) -> ColumnElement[bool]:
    """Whether a run is of one of these kinds."""
    if RunKind.EVALUATION not in kinds:
        return runs.c.kind.in_(kinds)
    # Most runs are evaluations. Said like this, SQLite does not take the index of kinds for the narrowest one.
    return runs.c.kind.not_in([kind for kind in RunKind if kind not in kinds])


def shared_names(connection: Connection) -> list[str]:
    """Returns the names that several datasets share."""
    return [str(row.name) for row in connection.execute(statements.shared_names())]


def dataset_names(connection: Connection) -> dict[str, str]:
    """Returns what each dataset is called, by fingerprint: name#fingerprint where several share the name."""
    shared = set(shared_names(connection))
    rows = load_rows(connection, datasets)
    named = [DatasetRecord(row["fingerprint"], row["name"], row["size"]) for row in rows]
    return {one.fingerprint: full_name(one) if one.name in shared else one.name for one in named}


def full_name(dataset: DatasetRecord) -> str:
    return f"{dataset.name}#{dataset.fingerprint[:_SHOWN]}"


def load_rows(connection: Connection, table: Table, *where: ColumnElement[bool], lock: bool = False) -> list[_Values]:
    """Rows of any table, each found to bear its checksum; JSON is given as text. `lock`: until the transaction ends."""
    query = everything(table).where(*where)
    result = connection.execute(query.with_for_update(key_share=True) if lock else query)
    return [row._asdict() for row in checked_rows(table.name, result)]


class _Subjects:
    """The models, datasets, stacks and locks of some runs. Many runs share them, so that each is read once."""

    def __init__(self, connection: Connection, rows: Sequence[Row[Any]]) -> None:
        models_, datasets_, stacks_, locks_ = (
            _by_fingerprint(connection, table, set(map(attrgetter(name), rows)))
            for table, name in ((models, "model"), (datasets, "dataset"), (stacks, "stack"), (locks, "lock"))
        )
        # Many runs share a record, and have the same object.
        self._models = {
            key: ModelRecord(key, row.ref, row.format, JsonText(row.manifest)) for key, row in models_.items()
        }
        shared = set(shared_names(connection)) if rows else set()
        self._datasets = {key: _dataset(row, shared) for key, row in datasets_.items()}
        self._stacks = {
            (stack, lock): StackRecord(stack, row.runtime, JsonText(row.identity), JsonText(locks_[lock].content))
            for stack, lock in {(row.stack, row.lock) for row in rows}
            for row in (stacks_[stack],)
        }

    def run(self, row: Sequence[Any], stages: Mapping[str, str]) -> Run:
        # Taken apart at once, in the order of the table's columns: names would be looked up a million times.
        seq, run_id, model, dataset, stack, attempt, lock, resolved, created, _, kind = row
        return Run(
            id=run_id,
            key=RunKey(model, dataset, stack, attempt),
            created=created,
            model=self._models[model],
            dataset=self._datasets[dataset],
            stack=self._stacks[stack, lock],
            resolved=JsonText(resolved),
            stages=stages,
            kind=RunKind(kind),
            number=int(seq),
        )


def _dataset(row: Row[Any], shared: Collection[str]) -> DatasetRecord:
    """A dataset that shares its name with others is called name#fingerprint."""
    record = DatasetRecord(row.fingerprint, row.name, row.size, JsonText(row.details))
    return replace(record, name=full_name(record)) if record.name in shared else record


def _by_fingerprint(connection: Connection, table: Table, wanted: Collection[str]) -> dict[str, Row[Any]]:
    by_fingerprint: dict[str, Row[Any]] = {}
    for chunk in in_chunks(wanted):
        result = connection.execute(statements.of_fingerprints(table), {"wanted": chunk})
        by_fingerprint |= {row.fingerprint: row for row in checked_rows(table.name, result)}
    if len(by_fingerprint) < len(wanted):
        raise DamagedRow(
            f"{len(wanted) - len(by_fingerprint)} of {len(wanted)} {table.name} that runs refer to are missing"
        )
    return by_fingerprint


def _named(kind: str, pattern: str) -> Select[tuple[str]]:
    """Selects the fingerprints of models or datasets that have, or had, a name like this."""
    name = _like(aliases.c.name, pattern)
    if kind == "model" and "@" not in pattern:
        name = or_(name, _like(aliases.c.name, f"{pattern}@*"))
    if kind == "dataset" and (parts_of_name := NAME_AND_DIGITS.fullmatch(pattern)):
        stem, digits = parts_of_name[1], parts_of_name[2]
        content = aliases.c.fingerprint.startswith(digits.lower())
        if stem:
            content = and_(_like(aliases.c.name, stem), content)
        name = or_(name, content)
    return select(aliases.c.fingerprint).where(aliases.c.kind == kind, name)


def _like(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    """Whether a text matches a pattern with a shell's `*` and `?`, without regard to case."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    wildcards = escaped.replace("*", "%").replace("?", "_")
    # ILIKE and not LIKE: that one ignores case in SQLite and heeds it in PostgreSQL.
    return column.ilike(wildcards, escape="\\")


def next_attempt(connection: Connection, model: str, dataset: str, stack: str) -> int:
    """Returns the first attempt number that no run with these three fingerprints has yet."""
    run = runs.c
    query = select(func.max(run.attempt)).where(run.model == model, run.dataset == dataset, run.stack == stack)
    last = connection.execute(query).scalar()
    return 0 if last is None else int(last) + 1


def has_alias(connection: Connection, kind: str, name: str, fingerprint: str) -> bool:
    alias = aliases.c
    same = (alias.kind == kind, alias.name == name, alias.fingerprint == fingerprint)
    return connection.execute(select(alias.kind).where(*same)).first() is not None


def load_stages(connection: Connection, run_ids: Collection[str]) -> dict[str, dict[str, StageState]]:
    by_run: dict[str, dict[str, StageState]] = {}
    for row in _stage_rows(connection, run_ids):
        state = StageState(row.state == DONE, row.error, JsonText(row.details), row.updated)
        by_run.setdefault(row.run_id, {})[row.stage] = state
    return by_run


def _stage_words(
    connection: Connection, run_ids: Collection[str], names: Collection[str] | None
) -> dict[str, dict[str, str]]:
    """The stages (None: all) of runs in words, which take a tenth of the memory of `StageState`."""
    by_run: dict[str, dict[str, str]] = {}
    for row in _stage_rows(connection, run_ids, names):
        by_run.setdefault(row.run_id, {})[intern(row.stage)] = stage_words(row.state == DONE, row.error)
    return by_run


def _stage_rows(
    connection: Connection, run_ids: Collection[str], names: Collection[str] | None = None
) -> Iterator[Row[Any]]:
    for chunk in in_chunks(run_ids):
        query = statements.stages_of_runs()
        if names is not None:
            query = query.where(stages.c.stage.in_(names))
        yield from checked_rows(stages.name, connection.execute(query, {"of_runs": chunk}))


def load_observations(
    connection: Connection,
    run_ids: Collection[str] | None,
    *,
    metrics: Collection[str] | None = None,
    scope: str | None = None,
) -> dict[str, list[Observation]]:
    by_run: dict[str, list[Observation]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for row in _observation_rows(connection, run_ids, metrics=metrics, scope=scope):
        by_run.setdefault(row.run_id, []).append(_observation(row))
        counts[row.run_id, row.stage] += 1
    if run_ids is not None and metrics is None and scope is None:
        _check_counts(connection, run_ids, counts)
    return by_run


def load_dated_observations(
    connection: Connection, run_ids: Collection[str], metric: str
) -> dict[str, list[tuple[Observation, datetime]]]:
    by_run: dict[str, list[tuple[Observation, datetime]]] = {}
    for row in _observation_rows(connection, run_ids, metrics=[metric]):
        by_run.setdefault(row.run_id, []).append((_observation(row), row.created))
    return by_run


def load_observations_by_stage(connection: Connection, run_id: str) -> dict[str, list[Observation]]:
    by_stage: dict[str, list[Observation]] = {}
    for row in _observation_rows(connection, [run_id]):
        by_stage.setdefault(row.stage, []).append(_observation(row))
    return by_stage


def _observation(row: Row[Any]) -> Observation:
    return Observation(
        metric=row.metric,
        value=row.value,
        scope=row.scope,
        unit=row.unit,
        low=row.low,
        high=row.high,
        n=row.n,
        provenance=Provenance(row.provenance),
        details=json.loads(row.details),
    )


def _check_counts(connection: Connection, run_ids: Collection[str], counts: Mapping[tuple[str, str], int]) -> None:
    """Damage may also make rows vanish: each stage knows how many facts it has."""
    for row in _stage_rows(connection, run_ids):
        if row.facts != counts.get((row.run_id, row.stage), 0):
            raise DamagedRow(
                f"stage {row.stage} of run {row.run_id} has {counts.get((row.run_id, row.stage), 0)} observations "
                f"instead of {row.facts}"
            )


def _observation_rows(
    connection: Connection,
    run_ids: Collection[str] | None,
    *,
    metrics: Collection[str] | None = None,
    scope: str | None = None,
) -> Iterator[Row[Any]]:
    """Rows that bear their checksums, with details as text."""
    query = everything(observations).order_by(observations.c.seq)
    if metrics is not None:
        query = query.where(observations.c.metric.in_(metrics))
    if scope is not None:
        query = query.where(observations.c.scope == scope)
    chunks: Iterable[list[str] | None] = [None] if run_ids is None else in_chunks(run_ids)
    for chunk in chunks:
        chosen = query if chunk is None else query.where(observations.c.run_id.in_(chunk))
        yield from checked_rows(observations.name, connection.execute(chosen))


def observation_table(connection: Connection, run_ids: Collection[str] | None) -> pa.Table:
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    about = {"model": text, "dataset": text, "runtime": text, "runtime_version": text, "precision": text}
    facts = {"stage": text, "metric": text, "scope": text, "value": number, "low": number, "high": number}
    facts |= {"unit": text, "n": pa.int64(), "provenance": text, "created": pa.timestamp("us", tz="UTC")}
    rows = list(_observation_rows(connection, run_ids))
    subjects = _subjects(connection)
    columns = {"run": pa.array([row.run_id for row in rows], text)}
    columns |= {name: pa.array([subjects[row.run_id][name] for row in rows], kind) for name, kind in about.items()}
    fields = {**facts, "details": text}
    columns |= {name: pa.array([getattr(row, name) for row in rows], kind) for name, kind in fields.items()}
    return pa.table(columns)


def _subjects(connection: Connection) -> dict[str, dict[str, Any]]:
    """What each run is about, without the manifests and locks."""
    query = (
        select(runs.c.id, runs.c.resolved, models.c.ref, datasets.c.name, stacks.c.runtime, stacks.c.identity)
        .join(models, models.c.fingerprint == runs.c.model)
        .join(datasets, datasets.c.fingerprint == runs.c.dataset)
        .join(stacks, stacks.c.fingerprint == runs.c.stack)
    )
    return {
        row.id: {
            "model": row.ref,
            "dataset": row.name,
            "runtime": row.runtime,
            "runtime_version": _text(row.identity.get("version")),
            "precision": _text(row.resolved.get("precision")),
        }
        for row in connection.execute(query)
    }


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def in_chunks(ids: Iterable[T], most: int = _CHUNK) -> Iterator[list[T]]:
    """Yields the ids in lists of at most `most`: a statement takes a limited number of values."""
    everything = list(ids)
    for start in range(0, len(everything), most):
        yield everything[start : start + most]
