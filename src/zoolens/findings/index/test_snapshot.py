"""An index that was kept is the index that would be built, and a query over an unchanged store opens nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zoolens.base.store.records import Observation
from zoolens.base.store.state import StoreState, state_of_file
from zoolens.base.store.store import open_store
from zoolens.findings.index import opener, snapshot
from zoolens.findings.index.conftest import add_run, answers
from zoolens.findings.index.index_paths import index_path, snapshot_path
from zoolens.findings.index.maintenance import remove_models
from zoolens.findings.index.opener import build_index
from zoolens.findings.index.sources.test_row_cache import plain

pytestmark = pytest.mark.usefixtures("trusted_models")


def told(index):
    """All that a query may look at."""
    agreements = [index.agreement(row).tolist() for row in range(len(index)) if index.rows.signed[row]]
    figures = {name: index.columns.values(name).tolist() for name in sorted(index.columns.names)}
    data = (index.dataset.fingerprint, index.dataset.name, index.dataset.size, dict(index.dataset.details))
    return repr((plain(index.rows), data, index.notes, agreements, figures, index.rows.models.tolist()))


def again(store, **asked):
    """As another process would find it."""
    opener._recent.clear()
    return build_index(store, **asked)


def built(store, monkeypatch, **asked):
    with monkeypatch.context() as patched:
        patched.setattr(opener, "read_snapshot", lambda *given, **also: None)
        return again(store, **asked)


@pytest.fixture
def filled(store):
    add_run(store, "net", latency=0.5)
    add_run(store, "other", seed=1, attributes={"threads": 2, "flag": True})
    add_run(store, "net", dataset="letters", seed=3)
    return store


def test_what_was_kept_is_what_would_be_built(filled, monkeypatch):
    for asked in ({}, {"data": "letters"}, {"task": "embedding"}):
        first = built(filled, monkeypatch, **asked)
        with monkeypatch.context() as patched:
            patched.setattr("zoolens.findings.index.builder.build", None)  # nothing is built
            assert told(again(filled, **asked)) == told(first)


def test_every_change_is_seen(filled, monkeypatch):
    def same():
        found = told(again(filled))
        assert found == told(built(filled, monkeypatch))
        return found

    seen = [same()]
    run = add_run(filled, "third", seed=2)
    seen.append(same())
    filled.finish_stage(run.id, "size", [Observation("file_size", 7.0, unit="B")])
    seen.append(same())
    filled.set_resolved(run.id, {"precision": "int8"})
    seen.append(same())
    remove_models(filled, ["third"])
    seen.append(same())
    assert len(set(seen[:-1])) == 4
    assert seen[-1] == seen[0]


def test_a_package_that_was_installed_since_is_seen(filled, tmp_path, monkeypatch):
    again(filled)
    state = StoreState(filled.id, filled.name, filled.newest())
    before = snapshot._about(state)
    (tmp_path / "packages" / "plugin-1.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packages")])
    assert snapshot._about(state) != before


def test_signatures_that_are_gone_are_read_again(filled):
    first = again(filled)
    index_path(filled, "classification", first.dataset.fingerprint).unlink()
    assert told(again(filled)) == told(first)


def test_names_of_classes_in_a_file_of_their_own_are_not_kept(store, tmp_path):
    """The file may say something else tomorrow."""
    outputs = [{"task": "classification", "labels_file": "labels.txt"}]
    add_run(store, "net", outputs=outputs)
    index = again(store)
    state = StoreState(store.id, store.name, store.newest())
    assert not index.lasts
    assert not snapshot_path(state, "classification", None).exists()


def test_the_state_of_a_store_that_is_not_open(filled, tmp_path):
    path = Path(filled.name)
    assert state_of_file(path) == StoreState(filled.id, filled.name, filled.newest())
    assert state_of_file(tmp_path / "none.sqlite") is None
    assert state_of_file(tmp_path) is None
    (tmp_path / "text").write_text("no database")
    assert state_of_file(tmp_path / "text") is None
    with filled.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE zoolens_version SET version_num = '0001'")
    assert state_of_file(path) is None


def test_to_look_at_a_store_leaves_nothing_beside_it(filled, monkeypatch):
    path = Path(filled.name)
    state = state_of_file(path)
    filled.close()
    assert state_of_file(path) == state
    assert not list(path.parent.glob("store.sqlite-*"))
    monkeypatch.setattr("zoolens.base.store.state.os.access", lambda *asked: False)
    assert state_of_file(path) == state
    assert not list(path.parent.glob("store.sqlite-*"))
    path.with_name("store.sqlite-wal").write_bytes(b"what was written last")
    assert state_of_file(path) is None


QUERY = """
import sys
from zoolens.faces.cli.main import main
try:
    light, sys.argv = len(sys.argv) > 2, ["zoolens", "query", "CORR net WITHIN 1% LIMIT 3", "--store", sys.argv[1]]
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
heavy = {"sqlalchemy", "pyarrow", "pydantic", "yaml", "rich.progress"} & sys.modules.keys()
assert not (light and heavy), heavy
"""


def test_a_query_over_an_unchanged_store_imports_neither_databases_nor_schemas(filled):
    name = filled.name
    filled.close()
    first = subprocess.run([sys.executable, "-c", QUERY, name], capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    assert "zoo:other" in first.stdout
    second = subprocess.run([sys.executable, "-c", QUERY, name, "light"], capture_output=True, text=True, check=False)
    assert second.returncode == 0, second.stderr
    assert second.stdout == first.stdout


def test_rows_take_figures_of_their_own_and_stay_in_order(filled):
    rows = again(filled).rows
    order = np.array([1, 0])
    assert [row.key for row in rows.take(order)] == [rows[1].key, rows[0].key]
    assert [dict(row.figures) for row in rows.take(order)] == [dict(rows[1].figures), dict(rows[0].figures)]
    assert rows[-1].key == rows[len(rows) - 1].key
    with pytest.raises(IndexError):
        rows[len(rows)]


def backed_up(store, copy):
    """A copy of the store as it is, and a way back to it."""
    store.close()
    shutil.copy(store.name, copy)

    def restore():
        store.close()
        for log in Path(store.name).parent.glob("store.sqlite-*"):
            log.unlink()
        shutil.copy(copy, store.name)

    return restore


def test_a_store_that_was_restored_from_a_backup_is_seen_as_it_is(filled, tmp_path, monkeypatch):
    restore = backed_up(filled, tmp_path / "backup")
    before = told(again(filled))
    add_run(filled, "third", seed=2, latency=0.25)
    changes = filled.newest().change
    assert told(again(filled)) != before
    restore()  # to fewer changes than what is kept knows of
    assert told(again(filled)) == before
    add_run(filled, "third", seed=2, latency=0.25)
    again(filled)
    restore()
    add_run(filled, "fourth", seed=5, latency=0.75)  # as many changes as before, but others
    assert filled.newest().change == changes
    found = again(filled)
    assert {row.ref for row in found.rows} == {"zoo:net@1.0.0", "zoo:other@1.0.0", "zoo:fourth@1.0.0"}
    assert told(found) == told(built(filled, monkeypatch))
    restore()
    add_run(filled, "fourth", seed=5, latency=0.5)  # the same run, other figures
    assert filled.newest().change == changes
    figures = {row.ref: dict(row.figures) for row in again(filled).rows}
    assert figures["zoo:fourth@1.0.0"]["latency_p50@batch=1"].value == 0.5


def test_answers_of_a_run_that_was_measured_again_after_a_restore_are_read_again(filled, tmp_path, monkeypatch):
    restore = backed_up(filled, tmp_path / "backup")
    first = add_run(filled, "third", seed=2)
    again(filled)
    restore()
    shutil.rmtree(filled.bulk_dir / first.id[:2], ignore_errors=True)
    monkeypatch.setattr("zoolens.findings.index.conftest.answers", lambda seed: answers(seed + 1))
    assert add_run(filled, "third", seed=2).id == first.id
    found = again(filled)
    row = found.find("third")
    assert found.semantic.answers(first.id).tolist() == found.signature(row).answers.tolist()


def test_names_of_classes_in_a_file_of_their_own_are_read_again_in_the_same_process(store):
    add_run(store, "net", outputs=[{"task": "classification", "labels_file": "labels.txt"}])
    assert build_index(store) is not build_index(store)


def test_a_kept_index_opens_its_own_store_also_where_the_variable_names_another(filled, tmp_path, monkeypatch):
    with open_store(tmp_path / "another.sqlite") as another:
        add_run(another, "else")
    monkeypatch.setenv("ZOOLENS_STORE", filled.name)
    again(None)
    index = again(None)
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "another.sqlite"))
    row = index.find("net")
    assert index.signature(row).run.id == index.rows[row].key
