"""Stores that earlier versions wrote are opened with every key, figure and prediction as it was.

`data/store-0002` was written by the last version before studies had tables: evaluations, what the doctor tried, claims,
a structure, operators, and studies with predictions and labels.
"""

import json
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from zoolens.base.store import opening
from zoolens.base.store.checking import check_store
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import kept_labels, trained_answers
from zoolens.testing.postgres import postgres_server
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names

OLD = Path(__file__).parent / "data" / "store-0002"
KINDS = {"claim:": RunKind.CLAIM, "graph:": RunKind.STRUCTURE, "operator:": RunKind.OPERATOR, "theirs:": RunKind.OTHER}
KINDS |= {"crosstrain:study": RunKind.STUDY, "crosstrain:labels": RunKind.LABELS, "crosstrain:": RunKind.TRAINING}
TABLES = ("models", "datasets", "stacks", "locks", "aliases", "stages", "observations", "changes", "parts")
_RUNS = "SELECT seq, id, model, dataset, stack, attempt, lock, resolved, created FROM runs ORDER BY seq"


@pytest.fixture
def path(tmp_path):
    shutil.copytree(OLD, tmp_path / "old")
    return tmp_path / "old" / "store.sqlite"


def rows(path):
    """Everything that the second schema had, but for the checksums of runs, which cover their kind now."""
    with closing(sqlite3.connect(path)) as database:
        runs = database.execute(_RUNS).fetchall()
        return runs, {name: database.execute(f"SELECT * FROM {name} ORDER BY rowid").fetchall() for name in TABLES}


_CAME_LATER = {RunKind.SERVING, RunKind.LOAD, RunKind.TRACE, RunKind.MACHINE, RunKind.VERIFICATION}
OLD_KINDS = set(RunKind) - _CAME_LATER


def kind_of(run):
    found = (kind for start, kind in KINDS.items() if run.stack.runtime.startswith(start))
    return next(found, RunKind.TRIAL if run.origin.get("purpose") == "trial" else RunKind.EVALUATION)


def test_every_row_is_as_it_was(path):
    before = rows(path)
    with open_store(path) as store:
        assert check_store(store).damage == ()
        runs = store.runs_of([run[1] for run in before[0]])
        assert {run.kind for run in runs} == OLD_KINDS
        assert {run.id: run.kind for run in runs} == {run.id: kind_of(run) for run in runs}
        assert all(run.id == run.key.id for run in runs)
        assert {run.kind for run in store.runs(trials=True)} == {RunKind.EVALUATION, RunKind.TRIAL}
        for run in runs:
            for kind in store.kinds(run.id):
                assert store.table(run.id, kind).num_rows
    assert rows(path) == before


def test_studies_are_read_as_they_were(path):
    expected = json.loads((OLD / "studies.json").read_text())
    with open_store(path) as store:
        assert (study_names(store), study_names(store, hidden=True)) == (expected["names"], expected["hidden"])
        for told in expected["studies"]:
            assert as_json(read_study(store, told["name"])) == told
        trial = read_study(store, "first").trials[0]
        run = store.run(trial.side("torch").run)
        assert trained_answers(store, run.id).tolist() == [0, 1, 2, 2]
        assert kept_labels(store, run.dataset).tolist() == [0, 1, 2, 1]


def as_json(study):
    told = asdict(study)
    for trial in told["trials"]:
        trial["churn"] = [[*pair, share] for pair, share in trial["churn"].items()]
    return json.loads(json.dumps(told))


def test_a_damaged_row_is_not_mended_on_the_way(path):
    with closing(sqlite3.connect(path)) as database, database:
        stack = "SELECT fingerprint FROM stacks WHERE runtime LIKE 'graph:%'"
        database.execute(f'UPDATE runs SET resolved = \'{{"precision":"int8"}}\' WHERE stack IN ({stack})')
    with open_store(path) as store:
        damage = check_store(store).damage
    assert damage
    assert all("runs" in sentence and "checksum" in sentence for sentence in damage)


def test_a_store_is_brought_up_to_date_in_postgresql_too(path, monkeypatch):
    """The rows of the old store are copied into tables of the second schema, and migrated there."""
    expected = json.loads((OLD / "studies.json").read_text())
    with postgres_server() as server:
        url = server.database()
        copy_second_schema(path, url)
        assert open_at_once(url, monkeypatch) == 1
        with open_store(url) as store:
            for told in expected["studies"]:
                assert as_json(read_study(store, told["name"])) == told
            runs = store.runs_of(run[1] for run in rows(path)[0])
            assert {run.id: run.kind for run in runs} == {run.id: kind_of(run) for run in runs}
            assert {run.kind for run in runs} == OLD_KINDS


def test_several_clients_bring_a_store_up_to_date_once(path, monkeypatch):
    assert open_at_once(path, monkeypatch) == 1
    with open_store(path) as store:
        assert check_store(store).damage == ()


def open_at_once(target, monkeypatch):
    """How often a store was migrated when four clients opened it at the same time."""
    migrations, start, upgrade = [], threading.Barrier(4), opening._upgrade

    def counted(connection):
        migrations.append(connection)
        upgrade(connection)

    def open_it(_):
        start.wait()
        with open_store(target) as store:
            return store.id

    with monkeypatch.context() as patch:
        patch.setattr(opening, "_upgrade", counted)
        with ThreadPoolExecutor(4) as clients:
            assert len(set(clients.map(open_it, range(4)))) == 1
    return len(migrations)


def copy_second_schema(path, url):
    import psycopg
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine

    from zoolens.base.store.opening import MIGRATIONS

    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
    engine.dispose()
    with closing(sqlite3.connect(path)) as old, psycopg.connect(url) as new:
        old.row_factory = sqlite3.Row
        for table in ("models", "datasets", "stacks", "locks", "aliases", "runs", "stages", "observations", "parts"):
            for row in old.execute(f"SELECT * FROM {table}"):
                values = [f"{row[key]}+00" if key in ("created", "updated") else row[key] for key in row.keys()]  # noqa: SIM118
                names, places = ", ".join(row.keys()), ", ".join(["%s"] * len(values))
                new.execute(f"INSERT INTO {table} ({names}) VALUES ({places})", values)
