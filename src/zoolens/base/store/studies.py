"""Studies and their trials, in tables of their own: reading one study reads no run that does not belong to it.

What is said of a study or of a trial is never changed. A later row about the same one counts instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, insert, select

from zoolens.base.store import checksums
from zoolens.base.store.checksums import DamagedRow
from zoolens.base.store.queries import load_rows
from zoolens.base.store.schema import studies, trial_sides, trials
from zoolens.base.store.values import storable_text, to_json


@dataclass(frozen=True)
class StudyRecord:
    """What is said of a study as a whole. `removed`: it is left out where studies are listed."""

    name: str
    frameworks: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    removed: bool = False


@dataclass(frozen=True)
class TrialSide:
    """The run of one framework in a trial. `error`: why the side failed; None: it did not fail."""

    framework: str
    run: str
    error: str | None = None


@dataclass(frozen=True)
class TrialRecord:
    """One setting of the hyperparameters, and the runs of its sides. The name is unique within the study."""

    study: str
    name: str
    hyperparameters: Mapping[str, Any]
    sides: tuple[TrialSide, ...]
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


def add_study(connection: Connection, study: StudyRecord, now: datetime) -> bool:
    """Whether there was anything new to say."""
    stored = replace(study, name=storable_text(study.name), details=json.loads(to_json(study.details)))
    if load_studies(connection, study.name).get(stored.name) == stored:
        return False
    content = {"frameworks": list(study.frameworks), "details": dict(study.details), "removed": study.removed}
    insert_row(connection, studies, {"name": study.name, **content, "created": now})
    return True


def load_studies(connection: Connection, name: str | None = None) -> dict[str, StudyRecord]:
    """The last word on each study, or on the one of this name."""
    rows = load_rows(connection, studies, *(() if name is None else (studies.c.name == storable_text(name),)))
    return {
        row["name"]: StudyRecord(
            row["name"], tuple(json.loads(row["frameworks"])), json.loads(row["details"]), bool(row["removed"])
        )
        for row in sorted(rows, key=lambda row: int(row["seq"]))
    }


def add_trial(connection: Connection, trial: TrialRecord, now: datetime) -> bool:
    """Whether there was anything new to say."""
    known = rows_of_trials(connection, trial.study, trial.name)
    if known and _trial(*known[-1]) == _stored(trial):
        return False
    content = {
        "hyperparameters": dict(trial.hyperparameters),
        "notes": list(trial.notes),
        "details": dict(trial.details),
    }
    about = {"study": trial.study, "name": trial.name, **content, "sides": len(trial.sides), "created": now}
    number = insert_row(connection, trials, about)
    for place, side in enumerate(trial.sides):
        row = {"trial": number, "place": place, "framework": side.framework, "run_id": side.run, "error": side.error}
        insert_row(connection, trial_sides, row)
    return True


def load_trials(connection: Connection, study: str) -> list[TrialRecord]:
    """The last word on each trial of a study, in the order in which the trials were first added."""
    records = (_trial(row, sides) for row, sides in rows_of_trials(connection, study))
    return list({trial.name: trial for trial in records}.values())


def names_with_trials(connection: Connection) -> list[str]:
    """Names of the studies that have a trial."""
    return [str(name) for name in connection.execute(select(trials.c.study).distinct()).scalars()]


_Row = Mapping[str, Any]


def rows_of_trials(connection: Connection, study: str, name: str | None = None) -> list[tuple[_Row, list[_Row]]]:
    """The rows about the trials of a study, oldest first, each with the rows of its sides in their order."""
    wanted = [trials.c.study == storable_text(study)]
    if name is not None:
        wanted.append(trials.c.name == storable_text(name))
    sides: dict[int, list[_Row]] = {}
    for side in load_rows(connection, trial_sides, trial_sides.c.trial.in_(select(trials.c.seq).where(*wanted))):
        sides.setdefault(side["trial"], []).append(side)
    rows: list[tuple[_Row, list[_Row]]] = []
    for row in sorted(load_rows(connection, trials, *wanted), key=lambda row: int(row["seq"])):
        own = sorted(sides.get(row["seq"], ()), key=lambda side: int(side["place"]))
        if len(own) != row["sides"]:
            raise DamagedRow(f"trial {row['name']} of {row['study']} has {len(own)} sides instead of {row['sides']}")
        rows.append((row, own))
    return rows


def _trial(row: _Row, sides: Sequence[_Row]) -> TrialRecord:
    return TrialRecord(
        study=row["study"],
        name=row["name"],
        hyperparameters=json.loads(row["hyperparameters"]),
        sides=tuple(TrialSide(side["framework"], side["run_id"], side["error"]) for side in sides),
        notes=tuple(json.loads(row["notes"])),
        details=json.loads(row["details"]),
    )


def _stored(trial: TrialRecord) -> TrialRecord:
    """The trial as the store gives it back: tuples are lists, numpy's numbers are plain ones."""
    return TrialRecord(
        study=storable_text(trial.study),
        name=storable_text(trial.name),
        hyperparameters=json.loads(to_json(trial.hyperparameters)),
        sides=tuple(
            TrialSide(
                storable_text(side.framework), side.run, None if side.error is None else storable_text(side.error)
            )
            for side in trial.sides
        ),
        notes=tuple(json.loads(to_json(list(trial.notes)))),
        details=json.loads(to_json(trial.details)),
    )


def insert_row(connection: Connection, table: Table, row: Mapping[str, Any]) -> int:
    """Insert a row with its checksum; its primary key, or the first column of it."""
    signed = {**row, checksums.COLUMN: checksums.checksum(table.name, row)}
    return int(connection.execute(insert(table).values(**signed)).inserted_primary_key[0])  # type: ignore[index]
