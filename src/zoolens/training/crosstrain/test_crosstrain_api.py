"""A study from training to a live model, by the few lines that a user writes."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import trained_answers
from zoolens.training.crosstrain import crosstrain_api
from zoolens.training.crosstrain.exchange import merge
from zoolens.training.crosstrain.exchange.check import check_submission
from zoolens.training.crosstrain.exchange.conftest import Folder
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_study, file_trial
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.kept_weights import keep_weights
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.side_recipe import side_recipe
from zoolens.training.crosstrain.training.trainer_process import OUTCOME, PREDICTIONS, WEIGHTS
from zoolens.training.crosstrain.training.trial_runner import TrialRequest, apply, train_trial
from zoolens.training.crosstrain.training.weights import read_weights
from zoolens.training.pairs.data.prepared_data import load, prepared
from zoolens.training.pairs.semantics import Semantics

torch = pytest.importorskip("torch")
RATES = (0.01, 0.02)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A store with a study of two trials, and the data that they were trained on."""
    folder = tmp_path_factory.mktemp("api")
    patch = pytest.MonkeyPatch()
    patch.setenv("ZOOLENS_HOME", str(folder / "home"))
    draw = np.random.default_rng(0)
    for name, count in (("train", 96), ("test", 40)):
        y = np.arange(count, dtype=np.int64) % 4
        noise = draw.integers(0, 60, (count, 8, 8, 1))
        np.savez(folder / f"{name}.npz", x=(noise + 60 * y[:, None, None, None]).astype(np.uint8), y=y)
    yield folder
    patch.undo()


@pytest.fixture(scope="module")
def store(place, workers):
    recipe = Recipe(
        architecture="convnorm",
        dataset=f"npz:{place / 'train.npz'}|npz:{place / 'test.npz'}",
        learning_rate=0.01,
        batch_size=16,
        epochs=2,
        mode="library",
    )
    with open_store(place / "store.sqlite") as opened:
        file_study(opened, "tiny", ("torch",), {})
        for number, rate in enumerate(RATES):
            _train(opened, apply(recipe, {"learning_rate": rate}), workers, f"{number:04}", rate, place / "work")
        yield opened


def _train(store, recipe, workers, name, rate, work):
    settings = {"learning_rate": rate}
    request = TrialRequest(recipe, ["torch"], name, settings)
    trial = train_trial(request, workers, work, manner=Manner(threads=1, keep_weights=True))
    output = work / name / "torch"
    outcome = Outcome.model_validate_json((output / OUTCOME).read_text())
    answers = np.load(output / PREDICTIONS)
    filed = file_trial(
        store,
        "tiny",
        trial,
        TrialFiling(
            recipe_of={"torch": (recipe, recipe.wanted)},
            dataset=prepared(recipe).record,
            versions={"torch": outcome.versions},
            predictions={"torch": answers},
            outcomes={"torch": outcome},
        ),
    )
    assert keep_weights(store, filed.side("torch").run, read_weights(output / WEIGHTS), answers)


def answered(store, trial, net):
    told = side_recipe(store, trial.side("torch").run)
    images = np.array(load(prepared(told.recipe).folder).test_x, np.float32).transpose(0, 3, 1, 2) / 255
    with torch.inference_mode():
        return net(torch.from_numpy(images)).argmax(1).numpy()


def test_studies_and_trials_are_listed(store):
    assert crosstrain_api.studies(store) == ["tiny"]
    assert [one.id for one in crosstrain_api.study("tiny", store).trials] == ["0000", "0001"]
    assert len(crosstrain_api.trials("tiny", store)) == 0  # one row a pair, and there is one side
    assert [one.id for one in crosstrain_api.find("tiny", learning_rate=0.0201, store=store)] == ["0001"]
    assert [
        one.id for one in crosstrain_api.find(crosstrain_api.study("tiny", store), learning_rate=0.015, tolerance=0.4)
    ] == [
        "0001",
        "0000",
    ]


def test_a_live_model_answers_as_the_trained_one_did(store):
    trial = crosstrain_api.study("tiny", store).trials[0]
    net = crosstrain_api.model(trial, "torch", store)
    assert isinstance(net, torch.nn.Module)
    assert not net.training
    assert answered(store, trial, net).tolist() == trained_answers(store, trial.side("torch").run).tolist()


def test_training_goes_on_from_the_weights(store, workers):
    trial = crosstrain_api.study("tiny", store).trials[0]
    trained = crosstrain_api.continue_training(trial, "torch", epochs=1, store=store, workers=workers, threads=1)
    assert (trained.outcome.status, len(trained.outcome.epochs)) == ("finished", 1)
    assert trained.outcome.epochs[0].loss < trial.side("torch").losses[0]  # not from the beginning
    before = crosstrain_api.weights(trial, "torch", store)
    assert trained.weights.keys() == before.keys()
    assert any(not np.array_equal(trained.weights[name], before[name]) for name in before)
    with pytest.raises(ZoolensError, match="epochs cannot be 0"):
        crosstrain_api.continue_training(trial, "torch", epochs=0, store=store)


def test_a_study_moves_to_another_store_with_its_models(store, place):
    folder = crosstrain_api.export_study(store, "tiny", place / "exported")
    check = check_submission(folder)
    assert check.fine, check.problems
    assert check.counts["with weights"] == 2
    with open_store(place / "elsewhere.sqlite") as elsewhere:
        assert crosstrain_api.import_study(elsewhere, folder) == crosstrain_api.study("tiny", store)
        trial = crosstrain_api.study("tiny", elsewhere).trials[1]
        net = crosstrain_api.model(trial, "torch", elsewhere)
        assert answered(elsewhere, trial, net).tolist() == trained_answers(store, trial.side("torch").run).tolist()


def test_weights_of_another_training_are_not_kept(store):
    first, second = crosstrain_api.study("tiny", store).trials
    run = first.side("torch").run
    answers = trained_answers(store, run)
    kept = crosstrain_api.weights(first, "torch", store)
    assert not keep_weights(store, run, crosstrain_api.weights(second, "torch", store), (answers + 1) % 4)
    assert keep_weights(store, run, crosstrain_api.weights(second, "torch", store), answers)  # the first ones stay
    assert all(
        np.array_equal(kept[name], array) for name, array in crosstrain_api.weights(first, "torch", store).items()
    )


def test_what_is_not_there_is_said(store, tmp_path):
    trial = crosstrain_api.study("tiny", store).trials[0]
    with pytest.raises(UnknownName, match="no side named 'jax'"):
        crosstrain_api.model(trial, "jax", store)
    with open_store(tmp_path / "empty.sqlite") as other:
        bare = file_trial(
            other,
            "bare",
            trial,
            TrialFiling(
                recipe_of={"torch": (Recipe(architecture="mlp", learning_rate=1, batch_size=1, epochs=1), Semantics())},
                dataset=prepared(side_recipe(store, trial.side("torch").run).recipe).record,
                versions={"torch": {}},
            ),
        )
        with pytest.raises(ZoolensError, match=r"kept no weights. Train it with --keep-weights"):
            crosstrain_api.weights(bare, "torch", other)


def test_labels_are_held_against_data_of_a_well_known_name_only(store, place, monkeypatch):
    """Samples that changed places keep every figure: only the data can tell. A stranger's file names stay shut."""
    folder = Folder(crosstrain_api.export_study(store, "tiny", place / "permuted"))
    for table, column, count in (("labels", "label", 40), ("predictions", "answer", 80)):
        path = folder.path / f"{table}.parquet"
        found = pq.read_table(path)
        order = np.arange(count).reshape(-1, 40)[:, ::-1].ravel()
        pq.write_table(found.set_column(2, found.schema.field(column), found[column].take(order)), path)
    (folder.path / "weights" / "0.safetensors").unlink()
    folder.rehash()
    with open_store(place / "trusting.sqlite") as other:
        assert crosstrain_api.submit(other, folder.path).written == 2
    name = side_recipe(store, crosstrain_api.study("tiny", store).trials[0].side("torch").run).recipe.dataset
    monkeypatch.setattr(merge, "SAFE_NAMES", (name,))
    with open_store(place / "knowing.sqlite") as other, pytest.raises(ZoolensError, match="not those of the same data"):
        crosstrain_api.submit(other, folder.path)
