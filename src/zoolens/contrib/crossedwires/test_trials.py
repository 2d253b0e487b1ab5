"""The published files are read whole, and a damaged one is refused by file, line and column."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from zoolens.base.errors import DatasetError
from zoolens.base.store.records import Provenance
from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.contrib.crossedwires.study import CrossedWires
from zoolens.contrib.crossedwires.trials import ARCHITECTURES, Imported, import_published, read_published
from zoolens.testing.published_contract import PublishedStudyContract
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names

ROW = {
    "architecture": "vgg16",
    "Name": "dual_train_1",
    "accuracy_diff": "0.25",
    "pt_test_acc": "0.75",
    "tf_test_acc": "0.5",
    "State": "finished",
    "Created": "2021-08-24T03:50:06.000Z",
    "Runtime": "1095",
    "adam_epsilon": "0.19",
    "batch_size": "202",
    "epochs": "2",
    "learning_rate": "0.09",
    "pt_average_training_loss": "[2.5,58540646686793925000]",
    "tf_training_loss": "[2.25,NaN]",
}


def write(folder, rows_of=None, fields=tuple(ROW)):
    """The three files, each with one good row, or with those given."""
    for name in ARCHITECTURES:
        with (folder / f"{name}_trials_clean.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows((rows_of or {}).get(name, [{**ROW, "architecture": name}]))
    return folder


class TestCrossedWires(PublishedStudyContract):
    study_class = CrossedWires

    def folder(self, tmp_path):
        folder = tmp_path / "released"
        folder.mkdir(exist_ok=True)
        return write(folder)


def test_a_row_becomes_a_trial(tmp_path):
    study = read_published(write(tmp_path))[0]
    assert (study.name, study.frameworks) == ("crossedwires-vgg16", ("pytorch", "tensorflow"))
    (trial,) = study.trials
    assert trial.hyperparameters == {"learning_rate": 0.09, "adam_epsilon": 0.19, "batch_size": 202, "epochs": 2}
    pytorch, tensorflow = trial.sides
    assert (pytorch.accuracy, pytorch.exact, pytorch.correct) == (0.75, False, None)
    assert (tensorflow.accuracy, tensorflow.exact, tensorflow.correct, tensorflow.total) == (0.5, True, 5000, 10_000)
    assert pytorch.losses == (2.5, 58540646686793925000.0)
    assert tensorflow.losses == (2.25, None)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("tf_test_acc", "half", "is not a number"),
        ("tf_test_acc", "nan", "is not between 0 and 1"),
        ("pt_test_acc", "1.5", "is not between 0 and 1"),
        ("learning_rate", "inf", "is not between"),
        ("batch_size", "20.5", "is not a whole number"),
        ("epochs", "0", "is not between 1"),
        ("Name", "", "is not a text"),
        ("architecture", "resnet50", "should be vgg16"),
        ("accuracy_diff", "0.3", "is not the difference of the two accuracies"),
        ("tf_training_loss", "[1.0]", "has 1 losses for 2 epochs"),
        ("tf_training_loss", '["1", "2"]', "is not a list of numbers"),
        ("tf_training_loss", "[" * 100_000, "is not a list of numbers"),
        ("tf_training_loss", "__import__('os')", "is not a list of numbers"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, column, value, problem):
    write(tmp_path, {"vgg16": [ROW, {**ROW, "Name": "dual_train_2", column: value}]})
    with pytest.raises(DatasetError) as caught:
        read_published(tmp_path)
    assert f"vgg16_trials_clean.csv, line 3, column {column}: " in str(caught.value)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 400


def test_damaged_files_are_refused_in_words(tmp_path):
    for rows_of, fields, problem in (
        ({"vgg16": [ROW, ROW]}, tuple(ROW), "line 3, column Name: 'dual_train_1' is there twice"),
        ({"vgg16": []}, tuple(ROW), "holds no trials"),
        ({}, ("architecture", "Name"), "has no column accuracy_diff"),
    ):
        write(tmp_path, rows_of, fields)
        with pytest.raises(DatasetError, match=problem):
            read_published(tmp_path)
    write(tmp_path)
    path = tmp_path / "vgg16_trials_clean.csv"
    whole = path.read_bytes()
    for content, problem in (
        (whole[:-60], "line 2 has too many or too few fields"),
        (whole + b'"unclosed', "is not a CSV file"),
        (whole.replace(b"finished", b"\xff\xfe"), "is not a CSV file"),
    ):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match=problem):
            read_published(tmp_path)
    path.unlink()
    with pytest.raises(DatasetError, match="cannot be read: No such file"):
        read_published(tmp_path)


def test_import_is_a_claim_and_is_done_once(tmp_path):
    write(tmp_path)
    told = []
    with open_store(tmp_path / "store.sqlite") as store:
        assert import_published(store, tmp_path, lambda *done: told.append(done)).written == 3
        again = import_published(store, tmp_path)
        assert again == Imported(tuple(study_names_in_order()), written=0, kept=3)
        found = read_study(store, "crossedwires-vgg16")
        bare = tuple(replace(one, sides=tuple(replace(side, run=None) for side in one.sides)) for one in found.trials)
        assert replace(found, trials=bare) == read_published(tmp_path)[0]
        accuracy = store.observations(found.trials[0].side("pytorch").run, metric="accuracy")[0]
        assert (accuracy.provenance, accuracy.details["exact"]) == (Provenance.CLAIMED, False)
        assert sorted(study_names_in_order()) == study_names(store)
    assert told == [(1, 3), (2, 3), (3, 3)]


def study_names_in_order():
    return [f"crossedwires-{name}" for name in ARCHITECTURES]


@pytest.mark.assets
def test_all_published_trials_are_read():
    if not ASSETS.is_dir():
        pytest.skip(f"PUBLISHED TRIALS ABSENT: nothing at {ASSETS}; set ZOOLENS_ASSETS to test against them")
    studies = read_published(ASSETS / "crossedwires")
    assert [len(study.trials) for study in studies] == [400, 400, 400]
    assert all(trial.side("tensorflow").exact for study in studies for trial in study.trials)
    notes = [note for study in studies for trial in study.trials for note in trial.notes]
    assert sorted(notes) == ["published with the state 'running'", *["published without its losses"] * 2]
