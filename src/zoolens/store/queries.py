"""Reading: rows to records. Every function takes an open connection and begins no transaction of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Select, Text, cast, or_, select
from sqlalchemy.engine import Row
from sqlalchemy.sql.elements import ColumnElement

from zoolens.store.records import (
    ASIDE,
    DatasetRecord,
    ModelRecord,
    Observation,
    Part,
    Provenance,
    Run,
    RunKey,
    StackRecord,
    StageState,
)
from zoolens.store.schema import DONE, aliases, datasets, locks, models, observations, parts, runs, stacks, stages

if TYPE_CHECKING:
    import pyarrow as pa

_CHUNK: Final = 10_000  # ids a statement: SQLite takes at most 32,766 values


def load_runs(
    connection: Connection,
    *,
    ids: Collection[str] | None = None,
    prefix: str | None = None,
    model: str | None = None,
    dataset: str | None = None,
    runtime: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> list[Run]:
    query = _run_query().order_by(runs.c.seq.desc()).limit(limit)
    if offset:
        query = query.offset(offset)
    if ids is not None:
        query = query.where(runs.c.id.in_(ids))
    if prefix is not None:
        query = query.where(runs.c.id.startswith(prefix))
    if model is not None:
        query = query.where(runs.c.model.in_(_named("model", model)))
    if dataset is not None:
        query = query.where(runs.c.dataset.in_(_named("dataset", dataset)))
    if runtime is not None:
        query = query.where(_like(stacks.c.runtime, runtime))
    elif ids is None and prefix is None:  # "last" is the last evaluation; other facts come only when they are named
        query = query.where(~stacks.c.runtime.contains(ASIDE))
    rows = connection.execute(query).all()
    states = load_stages(connection, [row.id for row in rows])
    return [_run(row, states.get(row.id, {})) for row in rows]


def _run_query() -> Select[Any]:
    return (
        select(
            runs.c.id,
            runs.c.model,
            runs.c.dataset,
            runs.c.stack,
            runs.c.attempt,
            runs.c.resolved,
            runs.c.created,
            models.c.ref,
            models.c.format,
            models.c.manifest,
            datasets.c.name,
            datasets.c.size,
            datasets.c.details,
            stacks.c.runtime,
            stacks.c.identity,
            locks.c.content,
        )
        .join(models, models.c.fingerprint == runs.c.model)
        .join(datasets, datasets.c.fingerprint == runs.c.dataset)
        .join(stacks, stacks.c.fingerprint == runs.c.stack)
        .join(locks, locks.c.fingerprint == runs.c.lock)
    )


def _run(row: Row[Any], states: dict[str, StageState]) -> Run:
    return Run(
        id=row.id,
        key=RunKey(row.model, row.dataset, row.stack, row.attempt),
        created=row.created,
        model=ModelRecord(row.model, row.ref, row.format, row.manifest),
        dataset=DatasetRecord(row.dataset, row.name, row.size, row.details),
        stack=StackRecord(row.stack, row.runtime, row.identity, row.content),
        resolved=row.resolved,
        stages={stage: str(state) for stage, state in states.items()},
    )


def _named(kind: str, pattern: str) -> Select[tuple[str]]:
    """Fingerprints of what goes, or went, by a name like this."""
    name = _like(aliases.c.name, pattern)
    if kind == "model" and "@" not in pattern:
        name = or_(name, _like(aliases.c.name, f"{pattern}@*"))
    return select(aliases.c.fingerprint).where(aliases.c.kind == kind, name)


def _like(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    """`*` and `?` as a shell means them; the same on both databases, which differ in case sensitivity otherwise."""
    escaped = pattern.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return column.ilike(escaped.replace("*", "%").replace("?", "_"), escape="\\")


def has_alias(connection: Connection, kind: str, name: str, fingerprint: str) -> bool:
    alias = aliases.c
    same = (alias.kind == kind, alias.name == name, alias.fingerprint == fingerprint)
    return connection.execute(select(alias.kind).where(*same)).first() is not None


def load_stages(connection: Connection, run_ids: Collection[str]) -> dict[str, dict[str, StageState]]:
    found: dict[str, dict[str, StageState]] = {}
    for chunk in _chunks(run_ids):
        query = select(stages).where(stages.c.run_id.in_(chunk)).order_by(stages.c.updated, stages.c.stage)
        for row in connection.execute(query):
            state = StageState(row.state == DONE, row.error, row.details, row.updated)
            found.setdefault(row.run_id, {})[row.stage] = state
    return found


def observation_row(run_id: str, stage: str, observation: Observation, now: datetime) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "stage": stage,
        "metric": observation.metric,
        "scope": observation.scope,
        "value": observation.value,
        "low": observation.low,
        "high": observation.high,
        "unit": observation.unit,
        "n": observation.n,
        "provenance": str(observation.provenance),
        "details": dict(observation.details),
        "created": now,
    }


def load_observations(
    connection: Connection,
    run_ids: Collection[str] | None,
    *,
    metrics: Collection[str] | None = None,
    scope: str | None = None,
) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for row in _observation_rows(connection, run_ids, metrics=metrics, scope=scope):
        observation = Observation(
            metric=row.metric,
            value=row.value,
            scope=row.scope,
            unit=row.unit,
            low=row.low,
            high=row.high,
            n=row.n,
            provenance=Provenance(row.provenance),
            details=row.details,
        )
        found.setdefault(row.run_id, []).append(observation)
    return found


def _observation_rows(
    connection: Connection,
    run_ids: Collection[str] | None,
    *,
    metrics: Collection[str] | None = None,
    scope: str | None = None,
    details: ColumnElement[Any] = observations.c.details,
) -> Iterator[Row[Any]]:
    others = (column for column in observations.c if column.name not in ("seq", "details"))
    query: Select[Any] = select(*others, details).order_by(observations.c.seq)
    if metrics is not None:
        query = query.where(observations.c.metric.in_(metrics))
    if scope is not None:
        query = query.where(observations.c.scope == scope)
    if run_ids is None:
        yield from connection.execute(query)
        return
    for chunk in _chunks(run_ids):
        yield from connection.execute(query.where(observations.c.run_id.in_(chunk)))


def observation_table(connection: Connection, run_ids: Collection[str] | None) -> pa.Table:
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    about = {"model": text, "dataset": text, "runtime": text, "runtime_version": text, "precision": text}
    facts = {"stage": text, "metric": text, "scope": text, "value": number, "low": number, "high": number}
    facts |= {"unit": text, "n": pa.int64(), "provenance": text, "created": pa.timestamp("us", tz="UTC")}
    json_text = cast(observations.c.details, Text).label("details")  # as it is stored, not parsed and written again
    rows = list(_observation_rows(connection, run_ids, details=json_text))
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


def part_name(connection: Connection, run_id: str, kind: str, part: int) -> str | None:
    """The file that is registered for a part; None if there is no such part."""
    same = (parts.c.run_id == run_id, parts.c.kind == kind, parts.c.part == part)
    return connection.execute(select(parts.c.name).where(*same)).scalar()


def load_parts(connection: Connection, run_id: str, kind: str, locate: Callable[[str], Path]) -> list[Part]:
    query = select(parts).where(parts.c.run_id == run_id, parts.c.kind == kind).order_by(parts.c.part)
    return [
        Part(
            run_id=row.run_id,
            kind=row.kind,
            part=row.part,
            rows=row.rows,
            bytes=row.bytes,
            sha256=row.sha256,
            path=locate(row.name),
            created=row.created,
        )
        for row in connection.execute(query)
    ]


def _chunks(ids: Collection[str]) -> Iterator[list[str]]:
    everything = list(ids)
    for start in range(0, len(everything), _CHUNK):
        yield everything[start : start + _CHUNK]
