"""What is filed is what is read, however often and whenever it is stopped."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from zoolens.base.errors import UnknownName, ZoolensError
from zoolens.base.store.records import DatasetRecord, Provenance
from zoolens.base.store.store import open_store
from zoolens.findings.measure.answers import keep_trained_answers, trained_answers
from zoolens.training.crosstrain.study.stored_studies import (
    TrialFiling,
    file_study,
    file_trial,
    read_study,
    remove_study,
    side_done,
    study_names,
)
from zoolens.training.crosstrain.training.job import Epoch, Outcome
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import ALIGNED, Semantics

DATASET = DatasetRecord("d" * 64, "fashion-mnist", 2000)
RECIPE = Recipe(architecture="lenet", learning_rate=0.01, batch_size=32, epochs=2)
VERSIONS = {"torch": {"torch": "2.13.0"}, "jax": {"keras": "3.15.1", "jax": "0.10.2"}}
TOLD = dict.fromkeys(VERSIONS, (RECIPE, ALIGNED))
ANSWERED = {"torch": np.array([0, 1, 2, 2], np.int32), "jax": np.array([1, 1, 1, 1], np.int64)}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def side(framework, **changes):
    told = {
        "framework": framework,
        "accuracy": 0.75,
        "correct": 3,
        "total": 4,
        "losses": (2.5, None),
        "accuracies": (0.5, 0.75),
        "class_accuracy": (1.0, 0.5, None),
        "answered": (0, 4, 0),
        "seconds": 1.25,
        "semantics": {"norm_momentum": 0.9, "init": None},
    }
    return TrainedSide(**{**told, **changes})


def trial(name="t1", **changes):
    told = {
        "id": name,
        "hyperparameters": {"learning_rate": 0.01, "epochs": 2, "optimizer.name": "adam"},
        "sides": (side("torch"), side("jax", accuracy=0.5, correct=2, answered=(0, 4, 0))),
        "churn": {("torch", "jax"): 0.25},
        "notes": ("a note",),
        "details": {"subspace": 3},
    }
    return Trial(**{**told, **changes})


def file(store, one, study="s", recipe_of=TOLD, **options):
    return file_trial(
        store, study, one, TrialFiling(recipe_of=recipe_of, dataset=DATASET, versions=VERSIONS, **options)
    )


def with_epochs(epochs):
    return {name: (RECIPE.model_copy(update={"epochs": epochs}), ALIGNED) for name in VERSIONS}


def rows(store):
    return store.observation_table().num_rows


def test_a_study_is_read_as_it_was_filed(store):
    file_study(store, "s", ("torch", "jax"), {"machine": "ours"})
    filed = [file(store, trial(f"t{number}"), recipe_of=with_epochs(number)) for number in (10, 9, 1)]
    found = read_study(store, "s")
    assert found.trials == tuple(reversed(filed))  # 1, 9, 10
    assert (found.name, found.frameworks, found.details) == ("s", ("torch", "jax"), {"machine": "ours"})
    assert found.trials[0].side("jax").collapsed
    assert study_names(store) == ["s"]


def test_filing_again_changes_nothing(store):
    file_study(store, "s", ("torch", "jax"), {"space": (1, 2)})
    first = file(store, trial(), predictions=ANSWERED)
    before = rows(store)
    file_study(store, "s", ("torch", "jax"), {"space": (1, 2)})
    assert file(store, trial(), predictions=ANSWERED) == first
    assert rows(store) == before
    assert read_study(store, "s").trials == (first,)


def test_one_training_belongs_to_several_studies(store):
    (one,) = read_after(store, "a", trial("x"))
    (other,) = read_after(store, "b", trial("y"))
    assert [side.run for side in one.sides] == [side.run for side in other.sides]
    assert (one.id, other.id) == ("x", "y")
    assert study_names(store) == ["a", "b"]


def read_after(store, study, one):
    file(store, one, study=study)
    return read_study(store, study).trials


def test_facts_that_nobody_evaluated_stay_aside(store):
    file(store, trial())
    assert store.runs() == []
    assert {run.stack.runtime for run in store.runs(runtime="crosstrain:*")} == {"crosstrain:torch", "crosstrain:jax"}
    run = store.runs(runtime="crosstrain:torch")[0]
    assert (run.model.ref, run.model.format, run.stack.version) == ("crosstrain:lenet", "recipe", "2.13.0")
    assert Recipe.model_validate(run.model.manifest["recipe"]) == RECIPE


def known(store, framework="torch", **changes):
    told = {"recipe": RECIPE, "semantics": ALIGNED, "dataset": DATASET, "versions": VERSIONS[framework]}
    return side_done(store, framework=framework, **{**told, **changes})


def test_a_finished_side_is_found_by_what_it_was_told(store):
    assert known(store) is None
    filed = file(store, trial())
    assert known(store) == filed.side("torch")
    assert known(store, "jax") == filed.side("jax")
    elsewhere = RECIPE.model_copy(update={"dataset": "/elsewhere"})
    assert known(store, recipe=elsewhere) == filed.side("torch")  # the same data, reached by another name
    for changes in (
        {"recipe": RECIPE.model_copy(update={"seed": 1})},
        {"semantics": Semantics()},
        {"dataset": replace(DATASET, fingerprint="e" * 64)},
        {"versions": {"torch": "2.14.0"}},
        {"conditions": {"device": "cuda"}},
    ):
        assert known(store, **changes) is None, changes


@pytest.mark.parametrize("status", ["non-finite", "out-of-memory"])
def test_a_training_that_came_to_nothing_is_a_result(store, status):
    bad = side("torch", status=status, accuracy=None, correct=None, total=None, losses=(None,), message="step 3")
    filed = file(store, trial(sides=(bad, side("jax")), churn={}))
    assert known(store) == filed.side("torch")
    assert read_study(store, "s").trials == (filed,)


def test_a_side_that_failed_is_told_and_trained_again(store):
    failed = TrainedSide("torch", status="failed", message="no such device")
    other = trial().side("jax")
    first = file(store, trial(sides=(failed, other), churn={}, notes=("torch failed",)))
    assert read_study(store, "s").trials == (first,)
    assert known(store) is None
    second = file(store, trial(notes=()))
    assert read_study(store, "s").trials == (second,)
    assert second.churn
    assert not second.notes


def test_measurements_of_an_outcome_are_kept(store):
    epoch = Epoch(number=1, loss=1.0, correct=3, total=4, seconds=0.5)
    outcome = Outcome(framework="torch", versions={}, status="finished", epochs=(epoch,), steps=7, parameters=61_706)
    run = file(store, trial(), outcomes={"torch": outcome}).side("torch").run
    found = {(one.metric, one.scope): one.value for one in store.observations(run)}
    assert (found["parameters", ""], found["steps", ""], found["epoch_time", "epoch=1"]) == (61_706, 7, 0.5)
    assert found["loss", "epoch=2"] is None


def test_answers_are_read_in_order(store):
    filed = file(store, trial(), predictions=ANSWERED)
    for framework, answers in ANSWERED.items():
        assert trained_answers(store, filed.side(framework).run).tolist() == answers.tolist()


def test_answers_of_a_killed_training_do_not_pass_for_those_of_the_next(store):
    """It wrote its answers and was killed before it was marked as done."""
    failed = TrainedSide("torch", status="failed", message="killed")
    run = file(store, trial(sides=(failed, side("jax")), churn={})).side("torch").run
    keep_trained_answers(store, run, np.array([9, 9, 9, 9]))
    file(store, trial(), predictions=ANSWERED)
    assert trained_answers(store, run).tolist() == ANSWERED["torch"].tolist()


def test_a_run_without_answers_says_so(store):
    run = file(store, trial()).side("torch").run
    with pytest.raises(ZoolensError, match="has no stored answers"):
        trained_answers(store, run)


def test_what_others_claim_is_not_called_measured(store):
    published = dict.fromkeys(VERSIONS, (None, Semantics()))
    options = {"recipe_of": published, "conditions": {}, "provenance": Provenance.CLAIMED}
    twins = [file(store, trial(name), **options) for name in ("x", "y")]  # the same setting, trained twice
    assert twins[0].side("torch").run != twins[1].side("torch").run
    found = store.observations(twins[0].side("torch").run, metric="accuracy")
    assert {one.provenance for one in found} == {Provenance.CLAIMED}


def test_an_unknown_study_is_named(store):
    file(store, trial(), study="fashion")
    with pytest.raises(UnknownName, match=r"study named 'fashon'. Did you mean fashion"):
        read_study(store, "fashon")


WRITING = """
from zoolens.training.crosstrain.study import test_stored_studies as t
def work(path):
    store = t.open_store(path)
    for number in range(100_000):
        t.file_numbered(store, number)
        print(number, flush=True)
"""


@pytest.mark.slow
def test_kill_at_any_moment_leaves_whole_trials(killable, tmp_path):
    path = tmp_path / "killed.sqlite"
    processes = killable(WRITING, path)
    for last, wait in ((2, 0.0), (5, 0.004), (9, 0.009)):
        processes.start()
        while int(processes.lines.readline()) < last:
            pass
        time.sleep(wait)
        processes.kill()
        done = check_whole(path)
        assert done > last
    with open_store(path) as store:
        for number in range(done + 3):
            file_numbered(store, number)
    assert check_whole(path) == done + 3


def file_numbered(store, number):
    file(store, trial(f"t{number}"), recipe_of=with_epochs(number + 1), predictions=ANSWERED)


def check_whole(path):
    with open_store(path) as store:
        if "s" not in study_names(store):
            return 0
        trials = read_study(store, "s").trials
        for one in trials:
            assert replace(one, sides=tuple(replace(each, run=None) for each in one.sides)) == trial(one.id)
            assert trained_answers(store, one.side("jax").run).tolist() == [1, 1, 1, 1]
        return len(trials)


def test_a_study_whose_first_trial_could_not_be_trained_is_not_listed(store):
    file_study(store, "begun", ("torch",), {})
    assert study_names(store) == []
    assert study_names(store, hidden=True) == ["begun"]


def test_a_study_is_taken_off_the_list_and_comes_back(store):
    file_study(store, "one", ("torch", "jax"), {"source": "us"})
    file(store, trial(), study="one")
    remove_study(store, "one")
    assert study_names(store) == []
    assert len(read_study(store, "one").trials) == 1  # nothing is lost
    file_study(store, "one", ("torch", "jax"), {"source": "us"})
    assert study_names(store) == ["one"]
