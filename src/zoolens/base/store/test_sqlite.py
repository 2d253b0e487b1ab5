import logging
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.engine import Engine

from zoolens.base.errors import MissingDependency, StoreError, ZoolensError
from zoolens.base.store.checksums import checksum
from zoolens.base.store.opening import MIGRATIONS, SQLITE_SCHEMA, migrated_schema, statements_of
from zoolens.base.store.records import Observation
from zoolens.base.store.state import REVISIONS
from zoolens.base.store.store import open_store
from zoolens.base.store.transfer import merge_run, pack_run
from zoolens.testing.store_contract import StoreContract
from zoolens.testing.store_records import begin, some_rows


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def target(self, tmp_path):
        return tmp_path / "some folder" / "store.sqlite"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def test_a_file_that_was_moved_with_its_folder_goes_on(tmp_path):
    with open_store(tmp_path / "a" / "x.sqlite") as store:
        store.add_part(begin(store).id, "predictions", 0, some_rows(0))
    (tmp_path / "a").rename(tmp_path / "b")
    with open_store(tmp_path / "b" / "x.sqlite") as store:
        run = begin(store)
        store.add_part(run.id, "predictions", 1, some_rows(1))
        assert store.table(run.id, "predictions").num_rows == 20
    assert not list(tmp_path.rglob("place"))


def test_default_targets(tmp_path, monkeypatch):
    monkeypatch.delenv("ZOOLENS_STORE", raising=False)
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with open_store() as store:
        assert Path(store.name) == tmp_path / "home" / "data" / "store.sqlite"
        assert store.bulk_dir == tmp_path / "home" / "data" / "store.bulk"
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "mine.db"))
    with open_store() as store:
        assert Path(store.name) == tmp_path / "mine.db"
        assert store.bulk_dir == tmp_path / "mine.db.bulk"  # not shared with a mine.sqlite
    with open_store(f"sqlite:///{tmp_path}/url.sqlite") as store:
        assert Path(store.name) == tmp_path / "url.sqlite"


def test_a_store_prints_as_its_name(path):
    with open_store(path) as store:
        assert repr(store) == f"<Store {path}>"


def test_settings_of_the_database(path):
    with open_store(path) as store, store.engine.connect() as connection:
        settings = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous")
        }
    assert settings == {"journal_mode": "wal", "foreign_keys": 1, "synchronous": 2}


@pytest.mark.parametrize(
    "content", [b"this is a letter, not a database\n" * 200, b"x", b"SQLite format 3\0" + b"\7" * 5000]
)
def test_a_file_that_is_no_store_is_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"is not a zoolens store|damaged"):
        open_store(path)
    assert path.read_bytes() == content
    assert [found.name for found in path.parent.iterdir()] == ["store.sqlite"]


def test_a_pipe_is_no_store(path):
    os.mkfifo(path)
    with pytest.raises(StoreError, match="a pipe or a device"):
        open_store(path)


def test_the_database_of_another_program_is_left_alone(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another program.*bookmarks"):
        open_store(path)
    assert path.read_bytes() == before


def read_all(path):
    with open_store(path) as store:
        store.runs()
        store.observation_table()


@pytest.mark.parametrize("damage", ["cut", "overwritten"])
def test_a_damaged_store_is_an_error_of_one_sentence(path, damage):
    with open_store(path) as store:
        for attempt in range(20):
            run = begin(store, attempt=attempt)
            store.finish_stage(run.id, "a", [Observation("x", 1.0, scope=str(i)) for i in range(50)])
    good = path.read_bytes()
    cut = len(good) // 2
    path.write_bytes(good[:cut] if damage == "cut" else good[:4096] + b"\xaa" * (len(good) - 4096))
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        read_all(path)
    assert "damaged" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_store(path):
    path.touch()
    with open_store(path) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mysql://host/name", "cannot be kept in 'mysql'"),
        ("postgresql://host:port/name", "URL cannot be read"),
    ],
)
def test_impossible_targets(target, message):
    with pytest.raises(StoreError, match=message):
        open_store(target)


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        open_store(tmp_path)


def test_a_parent_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be made"):
        open_store(tmp_path / "file" / "store.sqlite")


def test_postgresql_without_its_driver(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDependency, match=r"zoolens\[postgres\]"):
        open_store("postgresql://host/name")


def test_replacing_an_observation_is_ignored(path):
    with open_store(path) as store:
        run = begin(store)
        store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        columns = "run_id, stage, metric, scope, value, unit, provenance, details, created"
        with sqlite3.connect(path) as other:
            other.execute(
                f"INSERT OR REPLACE INTO observations (seq, {columns}) "
                f"SELECT seq, {columns.replace('value', '9')} FROM observations"
            )
        other.close()
        assert [o.value for o in store.observations(run.id)] == [0.5]


def test_opening_a_current_store_imports_neither_alembic_nor_pyarrow(path):
    open_store(path).close()
    code = (
        "import sys; from zoolens.base.store.store import open_store; s = open_store(sys.argv[1]); s.runs();"
        "print([m for m in ('alembic', 'pyarrow', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_opening_a_store_of_today_asks_little(path):
    """Opening is quick because it only looks whether the schema is that of today: nothing is created or migrated."""
    open_store(path).close()
    statements = []

    def note(_connection, _cursor, statement, *_):
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        open_store(path).close()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert 0 < len(statements) < 20
    assert not [one for one in statements if one.lstrip().upper().startswith(("CREATE", "ALTER", "INSERT", "UPDATE"))]


def test_the_known_revisions_are_those_that_are_shipped():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    shipped = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(shipped)) == REVISIONS


def test_a_new_store_has_the_schema_that_the_migrations_make(path):
    """`python -m scripts.write_sqlite_schema` writes `sqlite.sql` again after a migration was added."""
    with open_store(path) as store, store.engine.connect() as connection:
        query = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
        created = [sql for (sql,) in connection.exec_driver_sql(query)]
    assert created == migrated_schema() == list(statements_of(SQLITE_SCHEMA.read_text()))
    assert any(sql.startswith("CREATE TRIGGER observations_refuse_replace") for sql in created)


def hold_lock(path, seconds, locked):
    connection = sqlite3.connect(path)
    connection.execute("BEGIN IMMEDIATE")
    locked.set()
    time.sleep(seconds)
    connection.rollback()
    connection.close()


def test_a_locked_store_is_waited_for_with_one_warning(path, monkeypatch, caplog):
    monkeypatch.setattr("zoolens.base.store.engines.BUSY_SECONDS", 0.05)
    with open_store(path) as store:
        run = begin(store)
        locked = threading.Event()
        other = threading.Thread(target=hold_lock, args=(path, 0.7, locked))
        other.start()
        locked.wait()
        with caplog.at_level(logging.WARNING, logger="zoolens.store"):
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        other.join()
        assert [o.value for o in store.observations(run.id)] == [0.5]
    assert len(caplog.records) == 1
    assert "locked" in caplog.text


def test_patience_ends(path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE_PATIENCE", "0.2")
    with open_store(path) as store:
        run = begin(store)
        locked = threading.Event()
        other = threading.Thread(target=hold_lock, args=(path, 1.0, locked))
        other.start()
        locked.wait()
        with pytest.raises(StoreError, match=r"unavailable for 0.2 s.*locked"):
            store.finish_stage(run.id, "accuracy", [Observation("top1", 0.5)])
        other.join()


def test_patience_must_be_a_number(path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_STORE_PATIENCE", "long")
    with pytest.raises(StoreError, match="ZOOLENS_STORE_PATIENCE"):
        open_store(path)


def test_a_store_may_be_moved_with_its_bulk_directory(tmp_path):
    from zoolens.testing.store_records import some_rows

    with open_store(tmp_path / "old" / "store.sqlite") as store:
        run = begin(store)
        store.add_part(run.id, "predictions", 0, some_rows(0))
    shutil.move(tmp_path / "old", tmp_path / "new")
    with open_store(tmp_path / "new" / "store.sqlite") as store:
        assert store.table(run.id, "predictions") == some_rows(0)


def _checksum_of_part(run_id):
    row = {"run_id": run_id, "kind": "predictions", "part": 0, "name": "../secret/x.0.0123456789abcdef.parquet"}
    created = datetime(2020, 1, 1, tzinfo=UTC)
    return checksum("parts", {**row, "sha256": "", "rows": 1, "bytes": 1, "created": created})


def test_a_store_cannot_point_outside_its_bulk_directory(path, tmp_path):
    with open_store(path) as store:
        run = begin(store)
        with sqlite3.connect(path) as other:
            other.execute(
                "INSERT INTO parts VALUES "
                "(?, 'predictions', 0, '../secret/x.0.0123456789abcdef.parquet', '', 1, 1, ?, ?)",
                (run.id, "2020-01-01 00:00:00.000000", _checksum_of_part(run.id)),
            )
        other.close()
        with pytest.raises(StoreError, match="not a file of its bulk directory"):
            store.table(run.id, "predictions")


def test_new_stores_are_made_in_several_threads_at_once(tmp_path):
    def make(number):
        with open_store(tmp_path / f"{number}.sqlite") as store:
            return store.runs()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(make, range(8))) == [[]] * 8


def test_a_run_that_was_cut_at_other_rows_is_not_merged(tmp_path):
    here, there = (open_store(tmp_path / f"{name}.sqlite") for name in ("here", "there"))
    with here, there:
        for store, ends in ((here, (3, 5)), (there, (2, 5))):
            run = begin(store)
            for part, rows in enumerate((range(ends[0]), range(*ends))):
                store.add_part(run.id, "predictions", part, pa.table({"index": list(rows)}))
        packed = pack_run(there, there.run(run.id))
        with pytest.raises(ZoolensError, match="in different parts"):
            merge_run(here, packed)
        assert here.table(run.id, "predictions")["index"].to_pylist() == [0, 1, 2, 3, 4]
        assert merge_run(there, packed).id == run.id  # the same pieces again change nothing


def test_a_store_that_is_opened_twice_is_safe_from_other_processes(path):
    """The second opening once took away the locks of the first: "disk I/O error" after any other process had closed."""
    other = f"from zoolens.base.store.store import open_store\nwith open_store({str(path)!r}) as store: store.runs()"
    with open_store(path) as store:
        first = begin(store)
        with open_store(path) as again:
            assert [run.id for run in again.runs()] == [first.id]
        subprocess.run([sys.executable, "-c", other], check=True, timeout=60)

        assert path.with_name(f"{path.name}-wal").exists()
        assert [run.id for run in store.runs()] == [first.id]
        store.finish_stage(first.id, "latency", [Observation("latency_p50", 1.0, unit="s")])
    with open_store(path) as store:
        assert store.stages(first.id)["latency"].done
