import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.base.statistics.seeds import seed_noise
from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.store_report import noise_words, report_study
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics

NAMES = ("torch", "jax")


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        for study in ("tiny", "tiny.replicates"):
            file_study(opened, study, NAMES, {})
        for number in range(4):
            file(opened, "tiny", f"{number}", (0.5, 0.7), rate=number)
            if number != 3:
                file(opened, "tiny.replicates", f"{number}.1", (0.52, 0.71), rate=number)
        file(opened, "tiny", "4", (0.5, None), rate=4)
        file(opened, "tiny.replicates", "4.1", (0.5, None), rate=4)
        yield opened


def file(store, study, name, accuracies, rate, names=NAMES, details=None, **settings):
    sides = tuple(TrainedSide(one, accuracy=value) for one, value in zip(names, accuracies, strict=True))
    file_trial(
        store,
        study,
        Trial(name, {"learning_rate": float(rate), **settings}, sides, details=details or {}),
        TrialFiling(
            recipe_of=dict.fromkeys(names, (None, Semantics())),
            dataset=DatasetRecord("d" * 64, "tiny", 20, {}),
            versions={one: {} for one in names},
        ),
    )


def test_replicates_are_in_the_report(store, tmp_path):
    found = report_study(store, "tiny", tmp_path / "out")
    assert found.paper is None
    rows = (tmp_path / "out" / "noise.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["trial", "0", "1", "2"]
    page = found.files[0].read_text()
    assert "Difference and noise" in page
    assert "19.50 points; of two seeds of the same side: 1.50 points" in page


def test_trainings_that_are_told_twice_count_once(store, tmp_path):
    recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=4, epochs=1)
    for name in ("0001", "2-0001"):
        sides = tuple(TrainedSide(one, accuracy=0.5) for one in NAMES)
        file_trial(
            store,
            "anew",
            Trial(name, {"epochs": 1}, sides),
            TrialFiling(
                recipe_of=dict.fromkeys(NAMES, (recipe, Semantics())),
                dataset=DatasetRecord("d" * 64, "tiny", 20, {}),
                versions={one: {} for one in NAMES},
            ),
        )
    found = report_study(store, "anew", tmp_path / "out")
    assert (len(found.study.trials), found.repeats) == (1, 1)
    assert "1 of 2 trials: the same trainings under other names" in found.files[0].read_text()
    assert report_study(store, "tiny", tmp_path / "all").repeats == 0


def test_a_study_without_replicates_says_nothing_of_noise(store, tmp_path):
    report_study(store, "tiny.replicates", tmp_path / "out")
    assert not (tmp_path / "out" / "noise.csv").exists()


def test_a_study_that_only_says_it_was_published_is_reported_as_any_other(store, tmp_path):
    file_study(store, "crossedwires-vgg16", NAMES, {"published": True, "architecture": ["vgg16"]})
    file(store, "crossedwires-vgg16", "0", (0.5, 0.7), rate=1, details={"published_delta": "much"})
    found = report_study(store, "crossedwires-vgg16", str(tmp_path / "out"), labels=np.arange(3))
    assert found.paper is None
    assert "20.00 %" in found.files[0].read_text()


def test_labels_must_be_those_of_the_published_test_set(store, tmp_path):
    names = ("pytorch", "tensorflow")
    settings = {"adam_epsilon": 0.1, "batch_size": 8, "epochs": 1}
    file_study(store, "crossedwires-vgg16", names, {"published": True, "architecture": "vgg16"})
    file(store, "crossedwires-vgg16", "0", (0.5, 0.7), rate=1, names=names, **settings)
    with pytest.raises(DatasetError, match=r"3 labels.*10,000 test samples"):
        report_study(store, "crossedwires-vgg16", tmp_path / "out", labels=np.arange(3))
    assert report_study(store, "crossedwires-vgg16", tmp_path / "out").paper is not None


def test_one_seed_has_no_noise_to_speak_of():
    assert noise_words([seed_noise("torch", [0.5], "jax", [0.6])]) == "No pair has two seeds with both accuracies."
