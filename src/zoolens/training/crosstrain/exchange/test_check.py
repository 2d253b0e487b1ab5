"""Whatever was altered is found, and named; nothing is merged then."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.findings.measure.answers import keep_labels
from zoolens.training.crosstrain.exchange import exchange_tables
from zoolens.training.crosstrain.exchange.check import check_submission
from zoolens.training.crosstrain.exchange.conftest import DATASET, LABELS, READ, file_numbered
from zoolens.training.crosstrain.exchange.datasheet import datasheet
from zoolens.training.crosstrain.exchange.exchange_export import gathered
from zoolens.training.crosstrain.exchange.merge import SubmissionRefused, submit
from zoolens.training.crosstrain.study.stored_studies import file_study, read_study, study_names
from zoolens.training.crosstrain.training.weights import write_weights
from zoolens.training.pairs.semantics import ALIGNED


def refused(folder, *words):
    problems = check_submission(folder.path).problems
    assert any(all(word in one for word in words) for one in problems), problems
    return problems


def test_an_export_is_in_order(folder):
    check = check_submission(folder.path)
    assert check.fine, check.problems
    assert (check.counts["trials"], check.counts["with predictions"], check.counts["with weights"]) == (3, 5, 1)


def test_a_flipped_bit_is_found_in_every_file(folder):
    draw = np.random.default_rng(0)
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert len(files) == 12
    for path in files:
        content = path.read_bytes()
        for place in {0, len(content) - 1, *draw.integers(0, len(content), 3).tolist()}:
            altered = bytearray(content)
            altered[place] ^= 1 << int(draw.integers(8))
            path.write_bytes(altered)
            assert refused(folder, path.name), (path, place)
        path.write_bytes(content[:-1])
        refused(folder, path.name)
        path.write_bytes(content)
    assert check_submission(folder.path).fine


@pytest.mark.parametrize(
    ("table", "row", "column", "value", "words"),
    [
        ("sides", 0, "accuracy", 0.95, ("'0000', torch", "accuracy", "0.95")),
        ("sides", 0, "correct", 19, ("'0000', torch", "correct")),
        ("sides", 1, "class_accuracy", [1.0, 1.0, 1.0, 1.0], ("'0000', jax", "each class")),
        ("sides", 3, "answered", [5, 5, 5, 5], ("collapsed",)),
        ("sides", 3, "collapsed", False, ("collapsed",)),
        ("sides", 0, "total", 40, ("total",)),
        ("pairs", 0, "churn", 0.0, ("churn of torch and jax",)),
        ("epochs", 1, "accuracy", 0.85, ("last epoch",)),
        ("epochs", 0, "accuracy", 0.123, ("no share of 20",)),
        ("labels", 3, "label", 0, ("'0000'", "accuracy")),
        ("predictions", 0, "answer", 9, ("classes",)),
        ("predictions", 0, "side", 5, ("not in order",)),
        ("sides", 0, "accuracy", 1.5, ("row 0, column accuracy", "between 0 and 1")),
        ("sides", 0, "seconds", float("nan"), ("not finite",)),
        ("sides", 0, "status", "splendid", ("row 0, column status", "finished")),
        ("sides", 0, "told", '{"norm_momentum": 3}', ("column told",)),
        ("sides", 0, "told", "[]", ("column told", "another kind")),
        ("sides", 0, "recipe", 7, ("no recipe 7",)),
        ("sides", 0, "trial", "9999", ("'9999'",)),
        ("sides", 0, "framework", "caffe", ("'caffe'",)),
        ("sides", 0, "side", 4, ("numbered",)),
        ("sides", 0, "losses", 9, ("fewer epochs",)),
        ("trials", 0, "details", '{"a": NaN}', ("not JSON",)),
        ("trials", 0, "details", "[" * 100_000, ("nested too deeply",)),
        ("trials", 0, "notes", "[1]", ("column notes",)),
        ("trials", 0, "trial", "0001", ("2 times",)),
        ("trials", 0, "dataset", 3, ("no dataset 3",)),
        ("trials", 0, "provenance", "guessed", ("provenance",)),
        ("pairs", 0, "framework_b", "caffe", ("pairs.parquet",)),
        ("epochs", 1, "epoch", 1, ("out of place",)),
        ("trials", 0, "details", '{"a": 1e999}', ("not JSON", "too large")),
        ("trials", 0, "notes", '["\\u001b[2J"]', ("column notes", "cannot be shown")),
        ("trials", 0, "notes", '["\\ud800"]', ("column notes", "cannot be shown")),
        ("trials", 0, "hyperparameter-json.odd", "9" * 400, ("hyperparameter-json.odd", "another kind")),
        ("sides", 5, "message", "\x1b]0;gone\x07", ("column message", "cannot be shown")),
        ("sides", 5, "status", "finished", ("'0002', jax", "neither an accuracy nor predictions")),
    ],
)
def test_figures_that_were_changed_with_their_checksum_are_found(folder, table, row, column, value, words):
    folder.change(table, row, column, value)
    refused(folder, *words)


def test_predictions_that_are_left_out_are_missed(folder):
    path = folder.path / "predictions.parquet"
    pq.write_table(pq.read_table(path).slice(20), path)
    folder.rehash()
    refused(folder, "'0000', torch", "no predictions")
    refused(folder, "'0000', torch", "weights")


def test_a_claim_does_not_stand_for_a_training(elsewhere, folder):
    """Else a study here would take it for done."""
    path = folder.path / "predictions.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    (folder.path / "weights" / "0.safetensors").unlink()
    for row in range(3):
        folder.change("trials", row, "provenance", "claimed")
    refused(folder, "'0000', torch", "claim without predictions")


def test_names_that_the_store_uses_itself_are_refused(folder):
    folder.change_json("study.json", lambda found: found.update(frameworks=["torch", "jax", "study"]))
    refused(folder, "no framework can be named study")


def test_labels_are_needed(folder):
    path = folder.path / "labels.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    folder.rehash()
    refused(folder, "no labels")


def test_tables_of_another_shape_are_refused(folder):
    path = folder.path / "sides.parquet"
    table = pq.read_table(path)
    for changed, words in (
        (table.drop_columns(["accuracy"]), "no column accuracy"),
        (table.append_column("extra", table["side"]), "'extra'"),
        (table.set_column(0, "side", table["side"].cast(pa.int64())), "should be int32"),
    ):
        pq.write_table(changed, path)
        folder.rehash()
        refused(folder, words)


def test_documents_are_held_against_their_schema(folder):
    folder.change_json("recipes.json", lambda found: found[0].update(epochs=-1))
    refused(folder, "recipes.json, 0.epochs")
    folder.change_json("recipes.json", lambda found: found[0].update(epochs=2))
    folder.change_json("schema.json", lambda found: found["$defs"].pop("sides"))
    refused(folder, "schema.json does not describe")
    folder.change_json("study.json", lambda found: found.update(format="something else"))
    refused(folder, "study.json, format")
    (folder.path / "study.json").write_text("{")
    folder.rehash()
    refused(folder, "study.json is not JSON")


def test_nothing_else_may_lie_in_the_folder(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    for name in ("run.sh", "weights/0.pkl", "weights/../x.pickle", "weights/007.safetensors"):
        path = folder.path / name
        path.write_bytes(pickle.dumps({}))
        refused(folder, path.name, "does not belong here")
        path.unlink()
    (folder.path / "more").mkdir()
    refused(folder, "more is a folder")
    (folder.path / "more").rmdir()
    for name in ("datasheet.md", "weights/0.safetensors"):
        path = folder.path / name
        content = path.read_bytes()
        path.unlink()
        path.symlink_to(secret)
        refused(folder, name, "is a link")
        path.unlink()
        path.write_bytes(content)
    assert check_submission(folder.path).fine


def test_files_that_are_missing_are_named(folder):
    (folder.path / "labels.parquet").unlink()
    (folder.path / "weights" / "0.safetensors").unlink()
    assert refused(folder, "labels.parquet is missing")
    with pytest.raises(ZoolensError, match="is not a folder"):
        check_submission(folder.path / "nowhere")


def test_weights_must_be_weights_of_a_side(folder):
    (folder.path / "weights" / "0.safetensors").write_bytes(b"\0" * 64)
    folder.rehash()
    refused(folder, "weights/0.safetensors", "cannot be read")
    (folder.path / "weights" / "0.safetensors").rename(folder.path / "weights" / "77.safetensors")
    folder.rehash()
    refused(folder, "weights", "77")


def test_weights_that_the_store_would_not_take_are_refused_before_anything_is_merged(folder):
    write_weights(folder.path / "weights" / "0.safetensors", {"logits.kernel": np.zeros((4, 4), np.uint8)})
    folder.rehash()
    refused(folder, "weights/0.safetensors", "logits.kernel", "uint8")


@pytest.mark.parametrize("name", ["../up", "/etc/x", "a b", "", "x" * 141, "\x1b[2J", "a\n"])
def test_a_study_has_a_plain_name(elsewhere, folder, name):
    with pytest.raises(ZoolensError, match="A study cannot be named"):
        submit(elsewhere, folder.path, into=name)
    folder.change_json("study.json", lambda found: found.update(name=name))
    refused(folder, "study.json")
    assert study_names(elsewhere) == []


def test_names_and_sizes_that_nobody_could_store_are_refused(folder):
    folder.change_json("study.json", lambda found: found["datasets"][0].update(size=1 << 70))
    refused(folder, "study.json, datasets.0.size")
    folder.change_json("study.json", lambda found: found["datasets"][0].update(size=20))
    folder.change_json("study.json", lambda found: found.update(frameworks=["torch", "jax", "jax"]))
    refused(folder, "framework twice")
    folder.change_json("study.json", lambda found: found.update(frameworks=["torch", "jax"]))
    for table in ("trials", "pairs"):
        folder.change(table, 0, "trial", "a\nb")
    for row in (0, 1):
        folder.change("sides", row, "trial", "a\nb")
    refused(folder, "no name of a trial")


def test_many_columns_are_many_values(folder, monkeypatch):
    """A column that always says the same takes no room in a file, and much when it is unpacked."""
    path = folder.path / "trials.parquet"
    table = pq.read_table(path)
    for number in range(200):
        table = table.append_column(f"hyperparameter.x{number}", pa.array([1.0] * 3))
    pq.write_table(table, path)
    folder.rehash()
    monkeypatch.setattr(exchange_tables, "MAX_NUMBERS", 500)
    refused(folder, "trials.parquet has more than 500 values")


def test_sizes_are_bounded_before_anything_is_unpacked(folder, monkeypatch):
    monkeypatch.setattr(exchange_tables, "MAX_ROWS", 5)
    refused(folder, "sides.parquet has more than 5 rows")
    monkeypatch.setattr(exchange_tables, "MAX_ROWS", 100)
    folder.change("trials", 0, "details", '{"a": "' + "x" * 100_000 + '"}')
    monkeypatch.setattr(exchange_tables, "MAX_TEXTS", 50_000)
    refused(folder, "trials.parquet", "of text")


def test_a_long_text_that_repeats_is_not_unpacked(folder):
    """A few kilobytes that would be 64 GiB."""
    path = folder.path / "trials.parquet"
    table = pq.read_table(path)
    rows = 1 << 16
    indices = pa.array(np.zeros(rows, np.int32))
    bomb = {}
    for field in table.schema:
        values = (
            pa.array(["x" * (1 << 20)]) if field.name == "details" else table[field.name].combine_chunks().slice(0, 1)
        )
        packed = pa.DictionaryArray.from_arrays(indices, values)
        bomb[field.name] = packed if pa.types.is_string(field.type) else packed.cast(field.type)
    pq.write_table(pa.table(bomb), path, store_schema=False)
    assert path.stat().st_size < 1 << 22
    folder.rehash()
    refused(folder, "trials.parquet", "MiB of text")


# --- merging


def test_a_refused_folder_changes_nothing(elsewhere, folder):
    folder.change("sides", 4, "accuracy", 0.95)
    with pytest.raises(SubmissionRefused, match=r"nothing was changed: Trial '0002', torch: the accuracy"):
        submit(elsewhere, folder.path)
    assert study_names(elsewhere) == []
    assert elsewhere.runs(runtime="crosstrain:*") == []


def test_another_content_under_the_same_name_is_refused_in_words(elsewhere, folder):
    file_numbered(elsewhere, 1, seed=7)
    before = elsewhere.observation_table().num_rows
    with pytest.raises(SubmissionRefused, match=r"Trial '0001' of 'small' is in the store with other content: torch's"):
        submit(elsewhere, folder.path)
    with pytest.raises(SubmissionRefused, match=r"store has the same training"):
        submit(elsewhere, folder.path, into="other")
    assert elsewhere.observation_table().num_rows == before


def test_another_setting_under_the_same_name_may_be_merged_under_another(elsewhere, folder):
    file_numbered(elsewhere, 1, momentum=0.5)
    with pytest.raises(SubmissionRefused, match="its hyperparameters"):
        submit(elsewhere, folder.path)
    assert submit(elsewhere, folder.path, into="other").written == 3
    assert [len(read_study(elsewhere, name).trials) for name in ("small", "other")] == [1, 3]


def test_a_study_of_other_frameworks_is_not_added_to(elsewhere, folder):
    file_study(elsewhere, "small", ("torch", "tensorflow"), {})
    with pytest.raises(SubmissionRefused, match="is trained by torch, tensorflow, and this one by torch, jax"):
        submit(elsewhere, folder.path)
    assert read_study(elsewhere, "small").trials == ()


def test_changed_predictions_with_the_same_counts_are_refused(store, folder):
    """Two samples of one class whose answers were exchanged: every figure stays."""
    table = pq.read_table(folder.path / "predictions.parquet").slice(0, 20)["answer"].to_pylist()
    a, b = next((a, b) for a in range(20) for b in range(a + 4, 20, 4) if table[a] != table[b])
    other = pq.read_table(folder.path / "predictions.parquet").slice(20, 20)["answer"].to_pylist()
    folder.change("predictions", a, "answer", table[b])
    folder.change("predictions", b, "answer", table[a])
    table[a], table[b] = table[b], table[a]
    folder.change("pairs", 0, "churn", float(np.mean(np.array(table) != np.array(other))))
    assert check_submission(folder.path).fine
    with pytest.raises(SubmissionRefused, match=r"'0000'"):
        submit(store, folder.path)


def test_labels_of_known_data_must_be_the_known_ones(elsewhere, folder):
    keep_labels(elsewhere, DATASET, (LABELS + 1) % 4)
    with pytest.raises(SubmissionRefused, match="labels of 'tiny' are not those"):
        submit(elsewhere, folder.path)
    assert study_names(elsewhere) == []


def test_what_is_new_is_added_to_what_is_there(store, elsewhere, folder):
    file_numbered(elsewhere, 0)
    merged = submit(elsewhere, folder.path)
    assert (merged.written, merged.kept) == (2, 1)
    without = [replace(one, details={}) for one in read_study(elsewhere, "small").trials]
    assert without == [replace(one, details={}) for one in read_study(store, "small").trials]


# --- contradictions: every file is whole and has its checksum, and what they say cannot be


def semantics(**changes):
    return json.dumps({**READ.model_dump(exclude_none=True), **changes})


TAMPERED = {
    "a hyperparameter that the recipe does not have": (
        lambda folder: folder.change("trials", 0, "hyperparameter.learning_rate", 0.2),
        ("'0000'", "learning_rate is 0.2", "its recipe 0.1"),
    ),
    "a hyperparameter of a part": (
        lambda folder: folder.change("trials", 0, "hyperparameter.optimizer.name", "sgd"),
        ("optimizer.name is sgd", "adam"),
    ),
    "another recipe under the same trial": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(epochs=3)),
        ("epochs is 2", "its recipe 3"),
    ),
    "another learning rate of the recipe": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[1].update(learning_rate=0.5)),
        ("'0001'", "learning_rate is 0.1"),
    ),
    "sides of two recipes": (lambda folder: folder.change("sides", 1, "recipe", 1), ("different recipes",)),
    "another architecture": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(architecture="resnet8")),
        ("parameters, and the network of its recipe",),
    ),
    "an architecture that is none": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(architecture="alexnet")),
        ("cannot be built", "alexnet"),
    ),
    "an architecture for larger images": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(architecture="lenet")),
        ("cannot be built", "too small"),
    ),
    "more parameters": (lambda folder: folder.change("sides", 0, "parameters", 10**6), ("1000000 parameters",)),
    "fewer steps": (lambda folder: folder.change("sides", 0, "steps", 1), ("1 steps", "makes 8")),
    "more steps than a training that stopped can have": (
        lambda folder: folder.change("sides", 3, "steps", 9),
        ("'0001', jax", "9 steps"),
    ),
    "another batch size": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(batch_size=8)),
        ("8 steps", "makes 4"),
    ),
    "another number of training samples": (
        lambda folder: folder.change_json("study.json", lambda found: found["datasets"][0]["details"].update(train=99)),
        ("8 steps", "of 99 training samples"),
    ),
    "no number of training samples": (
        lambda folder: folder.change_json("study.json", lambda found: found["datasets"][0]["details"].pop("train")),
        ("does not say how many training samples",),
    ),
    "two numbers of test samples": (
        lambda folder: folder.change_json("study.json", lambda found: found["datasets"][0]["details"].update(test=9)),
        ("20 test samples, and 9",),
    ),
    "a limit below the number of samples": (
        lambda folder: folder.change_json("recipes.json", lambda found: found[0].update(test_limit=10)),
        ("more than the test_limit 10",),
    ),
    "fewer epochs than the recipe": (lambda folder: folder.change("sides", 0, "losses", 1), ("losses of 1 epochs",)),
    "finished with a loss that is not": (lambda folder: folder.change("epochs", 1, "loss", None), ("is not finite",)),
    "a loss below 0": (lambda folder: folder.change("epochs", 0, "loss", -1.0), ("below 0",)),
    "epochs longer than the training": (
        lambda folder: folder.change("epochs", 0, "seconds", 1e6),
        ("more than the 1.5 s of the whole",),
    ),
    "semantics that are none": (
        lambda folder: folder.change("sides", 0, "semantics", '{"sparkle": 3}'),
        ("its semantics are none: sparkle",),
    ),
    "semantics out of range": (
        lambda folder: folder.change("sides", 0, "semantics", semantics(norm_momentum=7)),
        ("its semantics are none: norm_momentum",),
    ),
    "semantics other than told": (
        lambda folder: folder.change("sides", 0, "semantics", semantics(adam_rule="inside")),
        ("told adam_rule outside", "had inside"),
    ),
    "no semantics": (lambda folder: folder.change("sides", 0, "semantics", "{}"), ("does not say which semantics",)),
    "told what no recipe says": (
        lambda folder: folder.change("sides", 0, "told", json.dumps({**ALIGNED.model_dump(), "dropout": 0.5})),
        ("told dropout 0.5, which neither",),
    ),
    "overrides that are none": (
        lambda folder: folder.change("trials", 0, "details", '{"overrides": {"torch": 3}}'),
        ("overrides",),
    ),
    "another recipe in the details": (
        lambda folder: folder.change("trials", 0, "details", '{"recipe": {"architecture": "mlp"}}'),
        ("the recipe in its details",),
    ),
    "another dataset in the details": (
        lambda folder: folder.change("trials", 0, "details", json.dumps({"dataset": "e" * 64})),
        ("the dataset in its details",),
    ),
    "a version that is none": (
        lambda folder: folder.change("sides", 0, "versions", '{"torch": "the newest"}'),
        ("'the newest' is no version of torch",),
    ),
    "no versions": (lambda folder: folder.change("sides", 0, "versions", "{}"), ("do not begin with that of torch",)),
    "versions of another framework": (
        lambda folder: folder.change("sides", 0, "versions", '{"jax": "0.10.2"}'),
        ("do not begin with that of torch",),
    ),
    "a framework that trained nothing": (
        lambda folder: folder.change_json("study.json", lambda found: found["frameworks"].append("tensorflow")),
        ("tensorflow, and no side",),
    ),
    "failed with results": (
        lambda folder: folder.change("sides", 0, "status", "failed"),
        ("it failed, and has results",),
    ),
    "counted and not exact": (lambda folder: folder.change("sides", 0, "exact", False), ("no quotient of counts",)),
    "answers that are not compared": (
        lambda folder: folder.leave_out("pairs", 0),
        ("how differently torch and jax answer",),
    ),
    "a tensor of another shape": (
        lambda folder: folder.change_weights(0, lambda found: {**found, "logits.bias": np.zeros(7, np.float32)}),
        ("'logits.bias' has the shape (7,)",),
    ),
    "a tensor that is missing": (
        lambda folder: folder.change_weights(0, lambda found: {"logits.bias": found["logits.bias"]}),
        ("it is missing",),
    ),
    "a tensor too many": (
        lambda folder: folder.change_weights(0, lambda found: {**found, "extra": np.zeros(3, np.float32)}),
        ("'extra': the network of its recipe has no such tensor",),
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_folder_that_contradicts_itself_is_refused(folder, elsewhere, name):
    tamper, words = TAMPERED[name]
    tamper(folder)
    refused(folder, *words)
    with pytest.raises(SubmissionRefused):
        submit(elsewhere, folder.path)
    assert study_names(elsewhere) == []


def test_the_datasheet_shows_a_strangers_words_and_does_not_obey_them(store):
    file_study(store, "small", ("torch", "jax"), {"author": "<script>x</script>\n## Known flaws\n\n- none [a](b) `c`"})
    contents, _, made = gathered(store, "small")
    text = datasheet(contents, made)
    assert "<script>" not in text
    assert text.count("\n## Known flaws") == 1
    assert "\\[a\\]\\(b\\)" in text
