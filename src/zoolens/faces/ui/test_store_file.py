"""A store under an open explorer: read as it is when something was copied over it, refused where nobody can tell."""

import shutil
import sqlite3
from contextlib import closing

import pytest

from zoolens.base.errors import StoreError
from zoolens.base.store.browsing import page_of_runs
from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation, StackRecord
from zoolens.base.store.run_columns import RunIndex
from zoolens.base.store.store import open_store
from zoolens.faces.ui.store_file import StoreFile


def write_run(path, name):
    with open_store(path) as store:
        run = store.begin_run(
            ModelRecord(name, f"zoo:{name}@1", "fake", {}),
            DatasetRecord("d", "digits", 10),
            StackRecord("s", "f", {}, {}),
        )
        store.finish_stage(run.id, "metric:topk", [Observation("top1", 0.5, unit="fraction")])


def copied(path):
    """A backup as a user makes one while nothing is open."""
    return shutil.copyfile(path, path.with_name("backup.sqlite"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.sqlite"


def total(index):
    return page_of_runs(index, limit=0).total


def test_an_older_copy_over_the_store_is_what_is_shown(path):
    write_run(path, "first")
    backup = copied(path)
    write_run(path, "second")
    with open_store(path) as store:
        index = RunIndex(store)
        file = StoreFile(path, index)
        file.check()
        assert total(index) == 2
        shutil.copyfile(backup, path)  # the same file on the disk, with other content
        file.check()
        assert total(index) == 1
        file.check()
    with open_store(path) as store:
        assert [run.ref for run in store.runs()] == ["zoo:first@1"]


def test_what_others_write_is_not_taken_for_a_copy(path):
    write_run(path, "first")
    with open_store(path) as store:
        index = RunIndex(store)
        file = StoreFile(path, index)
        assert total(index) == 1
        write_run(path, "second")
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.check()
        assert total(index) == 2


def test_an_older_copy_beside_a_log_of_changes_is_refused(path):
    write_run(path, "first")
    backup = copied(path)
    with open_store(path) as store:
        index = RunIndex(store)
        write_run(path, "second")
        with closing(sqlite3.connect(path)) as other:
            other.execute("PRAGMA wal_checkpoint(PASSIVE)")  # to the file; the log is still there
        file = StoreFile(path, index)
        assert total(index) == 2
        shutil.copyfile(backup, path)
        with pytest.raises(StoreError, match=r"may be a mixture of both|cannot be read as it is"):
            file.check()
        with pytest.raises(StoreError, match=r"may be a mixture of both|cannot be read as it is"):
            file.check()  # and not only once


def test_another_store_or_no_store_over_the_store_is_refused(path, tmp_path):
    write_run(path, "first")
    other = tmp_path / "other.sqlite"
    write_run(other, "theirs")
    ours = copied(path)
    with open_store(path) as store:
        index = RunIndex(store)
        file = StoreFile(path, index)
        assert total(index) == 1
        shutil.copyfile(other, path)
        with pytest.raises(StoreError, match=r"store\.sqlite was replaced by another file"):
            file.check()
        path.write_bytes(b"")  # as it is while something is being copied
        with pytest.raises(StoreError, match="cannot be read as it is now"):
            file.check()
        shutil.copyfile(ours, path)
        file.check()
        assert total(index) == 1
