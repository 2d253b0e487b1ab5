"""An excerpt of a store: some of its runs and studies in a new store, with nothing about the others.

Unlike a transfer (`transfer`) it keeps everything as it was, also the times at which it was stored. What names another
run or another model is left out: observations about a pair of runs of which only one is taken, and further names that
the same content was given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, Table, insert, select
from sqlalchemy.sql.elements import ColumnElement

from zoolens.base.store import schema
from zoolens.base.store.figures import keep_figures
from zoolens.base.store.queries import in_chunks, load_rows
from zoolens.base.store.records import Run
from zoolens.base.store.row_copies import insert_rows
from zoolens.base.store.scopes import Dimension, parse_scope
from zoolens.base.store.store import Store
from zoolens.base.store.values import storable_text

_AT_ONCE: Final = 1_000  # runs a statement

Row = dict[str, Any]


def write_excerpt(
    store: Store,
    target: Store,
    run_ids: Collection[str],
    studies: Collection[str] = (),
    records: Collection[str] = (),
    reports: Collection[str] = (),
) -> None:
    """Copy these runs, these studies with the runs of their trials, and these reports into an empty SQLite store.
    `records`: studies of which only what is said of them as a whole is taken, and none of their trials."""
    chosen, mentioned = ([storable_text(name) for name in names] for names in (studies, records))
    study_rows, trials, sides = store.read(lambda connection: _study_rows(connection, chosen, mentioned))
    wanted = dict.fromkeys([*run_ids, *(str(side["run_id"]) for side in sides)])
    for some in in_chunks(sorted(wanted), _AT_ONCE):
        _copy_runs(store, target, some, wanted)
    _insert(target, schema.studies, study_rows)
    _insert(target, schema.trials, trials)
    _insert(target, schema.trial_sides, sides)
    named = schema.reports.c.name.in_([storable_text(name) for name in reports])
    written = store.read(lambda connection: load_rows(connection, schema.reports, named))
    _insert(target, schema.reports, _last_words(written))


def _last_words(reports: Iterable[Row]) -> list[Row]:
    """The last row of each report, behind an empty one with the time at which it was begun: what was said before is
    nobody else's business."""
    by_name: dict[str, list[Row]] = {}
    for row in sorted(reports, key=lambda row: int(row["seq"])):
        by_name.setdefault(row["name"], []).append(row)
    kept = []
    for first, *others in by_name.values():
        if others:
            kept.append({**first, "title": others[-1]["title"], "content": '{"pieces": []}'})
        kept.append(others[-1] if others else first)
    return kept


def left_out(store: Store, excerpt: Store) -> list[str]:
    """The ids of the runs, of every kind, that a store has and an excerpt of it has not."""
    return sorted(stored_ids(store) - stored_ids(excerpt))


def stored_ids(store: Store) -> set[str]:
    """Returns the ids of all runs of a store, of every kind."""
    query = select(schema.runs.c.id)
    ids = store.read(lambda connection: connection.execute(query).scalars().all())
    return set(ids)


def _study_rows(
    connection: Connection, names: Sequence[str], mentioned: Sequence[str]
) -> tuple[list[Row], list[Row], list[Row]]:
    study_rows = load_rows(connection, schema.studies, schema.studies.c.name.in_([*names, *mentioned]))
    trials = load_rows(connection, schema.trials, schema.trials.c.study.in_(names))
    sides: list[Row] = []
    for numbers in in_chunks([row["seq"] for row in trials], _AT_ONCE):
        sides += load_rows(connection, schema.trial_sides, schema.trial_sides.c.trial.in_(numbers))
    return study_rows, trials, sides


def _copy_runs(store: Store, target: Store, ids: Sequence[str], wanted: Collection[str]) -> None:
    named = {run.id: run for run in store.runs_of(ids)}

    def rows(table: Table, *where: ColumnElement[bool]) -> list[Row]:
        return store.read(lambda connection: load_rows(connection, table, *where))

    runs = rows(schema.runs, schema.runs.c.id.in_(ids))
    for table, column in (
        (schema.models, "model"),
        (schema.datasets, "dataset"),
        (schema.stacks, "stack"),
        (schema.locks, "lock"),
    ):
        keys = sorted({str(row[column]) for row in runs})
        subjects = rows(table, table.c.fingerprint.in_(keys))
        _insert(target, table, _renamed(subjects, named.values()) if table is schema.models else subjects)
    _insert(target, schema.aliases, _aliases(rows, named.values()))
    _insert(target, schema.runs, runs)
    observations = rows(schema.observations, schema.observations.c.run_id.in_(ids))
    facts = [row for row in observations if _is_about(str(row["scope"]), wanted)]
    # A stage says how many observations it has, and a check compares: fewer are copied, so they are counted again.
    counts = Counter((row["run_id"], row["stage"]) for row in facts)
    stages = rows(schema.stages, schema.stages.c.run_id.in_(ids))
    counted = [{**row, "facts": counts[row["run_id"], row["stage"]]} for row in stages]
    _insert(target, schema.stages, counted)
    _insert(target, schema.observations, facts)
    target._write(lambda connection: keep_figures(connection, ids))
    _copy_parts(store, target, rows(schema.parts, schema.parts.c.run_id.in_(ids)))
    changes = [{"run_id": row["id"]} for row in sorted(runs, key=lambda row: int(row["seq"]))]
    target._write(lambda connection: connection.execute(insert(schema.changes), changes))


def _is_about(scope: str, runs: Collection[str]) -> bool:
    """Whether an observation is about these runs alone."""
    parsed = parse_scope(scope)
    return parsed.dimension is not Dimension.WITH or parsed.value in runs


def _renamed(models: list[Row], runs: Iterable[Run]) -> list[Row]:
    """Models under the names that the runs give them: the first name of the same content may be another one."""
    names: dict[str, set[str]] = {}
    for run in runs:
        names.setdefault(run.key.model, set()).add(run.ref)
    return [
        row if row["ref"] in names[row["fingerprint"]] else {**row, "ref": min(names[row["fingerprint"]])}
        for row in models
    ]


def _aliases(rows: Any, runs: Iterable[Run]) -> list[Row]:
    models = {run.key.model for run in runs}
    datasets = {run.key.dataset for run in runs}
    names = {("model", run.ref, run.key.model) for run in runs}
    for row in rows(schema.datasets, schema.datasets.c.fingerprint.in_(sorted(datasets))):
        names.add(("dataset", str(row["name"]), str(row["fingerprint"])))
    known = rows(schema.aliases, schema.aliases.c.fingerprint.in_(sorted(models | datasets)))
    kept = [row for row in known if (row["kind"], row["name"], row["fingerprint"]) in names]
    there = {(row["kind"], row["name"], row["fingerprint"]) for row in kept}
    missing = sorted(names - there)
    return kept + [{"kind": kind, "name": name, "fingerprint": digest} for kind, name, digest in missing]


def _copy_parts(store: Store, target: Store, parts: Sequence[Row]) -> None:
    """The files of bulk facts, under the names that they have: their bytes are verified when they are read."""
    for row in parts:
        name = str(row["name"])
        store.bulk.address(name)  # refuses names that are not of its own
        # A file that is lost is said by whoever reads it.
        with suppress(FileNotFoundError):
            target.bulk.place.put(name, store.bulk.place.get(name))
    _insert(target, schema.parts, parts)


def _insert(target: Store, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    target._write(lambda connection: insert_rows(connection, table, rows))
