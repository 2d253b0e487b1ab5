import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from zoolens.inventory.tasks.scoring.number_figures import correlation_figures, error_figures
from zoolens.inventory.tasks.scoring.rank_correlation import (
    mean_absolute_error,
    pair_numbers,
    pearson,
    r_squared,
    spearman,
)

NUMBERS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e3, 1e3).map(lambda value: round(value, 3)))


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 12).flatmap(lambda n: st.tuples(*[arrays.arrays(float, n, elements=NUMBERS)] * 2, st.just(n))))
def test_all_weightings_at_once_are_those_of_one_after_the_other(drawn):
    predicted, true, n = drawn
    weights = np.random.default_rng(n).integers(0, 3, (5, n))
    weights[0] = 1
    pairs = pair_numbers(predicted, true)
    errors, correlations = error_figures(pairs, weights), correlation_figures(pairs, weights)
    for row, counts in enumerate(weights):
        alone = [measure(pairs, counts).value for measure in (mean_absolute_error, r_squared)]
        assert errors[row, [0, 2]] == pytest.approx(alone, abs=1e-9, rel=1e-9, nan_ok=True)
        repeated = np.repeat(predicted - true, counts)
        root = np.sqrt(np.mean(repeated**2)) if len(repeated) else np.nan
        assert errors[row, 1] == pytest.approx(root, nan_ok=True)
        alone = [measure(pairs, counts).value for measure in (spearman, pearson)]
        assert correlations[row] == pytest.approx(alone, abs=1e-9, nan_ok=True)


def test_figures_of_a_whole_dataset():
    """As scikit-learn 1.9.1 and scipy 1.17.1 give them for [1, 2, 3, 5] against [1, 2, 4, 4]."""
    pairs = pair_numbers(np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.0, 2.0, 4.0, 4.0]))
    ones = np.ones((1, 4), np.int64)
    assert error_figures(pairs, ones)[0] == pytest.approx([0.5, 0.7071067811865476, 0.7037037037037037])
    assert correlation_figures(pairs, ones)[0] == pytest.approx([0.9486832980505138, 0.87831006565368])


def test_numbers_of_any_size_have_figures():
    for size in (1e-200, 1.0, 1e200):
        pairs = pair_numbers(np.array([1.0, 2.0, 3.0, 5.0]) * size, np.array([1.0, 2.0, 4.0, 4.0]) * size)
        figures = error_figures(pairs, np.ones((1, 4), np.int64))[0]
        assert figures / [size, size, 1] == pytest.approx([0.5, 0.7071067811865476, 0.7037037037037037])
        assert correlation_figures(pairs, np.ones((1, 4), np.int64))[0, 1] == pytest.approx(0.87831006565368)


def test_one_number_that_is_none_leaves_no_figure():
    pairs = pair_numbers(np.array([1.0, np.nan]), np.array([1.0, 2.0]))
    ones = np.ones((2, 2), np.int64)
    assert np.isnan(error_figures(pairs, ones)).all()
    assert np.isnan(correlation_figures(pairs, ones)).all()
