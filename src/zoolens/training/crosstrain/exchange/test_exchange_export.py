"""What is exported explains itself and comes back as it was."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.records import Provenance
from zoolens.contrib.crossedwires.test_trials import write
from zoolens.contrib.crossedwires.trials import import_published
from zoolens.findings.measure.answers import kept_labels, trained_answers
from zoolens.training.crosstrain.exchange.check import check_submission
from zoolens.training.crosstrain.exchange.conftest import DATASET, LABELS, VERSIONS, file_numbered
from zoolens.training.crosstrain.exchange.exchange_export import export_study
from zoolens.training.crosstrain.exchange.exchange_schema import TABLES
from zoolens.training.crosstrain.exchange.merge import import_study, submit
from zoolens.training.crosstrain.study.report.study_findings import gather
from zoolens.training.crosstrain.study.report.study_page import study_lead
from zoolens.training.crosstrain.study.stored_studies import file_study, file_trial, read_study, study_names
from zoolens.training.crosstrain.training.kept_weights import has_weights, weights_of
from zoolens.training.crosstrain.training.side_recipe import side_recipe


def test_a_study_comes_back_equal(store, elsewhere, folder):
    original = read_study(store, "small")
    assert import_study(elsewhere, folder.path) == original  # with the same runs
    for trial in original.trials:
        for side in trial.sides:
            if side.status != "failed":
                assert np.array_equal(trained_answers(store, side.run), trained_answers(elsewhere, side.run))
                assert store.observations(side.run, metric="epoch_time") == elsewhere.observations(
                    side.run, metric="epoch_time"
                )
            assert side_recipe(store, side.run) == side_recipe(elsewhere, side.run)
    first = original.trials[0].side("torch").run
    assert has_weights(elsewhere, first)
    assert not has_weights(elsewhere, original.trials[0].side("jax").run)
    for name, array in weights_of(store, first).items():
        assert np.array_equal(array, weights_of(elsewhere, first)[name])
    assert np.array_equal(kept_labels(elsewhere, DATASET), LABELS)


def test_the_second_export_is_the_first_one(elsewhere, folder, tmp_path):
    import_study(elsewhere, folder.path)
    again = export_study(elsewhere, "small", tmp_path / "again")
    sums = [(place / "checksums.txt").read_text().splitlines() for place in (again, folder.path)]
    dated = [[line for line in one if not line.endswith("datasheet.md")] for one in sums]  # it has today's date
    assert dated[0] == dated[1]
    assert len(dated[0]) == 10


def test_submitting_twice_changes_nothing(store, elsewhere, folder):
    assert (submit(elsewhere, folder.path).written, submit(elsewhere, folder.path).kept) == (3, 3)
    rows = elsewhere.observation_table().num_rows
    submit(elsewhere, folder.path)
    assert elsewhere.observation_table().num_rows == rows
    assert submit(store, folder.path).written == 0


@pytest.mark.parametrize("done", [1, 2])
def test_an_interrupted_import_is_not_taken_for_the_whole_study(elsewhere, folder, monkeypatch, done):
    """The same command again makes it whole."""
    filed = []

    def file(*arguments, **settings):
        if len(filed) == done:
            raise KeyboardInterrupt
        filed.append(file_trial(*arguments, **settings))
        return filed[-1]

    with monkeypatch.context() as patched:
        patched.setattr("zoolens.training.crosstrain.exchange.merge.file_trial", file)
        with pytest.raises(KeyboardInterrupt):
            submit(elsewhere, folder.path)
    (name,) = study_names(elsewhere)
    partial = read_study(elsewhere, name)
    assert partial.missing.startswith(f"Not whole: {done} of ")
    assert partial.missing in partial.source
    assert study_lead(gather(partial, deep=False)).startswith(partial.missing)
    submit(elsewhere, folder.path)
    whole = read_study(elsewhere, name)
    assert (whole.missing, "importing" in whole.details) == ("", False)
    assert len(whole.trials) > done


def test_the_schema_describes_every_column_of_every_table(folder):
    schema = json.loads((folder.path / "schema.json").read_text())
    for name in TABLES:
        columns = pq.read_schema(folder.path / f"{name}.parquet").names
        described = schema["$defs"][name]["properties"]
        assert list(described) == columns
        assert all(column["description"] for column in described.values())
    assert schema["$defs"]["sides"]["properties"]["seconds"]["unit"] == "s"
    kinds = schema["$defs"]["trials"]["properties"]
    assert kinds["hyperparameter.epochs"]["type"] == ["integer", "null"]
    assert "hyperparameter-json.odd" in kinds  # a word in one trial, a number in others


def test_checksums_are_those_of_sha256sum(folder):
    subprocess.run(["sha256sum", "--check", "--strict", "checksums.txt"], cwd=folder.path, check=True)


def test_the_datasheet_counts_what_is_there(folder):
    text = (folder.path / "datasheet.md").read_text()
    for words in (
        "3 trials", "6 sides, of which 4 finished, 5 have their predictions and 1 their weights", "CC-BY-4.0",
        "2 of 6 sides did not finish", "1 of 6 sides always gave the same answer", "torch 2.13.0", "seed noise",
    ):  # fmt: skip
        assert words in text, words


def test_what_is_there_is_not_overwritten(store, folder):
    with pytest.raises(ZoolensError, match="not empty"):
        export_study(store, "small", folder.path)
    with pytest.raises(UnknownName, match="Did you mean small"):
        export_study(store, "smal", folder.path.parent / "other")
    assert not (folder.path.parent / "other").exists()


def test_claims_come_back_as_claims(store, elsewhere, tmp_path):
    write(tmp_path)
    import_published(store, tmp_path)
    out = export_study(store, "crossedwires-vgg16", tmp_path / "claims")
    check = check_submission(out)
    assert check.fine, check.problems
    assert (check.counts["claims"], check.counts["with predictions"]) == (2, 0)
    again = import_study(elsewhere, out)
    assert again == read_study(store, "crossedwires-vgg16")
    run = again.trials[0].side("pytorch").run
    assert {one.provenance for one in elsewhere.observations(run, metric="accuracy")} == {Provenance.CLAIMED}


def test_a_hyperparameter_that_is_true_or_false_is_in_order(store, elsewhere, tmp_path):
    """`explain` files the semantics that it switches as hyperparameters, and a convolution's bias is one of them."""
    file_study(store, "biased", tuple(VERSIONS), {})
    for number in range(2):
        file_numbered(store, number, study="biased", name=f"biased-{number}", **{"semantics.conv_bias": False})
    out = export_study(store, "biased", tmp_path / "biased")
    assert "hyperparameter-json.semantics.conv_bias" in pq.read_schema(out / "trials.parquet").names
    check = check_submission(out)
    assert check.fine, check.problems
    again = import_study(elsewhere, out)
    assert [trial.hyperparameters["semantics.conv_bias"] for trial in again.trials] == [False, False]
