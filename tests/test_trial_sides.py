"""Sides of a trial are runs like any other: `compare`, `equiv`, `disagree` and `query` give crosstrain's figures."""

import numpy as np
import pytest

from zoolens.base.store.records import DatasetRecord
from zoolens.base.store.store import open_store
from zoolens.findings.comparisons.compare import compare
from zoolens.findings.comparisons.disagreements import disagree
from zoolens.findings.comparisons.equivalence import equiv
from zoolens.findings.measure.answers import keep_labels
from zoolens.findings.queries.query import query
from zoolens.training.crosstrain.study.side_comparison import paired_sides
from zoolens.training.crosstrain.study.stored_studies import TrialFiling, file_trial
from zoolens.training.crosstrain.training.recipe import Recipe
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.semantics import ALIGNED

pytestmark = pytest.mark.usefixtures("trusted_models")

DATASET = DatasetRecord("d" * 64, "tiny", 260, {"train": 200, "test": 60, "classes": 3, "image": [8, 8, 1]})
LABELS = np.arange(60) % 3
RECIPE = Recipe(architecture="lenet", learning_rate=0.01, batch_size=32, epochs=2)
VERSIONS = {
    "torch": {"torch": "2.13.0"},
    "jax": {"keras": "3.15.1", "jax": "0.10.2"},
    "tensorflow": {"keras": "3.15.1"},
}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def wrong(*places):
    answers = LABELS.copy()
    answers[list(places)] = (answers[list(places)] + 1) % 3
    return answers


ANSWERS = {"torch": wrong(0, 1, 2, 3, 4), "jax": wrong(4, 5), "tensorflow": wrong(0, 1, 2, 3, 4, 59)}


@pytest.fixture
def trial(store):
    right = {name: int((answers == LABELS).sum()) for name, answers in ANSWERS.items()}
    sides = tuple(TrainedSide(name, accuracy=right[name] / 60, correct=right[name], total=60) for name in ANSWERS)
    churn = float((ANSWERS["torch"] != ANSWERS["jax"]).mean())
    given = Trial("t1", {"learning_rate": 0.01}, sides, {("torch", "jax"): churn})
    told = dict.fromkeys(ANSWERS, (RECIPE, ALIGNED))
    filed = file_trial(
        store,
        "s",
        given,
        TrialFiling(recipe_of=told, dataset=DATASET, versions=VERSIONS, predictions=ANSWERS, conditions={}),
    )
    keep_labels(store, DATASET, LABELS)
    return filed


def runs_of(trial):
    return trial.side("torch").run, trial.side("jax").run


def test_compare_gives_the_figures_of_the_trial(store, trial):
    expected = paired_sides(store, trial)[0]
    found = compare(*runs_of(trial), store=store).answers
    assert (found.n, found.only_a, found.only_b) == (60, expected.only_a, expected.only_b)
    assert found.top1_change == pytest.approx(expected.difference)
    assert (tuple(found.difference), found.p_value) == ((expected.low, expected.high), expected.p_value)
    assert 1 - found.agreement == pytest.approx(expected.churn)
    assert (found.identical_outputs, found.max_score_change) == (None, None)
    assert {one.score_a for one in found.disagreements} == {None}


def test_equiv_gives_the_figures_of_the_trial(store, trial):
    expected = paired_sides(store, trial)[0]
    found = equiv(*runs_of(trial), store=store)
    assert found.comparable
    assert found.agreement == pytest.approx(1 - expected.churn)
    accuracy = found.worst.worst.accuracy
    assert (accuracy.only_a, accuracy.only_b, accuracy.difference) == (
        expected.only_a, expected.only_b, pytest.approx(expected.difference),
    )  # fmt: skip


def test_disagree_shows_where_the_sides_part(store, trial):
    found = disagree(trial.side("torch").run, 2, store=store)
    names = [one.run.stack.runtime.removeprefix("crosstrain:") for one in found.panel]
    assert names == ["torch", "tensorflow", "jax"]
    assert {one.index for one in found.inputs} == {0, 1, 2, 3, 5, 59}
    assert {vote.score for one in found.inputs for vote in one.votes} == {None}


def test_sides_without_labels_are_compared_with_each_other(trial, store):
    unlabelled = DatasetRecord("e" * 64, "unlabelled", 260, dict(DATASET.details))
    told = dict.fromkeys(ANSWERS, (RECIPE, ALIGNED))
    filed = file_trial(
        store,
        "s",
        trial,
        TrialFiling(recipe_of=told, dataset=unlabelled, versions=VERSIONS, predictions=ANSWERS, conditions={}),
    )
    found = compare(*runs_of(filed), store=store).answers
    assert not found.labelled
    assert found.agreement == pytest.approx(1 - 5 / 60)


def test_a_query_finds_what_answers_like_a_side(store, trial):
    torch, jax = runs_of(trial)
    answer = query(f"CORR {torch} DATA tiny WITHIN 80%", store=store)
    shares = {match.row.key: match.equivalence for match in answer.matches}
    assert shares == {jax: pytest.approx(1 - 5 / 60), trial.side("tensorflow").run: pytest.approx(1 - 1 / 60)}
