"""Kept rows are the rows that would be worked out from nothing, whatever changed in the store meanwhile."""

from pathlib import Path

import numpy as np
import pytest

from zoolens.base.store.records import DatasetRecord, ModelRecord, Observation
from zoolens.findings.comparisons.signatures import probe_runs
from zoolens.findings.index.conftest import add_run, observed
from zoolens.findings.index.index import columns_of
from zoolens.findings.index.index_paths import runs_path
from zoolens.findings.index.opener import _recent, build_index
from zoolens.findings.index.sources import row_builder
from zoolens.findings.index.sources.row_builder import rows_from
from zoolens.findings.index.sources.run_table import run_table
from zoolens.findings.index.sources.test_row_builder import claims, structure
from zoolens.findings.index.tables import array_file
from zoolens.findings.index.tables.array_file import code_digest, read_arrays, write_arrays


def plain(rows):
    return [
        (row.key, row.model, row.ref, dict(row.attributes), dict(row.figures), row.signature, row.also) for row in rows
    ]


def both(store, path, dataset="digits"):
    """The rows with what was kept, and from nothing."""
    probes = [run.id for run in probe_runs(store, data=dataset)]
    kept = rows_from(store, probes, cache=path)
    assert plain(kept) == plain(rows_from(store, probes))
    return kept


def test_only_what_changed_is_worked_out_again(store, tmp_path, monkeypatch):
    path, made, make = tmp_path / "rows.zla", [], row_builder._row
    monkeypatch.setattr(row_builder, "_row", lambda *given, **asked: made.append(given[3]) or make(*given, **asked))
    first, second = add_run(store, "net", latency=0.5), add_run(store, "other", seed=1)
    probes = [first.id, second.id]
    rows_from(store, probes, cache=path)
    assert len(made) == 2
    rows_from(store, probes, cache=path)
    assert len(made) == 2
    store.finish_stage(second.id, "latency:batch=1", [Observation("latency_p50", 0.25, scope="batch=1", unit="s")])
    rows_from(store, probes, cache=path)
    assert made[2:] == [(second.key.model, second.key.stack)]


def test_who_is_interrupted_goes_on_where_it_was(store, tmp_path, monkeypatch):
    path, made, make = tmp_path / "rows.zla", [], row_builder._row
    probes = [add_run(store, f"net-{number}", seed=number).id for number in range(5)]

    def interrupted(*given, **asked):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(given[3])
        return make(*given, **asked)

    monkeypatch.setattr(row_builder, "_AT_ONCE", 1)
    monkeypatch.setattr(row_builder, "_KEPT_AFTER", 2)
    with monkeypatch.context() as patched:
        patched.setattr(row_builder, "_row", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rows_from(store, probes, cache=path)
    again = []
    with monkeypatch.context() as patched:
        patched.setattr(row_builder, "_row", lambda *given, **asked: again.append(given[3]) or make(*given, **asked))
        found = plain(rows_from(store, probes, cache=path))
    assert not set(again) & set(made[:2])
    assert len(again) == 3
    assert found == plain(rows_from(store, probes))
    assert [one.name for one in tmp_path.glob("*.zla")] == ["rows.zla"]


def test_kept_rows_follow_every_change_of_the_store(store, tmp_path):
    path = tmp_path / "rows.zla"
    first = add_run(store, "net", latency=0.5)
    second = add_run(store, "other", seed=1)
    both(store, path)
    store.finish_stage(second.id, "latency:batch=1", [Observation("latency_p50", 0.25, scope="batch=1", unit="s")])
    both(store, path)
    store.finish_stage(first.id, "size", observed(file_size=100, parameters=10))
    both(store, path)
    add_run(store, "net", dataset="letters", latency=0.125)  # other data of the same model and stack
    both(store, path)
    add_run(store, "net", runtime="faster", latency=0.0625)
    both(store, path)
    again = store.begin_run(first.model, first.dataset, first.stack, attempt=1)
    store.finish_stage(again.id, "energy", [Observation("energy", 2.0, scope="batch=1", unit="J")])
    both(store, path)
    store.set_resolved(second.id, {"precision": "int8"})
    assert next(row for row in both(store, path) if row.key == second.id).attributes["precision"] == "int8"
    alias = ModelRecord(first.model.fingerprint, "elsewhere:net@2", first.model.format, first.model.manifest)
    store.begin_run(alias, first.dataset, first.stack)
    assert any(row.also for row in both(store, path))
    both(store, path, "letters")  # other probes: other rows have the answers


def test_a_structure_and_claims_that_come_later_reach_kept_rows(store, tmp_path):
    path = tmp_path / "rows.zla"
    net = {"library": "torchvision", "architecture": "alexnet", "arguments": {}}
    add_run(store, "net", attributes=net)
    asset = {"format": "fake", "files": [{"location": "x", "sha256": "ab12ab12"}]}
    add_run(store, "file", assets=[asset], seed=1)
    both(store, path)
    structure(store, net, "torchvision:alexnet", [8, 8], flops=100)
    assert [row.figures["flops"].value for row in both(store, path) if "flops" in row.figures] == [100]
    structure(store, {"format": "fake", "files": {"model": "ab12" * 16}}, "zoo:file@1.0.0", [8, 8], flops=55)
    assert [row.figures["flops"].value for row in both(store, path)] == [55, 100]
    claims(store, "zoo:never-run@1")
    assert {row.ref for row in both(store, path)} == {"zoo:net@1.0.0", "zoo:file@1.0.0", "zoo:never-run@1"}


def test_a_further_name_of_a_structure_reaches_the_kept_row_of_that_name(store, tmp_path):
    path, file = tmp_path / "rows.zla", {"format": "fake", "files": {"model": "ab12" * 16}}
    asset = {"format": "fake", "files": [{"location": "x", "sha256": "ab12ab12"}]}
    add_run(store, "file", assets=[asset])
    read = structure(store, file, "elsewhere:file", [8, 8], flops=55)
    assert not any("flops" in row.figures for row in both(store, path) if row.signature)
    store.begin_run(ModelRecord(read.model.fingerprint, "zoo:file@1.0.0", "onnx", file), read.dataset, read.stack)
    assert [row.figures["flops"].value for row in both(store, path) if row.signature] == [55]


def test_a_structure_that_comes_while_rows_are_worked_out_is_not_missed_next_time(store, tmp_path, monkeypatch):
    path, net = tmp_path / "rows.zla", {"library": "torchvision", "architecture": "alexnet", "arguments": {}}
    run, known = add_run(store, "net", attributes=net), row_builder.known_structures

    def late(*given):
        found = known(*given)
        structure(store, net, "torchvision:alexnet", [8, 8], flops=100)  # another process
        return found

    with monkeypatch.context() as patched:
        patched.setattr(row_builder, "known_structures", late)
        rows_from(store, [run.id], cache=path)
    assert [row.figures["flops"].value for row in both(store, path)] == [100]


def test_datasets_that_come_to_share_a_name_rename_kept_figures(store, tmp_path):
    path = tmp_path / "rows.zla"
    run = add_run(store, "net")
    both(store, path)
    twin = DatasetRecord("0123456789", run.dataset.name, run.dataset.size, run.dataset.details)
    store.begin_run(run.model, twin, run.stack)
    row = next(one for one in both(store, path, run.dataset.fingerprint) if one.key == run.id)
    assert f"top1@digits#{run.dataset.fingerprint[:8]}" in row.figures


def test_rows_of_a_large_store_are_worked_out_some_at_a_time(store, tmp_path, monkeypatch):
    for number in range(5):
        add_run(store, f"net-{number}", seed=number, latency=0.5 + number)
    probes = [run.id for run in probe_runs(store)]
    expected = plain(rows_from(store, probes))
    monkeypatch.setattr(row_builder, "_AT_ONCE", 2)
    assert plain(rows_from(store, probes, cache=tmp_path / "rows.zla")) == expected
    assert plain(rows_from(store, probes, cache=tmp_path / "rows.zla")) == expected


def test_the_table_of_runs_follows_a_store_whose_mark_stays_behind(store, monkeypatch):
    """As PostgreSQL's does: the last changes are told once more."""
    add_run(store, "net")
    told = type(store).changed_since
    monkeypatch.setattr(type(store), "changed_since", lambda self, mark: (0, told(self, 0)[1]))
    assert len(run_table(store).table) == 1
    add_run(store, "other", seed=1)
    assert len(run_table(store).table) == 2


def test_columns_are_the_same_from_kept_rows(store, tmp_path):
    path = tmp_path / "rows.zla"
    add_run(store, "net", latency=0.5)
    add_run(store, "other", seed=1)
    fresh, kept = both(store, path), both(store, path)
    add_run(store, "third", seed=2, latency=0.75)
    mixed = both(store, path)
    for rows in (fresh, kept, mixed):
        columns = columns_of(rows)
        for number, row in enumerate(rows):
            known = {name: columns.value(name, number) for name in columns.names}
            assert {name: value for name, value in known.items() if value == value} == {
                name: figure.value for name, figure in row.figures.items()
            }
            assert all((name in row.figures) == (value == value) for name, value in known.items())


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"not json\n[1]", None])
def test_a_damaged_file_is_made_anew(store, damage):
    add_run(store, "net", latency=0.5)
    expected = plain(build_index(store).rows)
    files = sorted(runs_path(store).parent.glob("*.zla"))
    assert len(files) == 3  # runs, rows, and the whole index
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[:-70] + bytes([content[-70] ^ 4]) + content[-69:] if damage is None else damage)
    _recent.clear()
    assert plain(build_index(store).rows) == expected
    add_run(store, "other", seed=1)
    rows = plain(build_index(store).rows)
    assert [row for row in rows if row[2] == expected[0][2]] == expected


def test_files_about_something_else_or_of_other_code_count_for_nothing(tmp_path):
    path = tmp_path / "file"
    write_arrays(path, {"of": "this"}, {"mark": 7}, {"some": np.arange(3), "none": np.zeros(0)})
    found = read_arrays(path, {"of": "this"})
    assert found.details == {"mark": 7}
    assert found.arrays["some"].tolist() == [0, 1, 2]
    assert len(found.arrays["none"]) == 0
    assert read_arrays(path, {"of": "that"}) is None
    assert read_arrays(tmp_path / "none", {}) is None
    content = path.read_bytes()
    path.write_bytes(content.replace(code_digest().encode(), b"0" * 64))
    assert read_arrays(path, {"of": "this"}) is None


def test_the_code_that_arrays_depend_on_is_where_it_is_looked_for():
    root = Path(array_file.__file__).parents[3]
    assert [part for part in array_file.DERIVING if not (root / part).exists()] == []
