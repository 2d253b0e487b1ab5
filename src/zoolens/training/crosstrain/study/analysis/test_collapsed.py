"""Constant predictors are found by their answers, or by the value that a mean of batch means leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoolens.conftest import ASSETS
from zoolens.contrib.crossedwires.trials import read_published
from zoolens.training.crosstrain.study.analysis.analysis_tables import most_apart
from zoolens.training.crosstrain.study.analysis.collapsed import batch_mean_accuracies, correct_counts, flag
from zoolens.training.crosstrain.training.trials import Study, TrainedSide, Trial

LABELS = np.random.default_rng(0).integers(0, 4, 103)

runs = st.tuples(st.integers(1, 120), st.integers(1, 60), st.integers(0, 2**31))


def batch_mean(right, batch):
    return float(np.mean([right[start : start + batch].mean() for start in range(0, len(right), batch)]))


@given(runs)
def test_constant_predictors_score_as_a_loop_over_batches_says(drawn):
    samples, batch, seed = drawn
    labels = np.random.default_rng(seed).integers(0, 5, samples)
    scores = batch_mean_accuracies(labels, batch)
    assert len(scores) == labels.max() + 1
    for answer, score in enumerate(scores):
        assert score == pytest.approx(batch_mean(labels == answer, batch), abs=1e-12)


@given(runs)
def test_the_true_count_is_among_those_that_fit(drawn):
    samples, batch, seed = drawn
    right = np.random.default_rng(seed).random(samples) < 0.6
    assert int(right.sum()) in correct_counts(batch_mean(right, min(batch, samples)), samples, min(batch, samples))


def test_a_number_that_is_no_mean_of_batch_means_fits_nothing():
    assert correct_counts(0.5, 10, 5) == (5,)
    assert correct_counts(0.5001, 10, 5) == ()


def study(*sides, **hyperparameters):
    return Study("s", tuple(side.framework for side in sides), (Trial("t", hyperparameters, sides),))


def test_counted_answers_need_no_labels():
    (found,) = flag(study(TrainedSide("a", answered=(0, 7)), TrainedSide("b", answered=(1, 6)), TrainedSide("c")))
    assert (found.trial, found.framework, found.classes, found.evidence, found.certain) == (
        "t", "a", (1,), "answers", True,
    )  # fmt: skip
    assert "answers class 1 for every test sample" in str(found)


def test_a_mean_of_batch_means_gives_a_constant_predictor_away():
    constant = batch_mean_accuracies(LABELS, 20)
    for answer in range(4):
        (found,) = flag(study(TrainedSide("a", accuracy=constant[answer] + 1e-9, exact=False), batch_size=20), LABELS)
        assert (found.certain, answer in found.classes) == (True, True)
    assert flag(study(TrainedSide("a", accuracy=constant[0] + 1e-7, exact=False), batch_size=20), LABELS) == ()
    assert flag(study(TrainedSide("a", accuracy=constant[0], exact=False), batch_size=20)) == ()  # no labels


def test_a_class_share_is_possible_and_not_proven():
    share = float((LABELS == 2).mean())
    (found,) = flag(study(TrainedSide("a", accuracy=share), batch_size=20), LABELS)
    assert (2 in found.classes, found.certain) == (True, False)
    (found,) = flag(
        study(TrainedSide("a", accuracy=share, exact=False), batch_size=103), LABELS
    )  # one batch: nothing hidden
    assert not found.certain


@pytest.mark.assets
def test_the_record_pair_is_a_collapsed_predictor():
    if not ASSETS.is_dir():
        pytest.skip(f"PUBLISHED TRIALS ABSENT: nothing at {ASSETS}; set ZOOLENS_ASSETS to test against them")
    with np.load(ASSETS / "data" / "cifar10" / "train_subset.npz", allow_pickle=False) as file:
        labels = file["y_test_full"]
    assert batch_mean_accuracies(labels, 202)[5] == pytest.approx(0.099980588, abs=2e-9)
    vgg, resnet, densenet = read_published(ASSETS / "crossedwires")
    record = most_apart(vgg, 1)[0]
    assert record.delta == pytest.approx(0.68152, abs=1e-6)
    flags = [one for one in flag(vgg, labels) if one.trial == record.id]
    assert [(one.framework, one.classes, one.certain) for one in flags] == [("pytorch", (5,), True)]
    assert [sum(one.certain for one in flag(study, labels)) for study in (vgg, resnet, densenet)] == [26, 0, 1]
