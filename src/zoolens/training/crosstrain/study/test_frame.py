"""Trials as a table, and found by what they nearly are."""

from __future__ import annotations

import pytest

from zoolens.base.errors import UnknownName
from zoolens.training.crosstrain.study.frame import find_trials, trials_frame
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

SIDES = (
    TrainedSide("torch", accuracy=0.75, answered=(4, 0)),
    TrainedSide("tensorflow", accuracy=0.5),
    TrainedSide("jax", status="failed"),
)


def trial(name, **hyperparameters):
    return Trial(name, hyperparameters, SIDES, churn={("tensorflow", "torch"): 0.3}, notes=("one", "two"))


STUDY = Study(
    "s",
    ("torch", "tensorflow", "jax"),
    (
        trial("a", lr=0.1, epochs=10, optimizer="adam"),
        trial("b", lr=0.103, epochs=10, optimizer="adam"),
        trial("c", lr=0.1, epochs=20, optimizer="sgd"),
        trial("d", lr=0, epochs=10, optimizer="sgd", delta=3),
    ),
)


def names(found):
    return [one.id for one in found]


def test_one_row_a_pair():
    frame = trials_frame(STUDY)
    assert len(frame) == 4 * 3
    first = frame.iloc[0]
    assert (first.trial, first.lr, first.framework_a, first.framework_b) == ("a", 0.1, "torch", "tensorflow")
    assert (first.delta, first.churn, first.collapsed_a, first.notes) == (0.25, 0.3, True, "one; two")
    assert frame.delta.isna().sum() == 4 * 2
    assert frame["hyperparameter.delta"].notna().sum() == 3


def test_lookup_is_tolerant_and_nearest_comes_first():
    assert names(find_trials(STUDY, lr=0.102)) == ["b", "a", "c"]
    assert names(find_trials(STUDY, lr=0.102, epochs=10)) == ["b", "a"]
    assert names(find_trials(STUDY, 0.001, lr=0.1)) == ["a", "c"]
    assert names(find_trials(STUDY, lr=0)) == ["d"]
    assert names(find_trials(STUDY, optimizer="sgd")) == ["c", "d"]
    assert names(find_trials(STUDY, delta=3)) == ["d"]
    assert names(find_trials(STUDY)) == ["a", "b", "c", "d"]


def test_an_unknown_hyperparameter_is_named():
    with pytest.raises(UnknownName, match=r"hyperparameter named 'epoch'. Did you mean epochs"):
        find_trials(STUDY, epoch=10)
