"""Average precision and the area under the ROC curve equal scikit-learn's, with ties and weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import interp1d
from scipy.optimize import brentq
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring import ranked_scores
from zoolens.inventory.tasks.scoring.ranked_scores import (
    average_precision,
    equal_error_rate,
    rank_scores,
    roc_auc,
    weighted_areas,
)

METRICS = (average_precision, roc_auc, equal_error_rate)


def sample(seed, levels):
    """Scores of few levels have many ties."""
    rng = np.random.default_rng(seed)
    true = rng.random(80) < rng.uniform(0.1, 0.9)
    scores = np.round((rng.normal(size=80) + true) * levels) / levels
    true[:2] = True, False
    return scores, true, rng.integers(0, 4, 80) + (np.arange(80) < 2)


@pytest.mark.parametrize("levels", [0.5, 2, 1e6])
@pytest.mark.parametrize("seed", range(8))
def test_areas_are_those_of_scikit_learn(seed, levels):
    scores, true, weights = sample(seed, levels)
    ranked = rank_scores(scores, true)
    for given_weights in (None, weights):
        area = roc_auc_score(true, scores, sample_weight=given_weights)
        precision = average_precision_score(true, scores, sample_weight=given_weights)
        assert roc_auc(ranked, given_weights).value == pytest.approx(area, rel=1e-12)
        assert average_precision(ranked, given_weights).value == pytest.approx(precision, rel=1e-12)


@pytest.mark.parametrize("levels", [0.5, 2, 1e6])
@pytest.mark.parametrize("seed", range(8))
def test_the_equal_error_rate_lies_on_the_roc_curve(seed, levels):
    scores, true, weights = sample(seed, levels)
    accepted, found, _ = roc_curve(true, scores, sample_weight=weights, drop_intermediate=False)
    expected = brentq(lambda rate: 1 - rate - interp1d(accepted, found)(rate), 0, 1, xtol=1e-14)
    assert equal_error_rate(rank_scores(scores, true), weights).value == pytest.approx(expected, abs=1e-9)


rows = st.lists(
    st.tuples(st.sampled_from([-np.inf, -1.0, 0.0, 2.0, np.inf]), st.booleans(), st.integers(0, 3)), max_size=12
)


@settings(deadline=None)
@given(rows)
def test_weights_repeat_inputs(inputs):
    scores = np.array([row[0] for row in inputs])
    true = np.array([row[1] for row in inputs], np.bool_)
    weights = np.array([row[2] for row in inputs], np.int64)
    weighted, plain = rank_scores(scores, true), rank_scores(np.repeat(scores, weights), np.repeat(true, weights))
    for metric in METRICS:
        a, b = metric(weighted, weights), metric(plain)
        assert a.value == pytest.approx(b.value, rel=1e-12, nan_ok=True)
        assert a.reason == b.reason
        assert a.defined == (not a.reason)


def test_a_perfect_and_a_reversed_ranking():
    true = np.array([True, True, False, False])
    perfect, reversed_ = rank_scores(np.array([4.0, 3, 2, 1]), true), rank_scores(np.array([1.0, 2, 3, 4]), true)
    assert [metric(perfect).value for metric in METRICS] == [1.0, 1.0, 0.0]
    assert [metric(reversed_).value for metric in METRICS] == [pytest.approx((1 / 3 + 2 / 4) / 2), 0.0, 1.0]


def test_of_equal_scores_nothing_is_learned():
    ranked = rank_scores(np.zeros(4), np.array([True, False, False, False]))
    assert [metric(ranked).value for metric in METRICS] == [0.25, 0.5, 0.5]


def test_one_class_only_is_undefined():
    scores = np.arange(3.0)
    nobody, everybody = rank_scores(scores, np.zeros(3, np.bool_)), rank_scores(scores, np.ones(3, np.bool_))
    assert {metric(nobody).reason for metric in METRICS} == {"No input belongs to the class."}
    assert average_precision(everybody).value == 1
    assert {metric(everybody).reason for metric in METRICS[1:]} == {"All inputs belong to the class."}


def test_nan_scores_and_no_inputs_are_undefined():
    ranked = rank_scores(np.array([0.5, np.nan]), np.array([True, False]))
    nothing = rank_scores(np.empty(0), np.empty(0, np.bool_))
    for metric in METRICS:
        assert metric(ranked).reason == "The scores of 1 of 2 inputs are NaN."
        assert metric(nothing).reason == "There are no inputs."
        assert not metric(ranked).defined


def test_large_counts_do_not_overflow():
    weights = np.array([10**9, 10**9])
    assert roc_auc(rank_scores(np.array([1.0, 0.0]), np.array([True, False])), weights).value == 1


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="rows of one length"):
        rank_scores(np.zeros(3), np.zeros(2, np.bool_))


@pytest.mark.parametrize("seed", range(4))
def test_many_weightings_at_once_are_those_one_by_one(seed, monkeypatch):
    monkeypatch.setattr(ranked_scores, "_AT_ONCE", 50)  # so that rows come in several steps
    random = np.random.default_rng(seed)
    ranked = rank_scores(random.integers(0, 6, 20) / 5, random.random(20) < 0.2)
    weights = random.integers(0, 3, (9, 20)) * (random.random((9, 20)) < 0.4)
    found = weighted_areas(ranked, weights.T.astype(np.float64))
    for many, one in zip(found, (average_precision, roc_auc), strict=True):
        np.testing.assert_allclose(many, [one(ranked, row).value for row in weights], atol=1e-12)


def test_many_weightings_of_scores_that_are_not_known():
    unknown = rank_scores(np.array([0.1, np.nan]), np.array([True, False]))
    nothing = rank_scores(np.zeros(0), np.zeros(0, bool))
    for ranked, inputs in ((unknown, 2), (nothing, 0)):
        assert np.isnan(weighted_areas(ranked, np.ones((inputs, 3)))).all()
