"""What was derived is not derived again; a file that cannot be used is done without."""

import sqlite3

import pytest

from zoolens.findings.audit import memo as module
from zoolens.findings.audit.memo import Memo


def derived(memo, calls, key="a"):
    def derive(job):
        calls.append(job["key"])
        return {"of": job["key"]}

    return memo.recall("kind", (key,), derive, {"key": key})


def test_what_was_saved_is_recalled_until_the_code_changes(tmp_path, monkeypatch):
    calls, path = [], tmp_path / "new" / "memo.sqlite"
    first = Memo(path)
    assert derived(first, calls) == derived(first, calls) == {"of": "a"}
    first.save()
    assert derived(Memo(path), calls) == {"of": "a"}
    assert calls == ["a"]
    monkeypatch.setattr(module, "derivation", lambda: "other code")
    assert derived(Memo(path), calls) == {"of": "a"}
    assert calls == ["a", "a"]


def test_a_damaged_file_is_replaced_by_the_next_audit(tmp_path):
    path = tmp_path / "memo.sqlite"
    path.write_bytes(b"no database" * 100)
    for _ in range(2):
        memo = Memo(path)
        derived(memo, [])
        memo.save()
    calls = []
    derived(Memo(path), calls)
    assert calls == []


def test_a_file_that_somebody_writes_is_left_to_him(tmp_path, monkeypatch):
    path = tmp_path / "memo.sqlite"
    patient = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout=0: patient(path, timeout=0))
    memo = Memo(path)
    derived(memo, [])
    memo.save()
    other = patient(path)
    other.execute("BEGIN EXCLUSIVE")
    derived(memo, [], "b")
    memo.save()
    other.rollback()
    calls = []
    derived(Memo(path), calls)
    assert calls == []


@pytest.mark.parametrize("place", ["file/memo.sqlite", "folder"])
def test_a_place_that_cannot_be_written_is_no_error(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    memo, calls = Memo(tmp_path / place), []
    assert derived(memo, calls) == {"of": "a"}
    memo.save()
    assert derived(memo, calls) == {"of": "a"}  # known for as long as this process lasts
    assert calls == ["a"]
