"""The index of a store: up to date, incremental, and right whatever happened to its file."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.findings.comparisons.conftest import one_hot, vector_columns, write_run
from zoolens.findings.comparisons.origins import DataOrigin
from zoolens.findings.index import builder, maintenance, opener
from zoolens.findings.index.conftest import LABELS, PROBES, add_run, answers, observed
from zoolens.findings.index.index import Index
from zoolens.findings.index.opener import build_index
from zoolens.findings.index.signatures import synchronisation
from zoolens.findings.index.signatures.journal import Damaged
from zoolens.findings.index.signatures.semantic import open_semantic
from zoolens.findings.index.tables.rows import Figure, Row
from zoolens.findings.measure.predictions import KIND
from zoolens.inventory.zoos.demo import MODELS_FOLDER

pytestmark = pytest.mark.usefixtures("trusted_models")


class Watcher:
    """Counts the signatures that were read, and keeps what was said."""

    def __init__(self):
        self.read, self.said, self.stage = 0, [], ""

    def begin(self, title, stage, total, unit=""):
        self.stage = stage

    def advance(self, steps):
        self.read += steps if self.stage == "signatures" else 0

    def end(self): ...

    def say(self, text):
        self.said.append(text)


@pytest.fixture(autouse=True)
def forget():
    opener._recent.clear()


def brute(index, row):
    seeds = [int(one.attributes["name"].removeprefix("net")) for one in index.rows]
    return [np.mean(answers(seed) == answers(seeds[row])) for seed in seeds]


def fill(store, seeds, **options):
    return [add_run(store, f"net{seed}", seed=seed, **options) for seed in seeds]


def test_agreement_ranking_and_signature(store):
    runs = fill(store, range(5))
    index = build_index(store)
    assert [row.signature for row in index.rows] == [True] * 5
    assert (index.dataset.name, index.semantic.probes) == ("digits", PROBES)
    row = index.find("net3")
    np.testing.assert_array_equal(index.agreement(row), brute(index, row))
    best = index.ranking(row).top([], 5)
    np.testing.assert_array_equal(best, np.lexsort((np.arange(5), -index.agreement(row))))
    np.testing.assert_array_equal(index.signature(row).answers, answers(3))
    assert index.columns.value("top1", row) == np.mean(answers(3) == LABELS)
    assert {row.key for row in index.rows} == {run.id for run in runs}
    assert "5 with a signature over 60 inputs of digits" in repr(index)


def test_only_what_is_new_is_read_and_an_unchanged_store_is_not_looked_at_again(store):
    fill(store, range(3))
    first = Watcher()
    index = build_index(store, progress=first)
    assert first.read == 3
    assert build_index(store) is index
    fill(store, [3])
    second = Watcher()
    index = build_index(store, progress=second)
    assert second.read == 1
    np.testing.assert_array_equal(index.agreement(0), brute(index, 0))


def test_a_new_attempt_takes_the_place_of_the_old_one(store):
    old, _ = fill(store, range(2))
    build_index(store)
    again = store.begin_run(old.model, old.dataset, old.stack, attempt=1)
    store.add_part(again.id, KIND, 0, store.table(old.id, KIND))
    store.finish_stage(again.id, "predictions")
    index = build_index(store)
    assert sorted(index.semantic.keys) == sorted(row.key for row in index.rows)
    assert old.id not in index.semantic


def test_the_data_with_most_models_is_probed_unless_another_is_named(store):
    fill(store, range(2), dataset="letters")
    fill(store, range(2, 5))
    assert build_index(store).dataset.name == "digits"
    index = build_index(store, data="let*")
    assert index.dataset.name == "letters"
    assert [row.signature for row in index.rows] == [True, True, False, False, False]
    assert np.isnan(index.agreement(0)).tolist() == [False, False, True, True, True]
    with pytest.raises(ZoolensError, match=r"net3@1\.0\.0 was not measured on letters"):
        index.agreement(3)
    with pytest.raises(UnknownName, match="Known: digits, letters"):
        build_index(store, data="faces")


def test_an_empty_store_has_an_index_without_rows(store):
    index = build_index(store)
    assert (len(index), index.semantic, index.dataset.name) == (0, None, "no data")
    with pytest.raises(UnknownName, match="Nothing is indexed"):
        index.find("net")


@pytest.mark.parametrize("harm", ["flip", "cut", "delete", "other"])
def test_a_harmed_file_is_repaired_from_the_store(store, harm):
    fill(store, range(4))
    path = build_index(store).semantic.path
    content = bytearray(path.read_bytes())
    if harm == "flip":
        content[-20] ^= 4
    path.write_bytes(bytes(content[:-30] if harm == "cut" else b"nonsense" if harm == "other" else content))
    if harm == "delete":
        path.unlink()
    opener._recent.clear()
    watcher = Watcher()
    index = build_index(store, progress=watcher)
    assert watcher.read == (1 if harm == "cut" else 4)
    assert len(watcher.said) == (harm in ("flip", "other"))
    for row in range(4):
        np.testing.assert_array_equal(index.agreement(row), brute(index, row))


def test_a_repair_is_said_also_where_nobody_watches(store, caplog):
    fill(store, range(2))
    build_index(store).semantic.path.write_bytes(b"nonsense")
    opener._recent.clear()
    assert len(build_index(store).semantic) == 2
    assert "is damaged (it is not an index); it is rebuilt" in caplog.text


def test_damage_that_shows_while_filling_is_repaired_too(store, monkeypatch):
    fill(store, range(4))
    path = build_index(store).semantic.path
    fill(store, [4])
    opened = builder.open_semantic

    def harmed(*arguments, **options):
        index = opened(*arguments, **options)
        if len(index) == 4:
            with path.open("ab") as file:
                file.write(b"\x07" * 40)
        return index

    monkeypatch.setattr(builder, "open_semantic", harmed)
    watcher = Watcher()
    index = build_index(store, progress=watcher)
    assert "damaged" in watcher.said[0]
    np.testing.assert_array_equal(index.agreement(2), brute(index, 2))


def test_without_a_place_for_the_file_the_index_works_all_the_same(store, tmp_path, monkeypatch):
    fill(store, range(3))
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("zoolens.findings.index.index_paths.cache_dir", lambda: tmp_path / "file")
    watcher = Watcher()
    index = build_index(store, progress=watcher)
    assert "this time only" in watcher.said[0]
    np.testing.assert_array_equal(index.agreement(1), brute(index, 1))


def test_predictions_that_cannot_be_read_leave_a_row_without_signature_and_a_note(store):
    broken, _ = fill(store, range(2))
    Path(store.parts(broken.id, KIND)[0].address).write_bytes(b"")
    index = build_index(store)
    assert [row.signature for row in index.rows] == [False, True]
    assert index.rows[0].figures["top1"]
    assert len(index.notes) == 1
    assert "net0" in index.notes[0]


def test_structures_that_cannot_be_read_are_said(store):
    fill(store, [0])
    watcher = Watcher()
    build_index(store, refresh=True, progress=watcher)
    assert watcher.said[0].startswith("zoo:net0@0.0.0 has no structure: ")


def test_tasks_have_indexes_of_their_own(store):
    fill(store, range(2))
    about = [{"name": "v", "task": "embedding", "width": 3}]
    for name, factor in (("a", 1.0), ("b", 1.25)):
        columns = vector_columns(np.full((PROBES, 3), factor))
        write_run(store, name, columns, LABELS, about=about, outputs=[{"task": "embedding"}])
    index = build_index(store, task="embedding")
    assert [row.attributes["name"] for row in index.rows] == ["a", "b"]
    assert index.agreement(0).tolist() == [1, pytest.approx(0.8)]
    assert len(build_index(store)) == 2
    assert build_index(store, task="regression").notes == ("No model of the task regression was measured yet.",)


CLASSES = [f"class {number}" for number in range(10)]


def named(store, name, given, labels):
    outputs = [{"labels": labels}] if labels else [{}]
    return write_run(store, name, one_hot(given), LABELS, classes=CLASSES, outputs=outputs)


def test_classes_are_matched_by_name_and_other_classes_are_not_comparable(store):
    given = answers(1)
    named(store, "plain", given, None)
    named(store, "same", given, CLASSES)
    named(store, "turned", (given + 3) % 10, CLASSES[-3:] + CLASSES[:-3])
    named(store, "foreign", given, [f"thing {number}" for number in range(10)])
    index = build_index(store)
    rows = {row.attributes["name"]: number for number, row in enumerate(index.rows)}
    agreement = index.agreement(rows["same"])
    assert agreement[rows["turned"]] == agreement[rows["plain"]] == 1
    np.testing.assert_array_equal(index.signature(rows["turned"]).answers, given)
    foreign = index.agreement(rows["foreign"])
    assert np.isnan(foreign[rows["same"]])
    assert np.isnan(agreement[rows["foreign"]])
    assert foreign[rows["plain"]] == foreign[rows["foreign"]] == 1


def test_answers_under_other_names_of_the_datas_classes_are_not_comparable(store):
    given = answers(1)
    named(store, "same", given, CLASSES)
    mended = CLASSES[-3:] + CLASSES[:-3]  # the dataset's classes are called so since
    for name in ("later", "latest"):
        run = named(store, name, given, mended)
        store.set_resolved(run.id, {"origin": {"classes": mended}, "classes_matched": True})
    index = build_index(store)
    rows = {row.attributes["name"]: number for number, row in enumerate(index.rows)}
    agreement = index.agreement(rows["later"])
    assert agreement[rows["latest"]] == 1
    assert np.isnan(agreement[rows["same"]])


def test_names_in_a_file_that_changed_or_is_gone_are_noticed(store, tmp_path):
    given, file = answers(1), tmp_path / "labels.txt"
    file.write_text("\n".join(CLASSES[-3:] + CLASSES[:-3]))
    named(store, "plain", given, None)
    run = write_run(
        store, "turned", one_hot((given + 3) % 10), LABELS, classes=CLASSES, outputs=[{"labels_file": "labels.txt"}]
    )
    store.set_resolved(run.id, {"origin": {"manifest": dict(run.model.manifest), "folder": str(tmp_path)}})
    assert build_index(store).agreement(0).tolist() == [1, 1]
    for content in (CLASSES, None):
        opener._recent.clear()
        file.write_text("\n".join(content)) if content else file.unlink()
        index = build_index(store)
        assert index.agreement(0).tolist() == [1, 0]
        assert len(index.notes) == (content is None)
    assert "cannot be read" in index.notes[0]
    assert "taken in the dataset's order" in index.notes[0]


def test_accuracies_judged_in_the_wrong_order_of_classes_are_left_out(store):
    given = answers(1)
    named(store, "plain", given, None)
    run = named(store, "turned", (given + 3) % 10, CLASSES[-3:] + CLASSES[:-3])
    store.finish_stage(run.id, "metric:topk", observed(top1=0.218))
    index = build_index(store)
    assert index.agreement(0).tolist() == [1, 1]
    assert "top1" not in index.rows[index.find("turned")].figures
    assert "zoo:turned@1.0.0 has no accuracy here" in index.notes[0]


def test_models_with_different_numbers_of_classes_are_not_comparable(store):
    for width in (10, 12):
        about = [{"name": "o", "task": "classification", "width": width}]
        write_run(store, f"of-{width}", one_hot(answers(1), width), LABELS, about=about)
    write_run(store, "untold", one_hot(answers(1)), LABELS)
    index = build_index(store)
    np.testing.assert_array_equal(index.agreement(0), [1, np.nan, 1])
    assert index.agreement(2).tolist() == [1, 1, 1]


def test_what_another_process_took_out_meanwhile_is_put_back(store, monkeypatch):
    """It looked at the store before the newest run was finished."""
    first, _ = fill(store, range(2))
    read = builder.signature_of

    def disturbed(opened, run, parts=()):
        if run.id == first.id and "other" not in vars(disturbed):
            disturbed.other = True
            path = builder.index_path(store, "classification", run.key.dataset)
            elsewhere = builder.open_semantic(path, dataset=run.key.dataset, probes=PROBES)
            for key in elsewhere.keys:
                elsewhere.remove(key)
        return read(opened, run, parts)

    monkeypatch.setattr(builder, "signature_of", disturbed)
    index = build_index(store)
    assert [row.signature for row in index.rows] == [True, True]
    np.testing.assert_array_equal(index.agreement(1), brute(index, 1))


def test_a_damaged_file_that_cannot_be_deleted_does_not_stop_anyone(tmp_path):
    def opened(path):
        if path is not None:
            raise Damaged("it is a folder")
        return open_semantic(None, dataset="d", probes=PROBES)

    watcher = Watcher()
    index, notes = synchronisation.synchronise(opened, tmp_path, [], None, watcher)
    assert (len(index), notes) == (0, [])
    assert "damaged" in watcher.said[0]
    assert "this time only" in watcher.said[1]


def test_a_run_that_a_restored_backup_does_not_have_is_not_asked_for_again(tmp_path):
    def opened(path):
        return open_semantic(path, dataset="d", probes=PROBES)

    source = synchronisation.SignatureSource(lambda ids: [], lambda run: None)
    index, notes = synchronisation.synchronise(opened, tmp_path / "index", ["gone"], source, Watcher())
    assert (len(index), notes) == (0, [])


def test_rankings_are_kept_within_the_budget():
    rows = [Row(f"k{n}", f"m{n}", f"zoo:m{n}@1", {}, {"flops": Figure(float(n))}, signature=True) for n in range(200)]
    semantic = open_semantic(None, dataset="d", probes=20, memory=5_000)
    for n in range(200):
        semantic.insert(f"k{n}", answers(n, probes=20))
    index = Index(rows, semantic=semantic, memory=10_000)
    for row in range(20):
        assert len(index.ranking(row).top([], 3)) == 3
    kept = index.ranking(19)
    assert index.ranking(19) is kept
    assert index.nbytes <= 10_000
    assert 1 <= len(index._rankings) < 20


# --- adding, removing, verifying


def test_removed_models_stay_away_until_they_are_added_again(store, tmp_path):
    fill(store, range(3))
    assert maintenance.remove_models(store, ["net1"]) == ["zoo:net1@1.0.0"]
    index = build_index(store)
    assert [row.attributes["name"] for row in index.rows] == ["net0", "net2"]
    assert len(index.semantic) == 2
    index.semantic.path.unlink()
    opener._recent.clear()
    assert len(build_index(store)) == 2  # a decision is not lost with the cache
    assert len(store.runs()) == 3


def test_adding_runs_a_model_once_on_the_probes_of_the_index(store):
    maintenance.add_models(store, ["demo:mlp-small"], probes=DataOrigin("demo", 50), runtimes=["onnxruntime"])
    added = maintenance.add_models(store, ["demo:lenet-torch"], runtimes=["onnxruntime"])
    assert added.outcomes[0].measured[0] == "predictions"
    assert len(added.index.semantic) == 2
    assert added.index.dataset.size == 50
    assert not any(name.startswith(("latency", "cold_start")) for name in added.index.columns.names)
    maintenance.remove_models(store, ["mlp-small"])
    back = maintenance.add_models(store, ["demo:mlp-small"], runtimes=["onnxruntime"])
    assert back.outcomes[0].measured == ()
    assert len(back.index.semantic) == 2


def test_a_model_is_removed_and_comes_back_in_all_its_formats(store):
    words = {"probes": DataOrigin("demo", 20), "runtimes": ["onnxruntime", "litert"]}
    maintenance.add_models(store, ["demo:mlp-small", "demo:mlp-wide"], **words)
    assert maintenance.remove_models(store, ["mlp-small"]) == ["demo:mlp-small@1.0.0"]
    assert {row.attributes["name"] for row in build_index(store).rows} == {"mlp-wide"}
    words["runtimes"] = ["litert"]
    assert len(maintenance.add_models(store, ["demo:mlp-small"], **words).index) == 4


def test_models_of_other_tasks_are_added_and_removed(store, tmp_path):
    shutil.copy(MODELS_FOLDER / "mlp-small.onnx", tmp_path)
    manifest = yaml.safe_load((MODELS_FOLDER / "mlp-small.yaml").read_text())
    manifest["assets"] = [{"format": "onnx", "files": [{"location": "mlp-small.onnx"}]}]
    manifest["outputs"] = [{"task": "embedding"}]
    (tmp_path / "embedding.yaml").write_text(yaml.safe_dump(manifest))
    place = str(tmp_path / "embedding.yaml")
    added = maintenance.add_models(store, [place], probes=DataOrigin("demo", 20), runtimes=["onnxruntime"])
    assert len(added.index.semantic) == 1
    (row,) = added.index.rows
    assert maintenance.remove_models(store, [row.ref], task="embedding") == [row.ref]
    back = maintenance.add_models(store, [place], runtimes=["onnxruntime"])
    assert len(back.index.semantic) == 1


def test_the_same_content_is_found_under_each_of_its_names(store):
    run, _ = fill(store, range(2))
    store.begin_run(replace(run.model, ref="zoo:copy@1.0.0"), run.dataset, run.stack)
    store.set_resolved(run.id, {"origin": {"ref": "zoo:copy@1.0.0", "manifest": dict(run.model.manifest)}})
    index = build_index(store)
    assert index.find("copy") == index.find("net0")
    assert index.rows[index.find("net0")].key == run.id


def test_adding_to_nothing_asks_for_data(store):
    with pytest.raises(ZoolensError, match="no probe dataset yet"):
        maintenance.add_models(store, ["demo:mlp-small"])


def test_verify_tells_a_damaged_file_and_a_wrong_signature(store):
    fill(store, range(3))
    assert maintenance.verify(store).signatures == 3
    index = build_index(store)
    index.semantic.insert(index.rows[1].key, np.zeros(PROBES, int))
    opener._recent.clear()
    assert maintenance.verify(store).differing == ("zoo:net1@1.0.0",)
    assert len(maintenance.rebuild(store).semantic) == 3
    assert maintenance.verify(store).differing == ()
    path = index.semantic.path
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(Damaged, match="index rebuild"):
        maintenance.verify(store)
