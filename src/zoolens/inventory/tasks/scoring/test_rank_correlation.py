"""Correlations equal scipy's, errors scikit-learn's, with ties and weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import mean_absolute_error as absolute_error
from sklearn.metrics import r2_score

from zoolens.base.errors import ZoolensError
from zoolens.inventory.tasks.scoring.rank_correlation import (
    mean_absolute_error,
    pair_numbers,
    pearson,
    r_squared,
    spearman,
)

METRICS = (spearman, pearson, mean_absolute_error, r_squared)


@pytest.mark.parametrize("digits", [0, 1, 12])
@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_scipy_and_scikit_learn(seed, digits):
    rng = np.random.default_rng(seed)
    true = np.round(rng.normal(size=60), digits)
    predicted = np.round(true + rng.normal(size=60), digits)
    pairs = pair_numbers(predicted, true)
    weights = rng.integers(0, 4, 60)
    for counts in (np.ones(60, np.int64), weights):
        a, b = np.repeat(predicted, counts), np.repeat(true, counts)
        assert spearman(pairs, counts).value == pytest.approx(spearmanr(a, b).statistic, rel=1e-12)
        assert pearson(pairs, counts).value == pytest.approx(pearsonr(a, b).statistic, rel=1e-12)
        assert mean_absolute_error(pairs, counts).value == pytest.approx(absolute_error(b, a), rel=1e-12)
        assert r_squared(pairs, counts).value == pytest.approx(r2_score(b, a), rel=1e-12, abs=1e-12)


numbers = st.sampled_from([-2.0, 0.0, 0.1, 3.0])


@settings(deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.integers(0, 3)), max_size=10))
def test_weights_repeat_inputs(inputs):
    a, b = np.array([row[0] for row in inputs]), np.array([row[1] for row in inputs])
    weights = np.array([row[2] for row in inputs], np.int64)
    weighted, plain = pair_numbers(a, b), pair_numbers(np.repeat(a, weights), np.repeat(b, weights))
    for metric in METRICS:
        ours, expected = metric(weighted, weights), metric(plain)
        assert ours.value == pytest.approx(expected.value, rel=1e-9, abs=1e-12, nan_ok=True)
        assert ours.reason == expected.reason
        assert ours.defined == (not ours.reason)


def test_equal_numbers_have_no_correlation():
    """Also where the mean of equal numbers is not one of them: 0.1 three times."""
    constant, growing = np.full(3, 0.1), np.arange(3.0)
    for metric in (spearman, pearson):
        assert metric(pair_numbers(constant, growing)).reason == "All predicted numbers are equal."
        assert metric(pair_numbers(growing, constant)).reason == "All true numbers are equal."
    assert r_squared(pair_numbers(growing, constant)).reason == "All true numbers are equal."
    assert r_squared(pair_numbers(constant, growing)).defined


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_none_are_undefined(value):
    for pair in ((np.array([value, 1.0]), np.arange(2.0)), (np.arange(2.0), np.array([value, 1.0]))):
        for metric in METRICS:
            score = metric(pair_numbers(*pair))
            assert score.reason == "A number is NaN or infinite for 1 of 2 inputs."
            assert not score.defined


def test_no_inputs_are_undefined():
    for metric in METRICS:
        assert metric(pair_numbers(np.empty(0), np.empty(0))).reason == "There are no inputs."
        assert metric(pair_numbers(np.ones(1), np.ones(1)), [0]).reason == "There are no inputs."


def test_extreme_numbers():
    small, large = np.array([1e-200, 2e-200, 4e-200]), np.array([1e200, 2e200, 4e200])
    assert pearson(pair_numbers(small, large)).value == pytest.approx(1)
    assert r_squared(pair_numbers(large, large)).value == 1
    huge = np.array([-1.7e308, 1.7e308, 1.6e308])
    assert spearman(pair_numbers(huge, huge)).value == pytest.approx(1)
    assert mean_absolute_error(pair_numbers(huge, -huge)).reason == "The numbers are too large to be added up."


def test_shapes_are_checked():
    with pytest.raises(ZoolensError, match="rows of one length"):
        pair_numbers(np.zeros(3), np.zeros(2))
