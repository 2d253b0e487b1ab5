"""`zoolens store clean`: what was removed, what could not be, and what belongs to somebody else."""

import json
import os

import pytest
from click.testing import CliRunner

from zoolens.base.store.bulk_folder import BulkFolder
from zoolens.base.store.store import open_store
from zoolens.faces.cli.main import cli
from zoolens.testing.store_records import begin, some_rows


@pytest.fixture
def path(tmp_path):
    """A store with a file that a crash left, and one of a run that only another database has."""
    path = tmp_path / "store.sqlite"
    with open_store(path) as store:
        for run_id in (begin(store).id, "0123456789abcdef"):
            name = store.bulk.write(run_id, "predictions", 0, some_rows(0)).name
            os.utime(store.bulk_dir / name, (0, 0))
    return path


def clean(path, *options):
    return CliRunner().invoke(cli, ["store", "clean", "--store", str(path), *options])


def test_files_of_other_databases_are_left_and_named(path):
    result = clean(path)
    assert result.exit_code == 0
    assert "1 files removed." in result.output
    assert "1 files of runs that this store does not have were left" in result.output
    found = json.loads(clean(path, "--json").stdout)
    assert (found["removed"], found["stuck"], len(found["unknown"])) == ([], [], 1)


def test_what_cannot_be_removed_is_a_failure(path, monkeypatch):
    monkeypatch.setattr(BulkFolder, "remove", lambda self, name: False)
    result = clean(path)
    assert result.exit_code == 1
    assert "0 files removed." in result.output
    assert "1 files could not be removed" in result.stderr


def test_files_that_travelled_are_removed_when_asked_for(path, tmp_path, monkeypatch):
    monkeypatch.delenv("ZOOLENS_BULK", raising=False)
    assert "Set ZOOLENS_BULK." in str(clean(path, "--travelled-older-than", "30").exception)
    monkeypatch.setenv("ZOOLENS_BULK", str(tmp_path / "share"))
    old, young = (tmp_path / "share" / "travelled" / "ab" / name for name in ("old", "young"))
    for file in (old, young):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    os.utime(old, (0, 0))
    result = clean(path, "--travelled-older-than", "30")
    assert result.exit_code == 0
    assert "1 files of models and datasets removed that had travelled." in result.output
    assert (old.exists(), young.exists()) == (False, True)
