"""What a search is told, and how an objective travels; whole studies are in tests/test_crosstrain.py."""

import pickle

import pytest

from zoolens.crosstrain.plan import Dimension, Plan
from zoolens.crosstrain.recipe import Recipe
from zoolens.crosstrain.study import Side, Trial
from zoolens.crosstrain.studying import Trials, Unwatched, journal_path, mean_delta, run_plan, told_by
from zoolens.crosstrain.training import Manner
from zoolens.errors import UnknownName
from zoolens.store.store import open_store


def trial(*accuracies, status="finished"):
    names = ("torch", "tensorflow", "jax")
    sides = [Side(name, status=status, accuracy=value) for name, value in zip(names, accuracies, strict=False)]
    return Trial("1", {}, tuple(sides), notes=("a note",))


def plan(**changes):
    recipe = Recipe(architecture="mlp", learning_rate=0.1, batch_size=8, epochs=1)
    return Plan(name="tiny", recipe=recipe, space=(Dimension(name="epochs", choices=(1, 2)),), **changes)


def test_differences_are_averaged_over_seeds_before_their_size_is_taken():
    assert mean_delta([trial(0.5, 0.7)]) == pytest.approx(0.2)
    assert mean_delta([trial(0.5, 0.7), trial(0.7, 0.5)]) == pytest.approx(0.0)
    assert mean_delta([trial(0.5, 0.6, 0.9), trial(0.5, 0.6, 0.7)]) == pytest.approx(0.3)
    assert mean_delta([trial(0.5, 0.7), trial(0.5, None)]) == pytest.approx(0.2)
    assert mean_delta([trial(0.5, None)]) is None


def test_whatever_came_of_a_trial_is_told():
    told = told_by([trial(0.5, 0.7), trial(0.6, None, status="out-of-memory")])
    assert (told.status, told.message) == ("out-of-memory", "a note")
    assert told.accuracies == {"torch": pytest.approx(0.55), "tensorflow": pytest.approx(0.7)}
    assert told_by([trial(None, None, status="failed")]).delta is None


def test_an_objective_travels_without_what_is_open_here(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        objective = Trials(plan(), "sqlite:///elsewhere", Manner(), 2)
        with objective.here(store, None, Unwatched()):
            moved = pickle.loads(pickle.dumps(objective))
    assert moved.name("0001") == "2-0001"
    assert moved._live is None


def test_nothing_is_begun_for_a_plan_that_cannot_be_carried_out(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        with pytest.raises(UnknownName, match="flax"):
            run_plan(plan(frameworks=("torch", "flax")), store)
        assert store.runs() == []
        assert not journal_path(store, "tiny").exists()
