"""Writing: records to rows. Every function takes an open connection and begins no transaction of its own.

A row whose key is there already stays as it is. Every row bears a checksum of its content.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Table, insert, update

from zoolens.base.errors import UnknownName
from zoolens.base.store import schema, statements
from zoolens.base.store.bulk import WrittenPart
from zoolens.base.store.checksums import COLUMN, checked_rows, checksum
from zoolens.base.store.figures import keep_figures
from zoolens.base.store.part_rows import part_name
from zoolens.base.store.queries import load_rows, load_run, next_attempt
from zoolens.base.store.records import (
    DONE,
    DatasetRecord,
    ModelRecord,
    Observation,
    Run,
    RunKey,
    RunKind,
    StackRecord,
    fingerprint,
)


def now() -> datetime:
    return datetime.now(UTC)


def note_change(connection: Connection, run_id: str) -> None:
    """Records that a run has changed, so that readers with a copy load it again."""
    connection.execute(insert(schema.changes), {"run_id": run_id})


# --- runs


def create_run(
    connection: Connection,
    model: ModelRecord,
    dataset: DatasetRecord,
    stack: StackRecord,
    *,
    kind: RunKind,
    attempt: int | None,
    resolved: Mapping[str, Any],
) -> Run:
    """The run with this content key, new or as it was; what the doctor tried becomes what somebody asked for. Without
    an `attempt` it is a new one, under the next number, also where two processes begin one at the same time."""
    created = now()
    lock = _add_subjects(connection, model, dataset, stack, created)
    if attempt is None:
        # Others who number attempts of this model wait here until the transaction ends. In SQLite all writers do.
        load_rows(connection, schema.models, schema.models.c.fingerprint == model.fingerprint, lock=True)
        attempt = next_attempt(connection, model.fingerprint, dataset.fingerprint, stack.fingerprint)
    key = RunKey(model.fingerprint, dataset.fingerprint, stack.fingerprint, attempt)
    row = {"id": key.id, "model": key.model, "dataset": key.dataset, "stack": key.stack, "attempt": attempt}
    row |= {"lock": lock, "resolved": dict(resolved), "created": created, "kind": kind.value}
    add_rows(connection, schema.runs, [row])
    if kind is RunKind.EVALUATION and (known := lock_run(connection, key.id))["kind"] == RunKind.TRIAL:
        change_run(connection, known, kind=kind.value)
    note_change(connection, key.id)
    run = load_run(connection, key.id)
    assert run is not None  # it was added or is there
    return run


def _add_subjects(
    connection: Connection, model: ModelRecord, dataset: DatasetRecord, stack: StackRecord, created: datetime
) -> str:
    """What a run is about; returns the key of its lock."""
    lock = fingerprint(stack.lock)
    row: dict[str, Any] = {"fingerprint": model.fingerprint, "ref": model.ref, "format": model.format}
    add_rows(connection, schema.models, [{**row, "manifest": dict(model.manifest), "created": created}])
    row = {"fingerprint": dataset.fingerprint, "name": dataset.name, "size": dataset.size}
    add_rows(connection, schema.datasets, [{**row, "details": dict(dataset.details), "created": created}])
    row = {"fingerprint": stack.fingerprint, "runtime": stack.runtime, "identity": dict(stack.identity)}
    add_rows(connection, schema.stacks, [{**row, "created": created}])
    add_rows(connection, schema.locks, [{"fingerprint": lock, "content": dict(stack.lock), "created": created}])
    names = [
        {"kind": "model", "name": model.ref, "fingerprint": model.fingerprint},
        {"kind": "dataset", "name": dataset.name, "fingerprint": dataset.fingerprint},
    ]
    add_rows(connection, schema.aliases, names)
    return lock


def merge_resolved(connection: Connection, run_id: str, resolved: Mapping[str, Any]) -> None:
    """Add to what only the open session of a run knew; keys given here replace those of the same name."""
    row = lock_run(connection, run_id)
    change_run(connection, row, resolved={**json.loads(row["resolved"]), **resolved})
    note_change(connection, run_id)


def change_run(connection: Connection, row: Mapping[str, Any], **values: Any) -> None:
    """Give columns of a run, whose row `lock_run` holds, other values, and the row its checksum."""
    changed = {**row, **values}
    signed = {**values, COLUMN: checksum(schema.runs.name, changed)}
    this_run = schema.runs.c.id == row["id"]
    connection.execute(update(schema.runs).where(this_run).values(**signed))


def lock_run(connection: Connection, run_id: str) -> dict[str, Any]:
    """Hold the run against other writers until the transaction ends, and return its row, JSON as text."""
    rows = list(checked_rows(schema.runs.name, connection.execute(statements.held_run(), {"run": run_id})))
    if not rows:
        raise UnknownName("run", run_id)
    row: dict[str, Any] = rows[0]._asdict()
    return row


# --- stages and observations


def set_stage(
    connection: Connection,
    run_id: str,
    stage: str,
    state: str,
    *,
    observations: Iterable[Observation] = (),
    error: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Add what a stage found, and say how it ended. A stage that is done stays done, but may get further facts. Two
    processes that end the same stage do so one after the other."""
    lock_run(connection, run_id)
    table, facts = schema.stages, schema.observations
    updated = now()
    add_rows(connection, facts, [_observation_row(run_id, stage, observation, updated) for observation in observations])
    this = {"run": run_id, "stage_name": stage}
    values = {"state": state, "error": error, "details": dict(details or {}), "updated": updated}
    known = [row._asdict() for row in checked_rows(table.name, connection.execute(statements.one_stage(), this))]
    if known and known[0]["state"] == DONE:
        values = {name: known[0][name] for name in values} | {"details": json.loads(known[0]["details"])}
    count = connection.execute(statements.fact_count(), this).scalar_one()
    row = {"run_id": run_id, "stage": stage, **values, "facts": count}
    if known:
        row[COLUMN] = checksum(table.name, row)
        same = (table.c.run_id == run_id, table.c.stage == stage)
        connection.execute(update(table).where(*same).values(**row))
    else:
        add_rows(connection, table, [row])
    keep_figures(connection, [run_id])
    note_change(connection, run_id)


def _observation_row(run_id: str, stage: str, observation: Observation, created: datetime) -> dict[str, Any]:
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
        "created": created,
    }


# --- parts


def register_part(connection: Connection, run_id: str, kind: str, part: int, written: WrittenPart) -> str | None:
    """The name of the file that is registered for a part: this one, or that of a process that was faster."""
    lock_run(connection, run_id)  # whoever merges runs has compared their parts, and adds its own
    facts = {"name": written.name, "sha256": written.sha256, "rows": written.rows, "bytes": written.bytes}
    add_rows(connection, schema.parts, [{"run_id": run_id, "kind": kind, "part": part, **facts, "created": now()}])
    note_change(connection, run_id)
    return part_name(connection, run_id, kind, part)


# --- rows


def add_rows(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, each with its checksum; those whose key exists are ignored."""
    if not rows:
        return
    signed = [{**row, COLUMN: checksum(table.name, row)} for row in rows]
    connection.execute(statements.insert_new(table, connection.dialect.name), signed)
