"""Weights are run on the images that come with zoolens; what they answer must be what is stored."""

from pathlib import Path

import numpy as np
import pytest

from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import keep_labels
from zoolens.training.crosstrain.exchange.check import check_submission
from zoolens.training.crosstrain.exchange.conftest import READ, Folder
from zoolens.training.crosstrain.exchange.exchange_export import export_study
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.architectures import build, parameters
from zoolens.training.crosstrain.training.initial import initial_weights
from zoolens.training.crosstrain.training.job import Epoch, Outcome
from zoolens.training.crosstrain.training.kept_weights import keep_weights
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.side_recipe import SideRecipe
from zoolens.training.crosstrain.training.trainers.registry import reference_trainer
from zoolens.training.crosstrain.training.trial_runner import side_of
from zoolens.training.crosstrain.training.trials import Trial
from zoolens.training.pairs.data.prepared_data import load, prepared
from zoolens.training.pairs.semantics import ALIGNED

pytest.importorskip("torch")
RECIPE = Recipe(
    architecture="mlp", dataset="demo", train_limit=40, test_limit=30, learning_rate=0.1, batch_size=40, epochs=1
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A side that learnt nothing: its weights are the first ones, and its answers are theirs."""
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    data = prepared(RECIPE)
    truth = load(data.folder).test_y
    network = build("mlp", ALIGNED, data.input_shape, data.classes)
    weights = initial_weights(network, ALIGNED, 0)
    images = np.asarray(load(data.folder).test_x)
    answers = reference_trainer()().answers(SideRecipe("torch", RECIPE, ALIGNED, data.record), weights, images)
    correct = int((answers == truth).sum())
    epoch = Epoch(number=1, loss=2.3, correct=correct, total=30, seconds=0.5)
    outcome = Outcome(
        framework="torch",
        versions={"torch": "2.13.0"},
        status="finished",
        epochs=(epoch,),
        steps=1,
        parameters=parameters(network),
        semantics=READ,
        seconds=1,
    )
    side = side_of(outcome, answers, truth, data.classes)
    with open_store(tmp_path / "store.sqlite") as store:
        file_study(store, "one", ("torch",), {})
        keep_labels(store, data.record, truth)
        filed = file_trial(
            store,
            "one",
            Trial("1", {"learning_rate": 0.1}, (side,)),
            TrialFiling(
                recipe_of={"torch": (RECIPE, ALIGNED)},
                dataset=data.record,
                versions={"torch": {"torch": "2.13.0"}},
                predictions={"torch": answers},
                outcomes={"torch": outcome},
            ),
        )
        assert keep_weights(store, str(filed.sides[0].run), weights, answers)
        return Folder(Path(export_study(store, "one", tmp_path / "out")))


def test_weights_that_give_the_stored_answers_are_in_order(folder):
    check = check_submission(folder.path)
    assert check.fine, check.problems
    assert check.counts["weights run"] == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_weights_of_another_training_are_refused(folder, seed):
    network = build("mlp", ALIGNED, (1, 28, 28), 10)
    folder.change_weights(0, lambda _: initial_weights(network, ALIGNED, seed))
    (problem,) = check_submission(folder.path).problems
    assert "weights/0.safetensors: run on the test images, they give another answer for" in problem


def test_weights_that_are_not_numbers_are_refused(folder):
    folder.change_weights(0, lambda found: {name: np.full_like(array, np.nan) for name, array in found.items()})
    assert any("run on the test images" in one for one in check_submission(folder.path).problems)


def test_data_that_only_the_recipe_names_are_not_opened(folder, tmp_path):
    """A stranger's recipe may name any file of this machine."""
    folder.change_json("recipes.json", lambda found: found[0].update(dataset=f"idx:{tmp_path}"))
    check = check_submission(folder.path)
    assert (check.problems, check.counts["weights run"]) == ((), 0)
