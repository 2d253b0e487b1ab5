"""Trials trained into a store: nothing twice, everything that belongs to them kept."""

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import kept_labels, trained_answers
from zoolens.training.crosstrain.study.store_training import begin_study, replicates, train_into, train_with_replicates
from zoolens.training.crosstrain.study.stored_studies import read_study, study_names
from zoolens.training.crosstrain.training.job import Outcome
from zoolens.training.crosstrain.training.kept_weights import has_weights
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trainer_process import keep
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trainers.trainer import Trained
from zoolens.training.crosstrain.training.trial_runner import TrialRequest
from zoolens.training.pairs.data.prepared_data import prepared

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    patch = pytest.MonkeyPatch()
    patch.setenv("ZOOLENS_HOME", str(folder / "home"))
    y = np.arange(24) % 3
    np.savez(folder / "data.npz", x=(60 * y[:, None, None, None] + np.zeros((24, 8, 8, 1))).astype(np.uint8), y=y)
    yield folder
    patch.undo()


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.fixture
def train(place, store, workers):
    """Trains in torch; answers the trial and the seeds that were really trained."""
    data = f"npz:{place / 'data.npz'}"
    recipe = Recipe(architecture="mlp", dataset=f"{data}|{data}", learning_rate=0.01, batch_size=8, epochs=1)

    def run(function=train_into, recipe=recipe, study="tiny", frameworks=("torch",), workers=workers, **settings):
        epochs = []
        told = {"manner": Manner(threads=1), **settings}
        request = TrialRequest(recipe, frameworks, told.pop("trial_id", "0001"), {"learning_rate": 0.01})
        found = function(store, study, request, workers, **told, report=lambda *one: epochs.append(one))
        return found, len(epochs)

    run.recipe = recipe
    return run


def test_the_same_training_is_done_once_for_all_studies(train, store, workers):
    class OneThread:
        """Trains every job in the process of one thread, which is there."""

        def train(self, job, report):
            return workers.train(job.model_copy(update={"threads": 1}), report)

    first, trained = train()
    assert trained == 1
    again, trained = train(study="other", trial_id="7")
    assert trained == 0
    assert again.side("torch") == first.side("torch")
    assert train(workers=OneThread(), manner=Manner(threads=2))[1] == 1  # two threads may change the last digits
    assert read_study(store, "tiny").trials[0].hyperparameters == {"learning_rate": 0.01}
    assert trained_answers(store, first.side("torch").run).shape == (24,)
    assert kept_labels(store, prepared(train.recipe).record).tolist() == [0, 1, 2] * 8


def test_a_side_is_kept_although_the_other_one_never_ends(train, store, workers):
    class Killed:
        def train(self, job, report):
            if job.framework == "jax":
                raise KeyboardInterrupt
            return workers.train(job, report)

    kept = Manner(threads=1, keep_weights=True)
    with pytest.raises(KeyboardInterrupt):
        train(frameworks=("torch", "jax"), workers=Killed(), manner=kept)
    assert "tiny" not in study_names(store)  # a trial is whole or absent
    trial, trained = train(manner=kept)
    assert trained == 0
    assert has_weights(store, trial.side("torch").run)


def test_answers_before_the_memory_ran_out_are_no_result(train, store):
    class Small:
        def train(self, job, report):
            outcome = Outcome(framework="torch", versions=trainer_named("torch").versions(), status="out-of-memory")
            job.output.mkdir(parents=True)
            keep(Trained(outcome, np.zeros(24, np.int32)), job.output)
            return outcome, np.empty(0, np.int32)

    trial, _ = train(workers=Small())
    assert (trial.side("torch").status, trial.side("torch").accuracy) == ("out-of-memory", None)
    with pytest.raises(ZoolensError, match="no stored answers"):
        trained_answers(store, trial.side("torch").run)
    assert train()[1] == 0


def test_a_side_whose_weights_are_wanted_is_trained_again(train, store):
    plain, _ = train()
    assert not has_weights(store, plain.side("torch").run)
    kept, trained = train(manner=Manner(threads=1, keep_weights=True))
    assert trained == 1
    assert kept.side("torch").run == plain.side("torch").run
    assert has_weights(store, kept.side("torch").run)
    assert train(manner=Manner(threads=1, keep_weights=True))[1] == 0


def test_replicates_have_other_seeds_and_a_study_of_their_own(train, store):
    first, _ = train()
    (again, *others), trained = train(train_with_replicates, count=2)
    assert again == first
    assert trained == 2
    assert [one.details["recipe"]["seed"] for one in others] == [1, 2]
    assert replicates(store, "tiny") == {"0001": tuple(others)}
    assert replicates(store, "nothing") == {}
    assert read_study(store, "tiny").trials == (first,)


def test_versions_are_those_that_outcomes_name(train, store):
    trial, _ = train()
    assert store.run(trial.side("torch").run).stack.identity["packages"] == trainer_named("torch").versions()


def test_a_study_keeps_its_sides(train, store):
    begin_study(store, "tiny", ("torch", "jax"), {})
    begin_study(store, "tiny", ("torch",), {})  # nothing was trained yet
    train()
    begin_study(store, "tiny", ("torch",), {"more": 1})
    with pytest.raises(ZoolensError, match="trained by torch, not by torch, jax"):
        begin_study(store, "tiny", ("torch", "jax"), {})
    with pytest.raises(ZoolensError, match="cannot be named"):
        begin_study(store, "../tiny", ("torch",), {})
