"""What a search is told, and what its trials are called; whole studies are in tests/test_crosstrain.py."""

import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.records import DatasetRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.training.crosstrain.study.plan_runner import (
    Trials,
    Unwatched,
    first_free,
    journal_path,
    mean_delta,
    run_plan,
    told_by,
)
from zoolens.training.crosstrain.study.search.budget import Budget
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_trial, read_study
from zoolens.training.crosstrain.study.study_plan import Dimension, Plan
from zoolens.training.crosstrain.training.manner import Manner
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial
from zoolens.training.pairs.semantics import Semantics


def trial(*accuracies, status="finished"):
    names = ("torch", "tensorflow", "jax")
    sides = [TrainedSide(name, status=status, accuracy=value) for name, value in zip(names, accuracies, strict=False)]
    return Trial("1", {}, tuple(sides), notes=("a note",))


def plan(**changes):
    recipe = Recipe(architecture="mlp", dataset="demo", learning_rate=0.1, batch_size=8, epochs=1)
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


def test_a_second_search_has_names_of_its_own(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        first, second = (Trials(plan(), store, None, Manner(), number, Unwatched()) for number in (1, 2))
    assert (first.name("0001"), second.name("0001")) == ("0001", "2-0001")


def details(store, name="tiny"):
    return read_study(store, name).details


def test_a_refused_plan_changes_neither_the_study_nor_its_journal(tmp_path):
    """Nothing is trained: the budget is spent before the first trial, and one was filed by somebody else."""
    spent = Budget(seconds=1e-9)
    other = plan().model_copy(update={"space": (Dimension(name="epochs", choices=(1, 3)),)})
    with open_store(tmp_path / "store.sqlite") as store:
        assert run_plan(plan(), store, budget=spent).search.reason
        file_trial(
            store,
            "tiny",
            trial(0.5, 0.7),
            TrialFiling(
                recipe_of=dict.fromkeys(("torch", "tensorflow"), (None, Semantics())),
                dataset=DatasetRecord(fingerprint(["made"]), "made", 10),
                versions={"torch": {}, "tensorflow": {}},
            ),
        )
        before, journal = details(store), journal_path(store, "tiny").read_bytes()
        with pytest.raises(ZoolensError, match="belongs to another plan: space differ") as refused:
            run_plan(other, store, budget=spent)
        assert "--fresh" in str(refused.value)
        with pytest.raises(ZoolensError, match="is trained by torch, tensorflow, not by torch, jax"):
            run_plan(plan(frameworks=("torch", "jax")), store, budget=spent, fresh=True)
        assert (details(store), journal_path(store, "tiny").read_bytes()) == (before, journal)
        run_plan(other, store, budget=spent, fresh=True)
        assert details(store)["space"][0]["choices"] == [1, 3]
        (old,) = journal_path(store, "tiny").parent.glob("*.old")
        assert old.read_bytes() == journal


def test_trials_that_are_there_are_not_replaced_by_new_ones_of_the_same_name():
    found = [Trial(name, {}, ()) for name in ("0003", "17", "2-0005", "abc", "9" * 12, "2-0001.1")]
    assert first_free(Study("made", ("torch", "jax"), tuple(found)), "") == 18
    assert first_free(Study("made", ("torch", "jax"), tuple(found)), "2-") == 6
    assert first_free(Study("made", ("torch", "jax"), ()), "") == 1


def test_nothing_is_begun_for_a_plan_that_cannot_be_carried_out(tmp_path):
    with open_store(tmp_path / "store.sqlite") as store:
        with pytest.raises(UnknownName, match="flax"):
            run_plan(plan(frameworks=("torch", "flax")), store)
        assert store.runs() == []
        assert not journal_path(store, "tiny").exists()
