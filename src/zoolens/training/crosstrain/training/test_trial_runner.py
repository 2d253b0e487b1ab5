import numpy as np
import pytest

from zoolens.base.errors import UnknownName, WorkerError, ZoolensError
from zoolens.training.crosstrain.training.architectures import build
from zoolens.training.crosstrain.training.job import Epoch, Job, Outcome
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Optimizer, Recipe
from zoolens.training.crosstrain.training.trainers.registry import trainer_named
from zoolens.training.crosstrain.training.trial_runner import (
    HYPERPARAMETERS,
    Memory,
    TrialRequest,
    _shared_weights,
    apply,
    churn,
    first_weights,
    side_of,
    train_trial,
)
from zoolens.training.crosstrain.training.trials import TrainedSide
from zoolens.training.crosstrain.training.weights import read_weights
from zoolens.training.pairs.data.prepared_data import prepared
from zoolens.training.pairs.semantics import ALIGNED, Semantics

BASE = {"architecture": "mlp", "learning_rate": 0.01, "batch_size": 16, "epochs": 2}


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    generator = np.random.default_rng(0)
    for name, count in (("train", 60), ("test", 30)):
        labels = np.arange(count) % 3
        images = generator.integers(0, 100, (count, 12, 12), np.uint8)
        images[np.arange(count), labels] += 100
        np.savez(tmp_path / f"{name}.npz", x=images, y=labels)
    return lambda **changes: Recipe(**{**BASE, "dataset": f"{tmp_path}/train.npz|{tmp_path}/test.npz", **changes})


def outcome(**changes):
    epochs = (
        Epoch(number=1, loss=2.0, correct=1, total=4, seconds=1),
        Epoch(number=2, loss=None, correct=2, total=4, seconds=1),
    )
    return Outcome(
        **{"framework": "torch", "versions": {}, "status": "finished", "epochs": epochs, "seconds": 3, **changes}
    )


def test_a_side_has_exact_counts():
    side = side_of(outcome(), np.array([0, 1, 1, 1], np.int32), np.array([0, 1, 1, 0]), 3)
    assert (side.correct, side.total, side.accuracy, side.exact) == (3, 4, 0.75, True)
    assert side.class_accuracy == (0.5, 1.0, None)
    assert side.answered == (1, 3, 0)
    assert (side.losses, side.accuracies) == ((2.0, None), (0.25, 0.5))
    assert not side.collapsed


def test_a_side_without_answers_says_what_happened():
    side = side_of(outcome(status="failed", message="It died.", epochs=()), np.empty(0, np.int32), np.zeros(4), 3)
    assert (side.accuracy, side.correct, side.status, side.message) == (None, None, "failed", "It died.")


@pytest.mark.parametrize("answers", [[0, 1, 2], [0, 1, 2, 3], [0, 1, 2, -1]])
def test_answers_that_cannot_be(answers):
    with pytest.raises(WorkerError, match="torch did not answer"):
        side_of(outcome(), np.array(answers, np.int32), np.zeros(4, int), 3)


def test_churn_is_of_pairs_that_answered():
    answers = {"a": np.array([0, 1, 2, 0]), "b": np.array([0, 1, 1, 1]), "c": np.empty(0, np.int32)}
    assert churn(["b", "a", "c", "d"], answers) == {("b", "a"): 0.5}


def test_hyperparameters_are_applied():
    recipe = Recipe(**BASE)
    changed = apply(
        recipe, {"learning_rate": 0.5, "batch_size": 32.0, "optimizer.epsilon": 1e-3, "semantics.dropout": 0.5}
    )
    assert changed == Recipe(
        **{**BASE, "learning_rate": 0.5, "batch_size": 32},
        optimizer=Optimizer(epsilon=1e-3),
        semantics=Semantics(dropout=0.5),
    )
    assert apply(recipe, {}) == recipe


def test_unknown_hyperparameters():
    with pytest.raises(UnknownName, match="Did you mean learning_rate"):
        apply(Recipe(**BASE), {"learning_rates": 0.5})
    for name in ("optimizer", "optimizer.rate", "semantics.", ".epochs", "optimizer.epsilon.x"):
        with pytest.raises(UnknownName):
            apply(Recipe(**BASE), {name: 1})


@pytest.mark.parametrize(
    "change", [{"batch_size": 0}, {"batch_size": 1.5}, {"optimizer.beta1": 1.0}, {"epochs": "many"}]
)
def test_impossible_values(change):
    (name,) = change
    with pytest.raises(ZoolensError, match=name):
        apply(Recipe(**BASE), change)


def test_values_that_do_not_go_together():
    recipe = Recipe(**{**BASE, "architecture": "resnet50", "weights": "shared"})
    with pytest.raises(ZoolensError, match=r"do not go together: weights cannot be shared .* use mode: aligned"):
        apply(recipe, {"mode": "library"})


def test_first_weights_for_which_there_is_no_memory():
    told = Semantics().over(ALIGNED)
    network = build("mlp", told, (3, 1 << 20, 1 << 20), 10)
    with pytest.raises(ZoolensError, match="not enough memory for the first weights of mlp"):
        first_weights(network, told, 0)


def test_every_field_of_a_recipe_can_be_varied():
    assert "optimizer.momentum" in HYPERPARAMETERS
    assert "semantics.norm_momentum" in HYPERPARAMETERS
    assert "optimizer" not in HYPERPARAMETERS
    assert set(Recipe.model_fields) - {"optimizer", "semantics", "schedule"} <= set(HYPERPARAMETERS)


def test_shared_weights_are_one_file_unless_a_side_wants_others(recipe, tmp_path):
    told = recipe(architecture="convnorm", weights="shared")
    switched = {"torch": {}, "jax": {"norm_momentum": 0.99}, "tensorflow": {"conv_bias": True}}
    jobs = [
        Job(
            recipe=told, framework=name, semantics=Semantics(**change).over(told.wanted), data=tmp_path, output=tmp_path
        )
        for name, change in switched.items()
    ]
    with _shared_weights(prepared(told), jobs, tmp_path / "trial") as given:
        torch, jax, tensorflow = (job.weights for job in given)
        assert torch == jax != tensorflow
        plain, biased = read_weights(torch), read_weights(tensorflow)
        assert set(biased) - set(plain) == {f"conv{number}.bias" for number in (1, 2, 3, 4)}
        for name, array in plain.items():
            np.testing.assert_array_equal(array, biased[name])
    assert not torch.exists()


def test_the_usual_loops():
    assert trainer_named("torch").usual_loop("cpu") == "eager"
    assert trainer_named("torch").usual_loop("cuda") == trainer_named("jax").usual_loop("cpu") == "compiled"


def test_a_trial_of_a_new_and_a_known_side(recipe, tmp_path, workers):
    told = recipe(weights="shared")
    truth = np.load(prepared(told).folder / "test_y.npy")
    old = tmp_path / "work" / "t1" / "jax"
    old.mkdir(parents=True)
    np.save(old / "predictions.npy", truth)
    jobs, seen = [], []

    def known(job):
        jobs.append(job)
        return TrainedSide("jax", accuracy=1.0) if job.framework == "jax" else None

    request = TrialRequest(told, ("torch", "jax"), "t1", {"epochs": 2}, {"torch": Semantics(init="glorot_uniform")})
    trial = train_trial(
        request,
        workers,
        tmp_path / "work",
        manner=Manner(threads=1, concurrent=True),
        memory=Memory(known),
        report=lambda framework, epoch: seen.append((framework, epoch.number)),
    )
    torch, jax = trial.sides
    assert jax == TrainedSide("jax", accuracy=1.0)
    assert seen == [("torch", 1), ("torch", 2)]
    assert torch.semantics["init"] == "glorot_uniform"
    assert torch.total == len(truth) == sum(torch.answered)
    assert trial.churn[("torch", "jax")] == pytest.approx(1 - torch.accuracy)
    assert trial.delta == pytest.approx(1 - torch.accuracy)
    assert {job.framework for job in jobs} == {"torch", "jax"}
    assert trial.details["recipe"]["architecture"] == "mlp"


def test_a_collapsed_and_broken_side_is_noted(recipe, tmp_path, workers):
    told = recipe(optimizer=Optimizer(name="sgd"), learning_rate=1e30)
    trial = train_trial(TrialRequest(told, ("torch",), "t"), workers, tmp_path / "work", manner=Manner(threads=1))
    (side,) = trial.sides
    assert (side.status, side.collapsed, side.accuracy) == ("non-finite", True, pytest.approx(1 / 3))
    assert trial.notes == ("torch: The loss of step 2 is not finite.",)
