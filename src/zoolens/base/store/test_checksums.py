"""Damage to the file of a store is noticed: no figure changes silently, and nothing ends in a bare exception."""

import random
import shutil
import sqlite3
from datetime import UTC, datetime

import pytest
from sqlalchemy.exc import OperationalError

from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store import checking
from zoolens.base.store.checking import check_store
from zoolens.base.store.records import Observation
from zoolens.base.store.store import open_store
from zoolens.testing.store_records import begin, some_rows


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A store whose rows fill several pages, without a write-ahead log beside it."""
    path = tmp_path_factory.mktemp("sound") / "store.sqlite"
    with open_store(path) as store:
        for attempt in range(12):
            run = begin(store, attempt=attempt)
            store.set_resolved(run.id, {"precision": "float32", "origin": {"ref": "zoo:net@1.0.0"}})
            figures = [Observation("top1", 0.1 * i, scope=f"s{i}", low=0.0, high=1.0, n=i) for i in range(20)]
            store.finish_stage(run.id, "accuracy", figures)
            store.add_part(run.id, "predictions", 0, some_rows(0))
        with store.engine.execution_options(zoolens_begin="").connect() as connection:
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def everything(path):
    with open_store(path) as store:
        runs = store.runs()
        figures = {run.id: store.observations(run.id) for run in runs}
        numbers = store.figures([run.id for run in runs])
        figures["kept together"] = sorted(numbers)
        facts = [(run.id, run.created, run.key, run.ref, run.precision, dict(run.stages)) for run in runs]
        parts = [[(part.part, part.sha256) for part in store.parts(run.id, "predictions")] for run in runs]
        return facts, figures, parts


def test_flipped_bits_change_no_figure_and_end_in_a_sentence(sound, tmp_path):
    expected, content, draw = everything(sound), sound.read_bytes(), random.Random(1)
    path, told = tmp_path / "store.sqlite", []
    for _ in range(60):
        damaged = bytearray(content)
        damaged[draw.randrange(100, len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            facts, figures, parts = everything(path)
        except ZoolensError as error:
            told.append(str(error))
        else:
            assert (facts, figures) == expected[:2]
            # Where the index over parts is damaged a part may not be found, which its reader then says.
            assert all(set(found) <= set(known) for found, known in zip(parts, expected[2], strict=True))
        for log in tmp_path.glob("store.sqlite-*"):
            log.unlink()
    assert len(told) > 8  # most of the file is rows
    assert not any("\n" in sentence for sentence in told)


def test_a_changed_value_is_named(sound, tmp_path):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(sound, path)
    _edit(path, "UPDATE observations SET value = 0.99 WHERE scope = 's3'", "observations")
    with open_store(path) as store:
        run = store.runs()[0]
        with pytest.raises(StoreError, match=r"is damaged: a row of observations .*top1.* does not match its checksum"):
            store.observations(run.id)
        damage = check_store(store).damage
    assert sum("observations" in sentence and "checksum" in sentence for sentence in damage) == 12


def test_rows_that_vanished_are_missed(sound, tmp_path):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(sound, path)
    _edit(path, "DELETE FROM observations WHERE scope = 's3'", "observations")
    with open_store(path) as store:
        with pytest.raises(StoreError, match="has 19 observations instead of 20"):
            store.observations(store.runs()[0].id)
        assert any("19 observations instead of 20" in sentence for sentence in check_store(store).damage)


def test_a_sound_store_has_no_damage(sound, tmp_path):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(sound, path)
    shutil.copytree(sound.with_name("store.bulk"), tmp_path / "store.bulk")
    with open_store(path) as store:
        checked = check_store(store)
    assert checked.damage == ()
    assert checked.files == 12
    assert checked.rows > 12 * 22


def test_a_busy_database_is_not_damage(sound, tmp_path, monkeypatch):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(sound, path)
    shutil.copytree(sound.with_name("store.bulk"), tmp_path / "store.bulk")
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    errors = [OperationalError("", {}, busy)]

    def check_row(table, row):
        if errors:
            raise errors.pop()

    monkeypatch.setattr(checking, "check_row", check_row)
    with open_store(path) as store:
        checked = check_store(store)
    assert checked.damage == ()
    assert checked.rows > 12 * 22


def test_a_damaged_file_of_bulk_facts_is_found(sound, tmp_path):
    path = tmp_path / "store.sqlite"
    shutil.copyfile(sound, path)
    shutil.copytree(sound.with_name("store.bulk"), tmp_path / "store.bulk")
    victim = next((tmp_path / "store.bulk").glob("*/*.parquet"))
    content = bytearray(victim.read_bytes())
    content[50] ^= 1
    victim.write_bytes(content)
    with open_store(path) as store:
        [sentence] = check_store(store).damage
    assert victim.name in sentence


def test_stores_of_before_get_checksums(tmp_path):
    """The first schema, as the first version wrote it, is brought up to date with all its facts."""
    from alembic import command
    from alembic.config import Config
    from sqlalchemy import create_engine

    from zoolens.base.store.opening import MIGRATIONS

    path = tmp_path / "store.sqlite"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    now = "2026-01-02 03:04:05.678901"
    with sqlite3.connect(path) as old:
        old.execute("INSERT INTO models VALUES ('m', 'zoo:ä@1', 'onnx', '{\"name\": \"ä\"}', ?)", [now])
        old.execute("INSERT INTO datasets VALUES ('d', 'digits', 10, '{}', ?)", [now])
        old.execute("INSERT INTO stacks VALUES ('s', 'fake', '{\"version\":\"1\"}', ?)", [now])
        old.execute("INSERT INTO locks VALUES ('l', '{}', ?)", [now])
        old.execute("INSERT INTO aliases VALUES ('model', 'zoo:ä@1', 'm')")
        old.execute("INSERT INTO runs VALUES (1, '8eb1a26554979b8d', 'm', 'd', 's', 0, 'l', '{}', ?)", [now])
        old.execute("INSERT INTO stages VALUES ('8eb1a26554979b8d', 'accuracy', 'done', NULL, '{}', ?)", [now])
        old.execute(
            "INSERT INTO observations VALUES (1, '8eb1a26554979b8d', 'accuracy', 'top1', '', 0.5, NULL, NULL, "
            "'fraction', 10, 'measured', '{\"confidence\":0.95}', ?)",
            [now],
        )
    old.close()
    with open_store(path) as store:
        [run] = store.runs()
        [found] = store.observations(run.id)
        assert (found.value, found.n, found.details) == (0.5, 10, {"confidence": 0.95})
        assert run.created == datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
        assert run.ref == "zoo:ä@1"
        assert check_store(store).damage == ()
        with pytest.raises(Exception, match="append-only"), store.engine.begin() as connection:
            connection.exec_driver_sql("UPDATE observations SET value = 1")


def _edit(path, statement, table):
    """As another program would that knows nothing of checksums."""
    with sqlite3.connect(path) as other:
        for change in ("update", "delete"):
            other.execute(f"DROP TRIGGER {table}_refuse_{change}")
        other.execute(statement)
    other.close()
