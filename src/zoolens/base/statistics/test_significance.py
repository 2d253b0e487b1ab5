from itertools import product
from statistics import mean

import numpy as np
import pytest
import scipy.stats
from scipy import stats

from zoolens.base.statistics.significance import exact_mcnemar, mean_not_below_zero, no_better_than_guessing, sign_flip


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (3, 9), (10, 10), (0, 40), (400, 480), (3000, 2900)])
def test_exact_mcnemar_equals_the_binomial_test(a, b):
    expected = 1.0 if a + b == 0 else stats.binomtest(a, a + b, 0.5).pvalue
    assert exact_mcnemar(a, b) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("right", "n", "classes", "expected"),
    [
        (8, 20, 4, True),  # P(8 or more of 20 at 1/4) = 0.102
        (9, 20, 4, False),  # 0.041
        (0, 20, 4, True),
        (14, 20, 2, True),  # P(14 or more of 20 at 1/2) = 0.058
        (15, 20, 2, False),  # 0.021
        (20, 20, 2, False),
        (4, 4, 2, True),  # so few answers tell nothing: 0.0625
        (2, 3, 3, True),  # twice the share of guessing exactly: 0.259
        (3, 3, 3, False),
        (3, 4, 4, False),  # three times the share of guessing is none, although 0.051 is not rare
        (20, 20, 1, False),  # of one class there is nothing to guess
    ],
)
def test_guessing_is_judged_by_the_binomial_tail(right, n, classes, expected):
    correct = np.arange(n) < right
    labels = np.arange(n) % classes
    assert no_better_than_guessing(correct, labels) is expected
    if classes > 1:
        assert (stats.binom.sf(right - 1, n, 1 / classes) >= 0.05) is np.bool_(expected) or right / n > 2 / classes


@pytest.mark.parametrize("seed", range(5))
def test_the_sign_flip_test_is_brute_force(seed):
    values = np.random.default_rng(seed).normal(0.5, 1, 6)
    flipped = [abs(mean(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=6)]
    expected = sum(one >= abs(values.mean()) - 1e-12 for one in flipped) / 64
    assert sign_flip(values) == (pytest.approx(expected), True)


def test_the_sign_flip_test_is_that_of_scipy():
    values = np.random.default_rng(1).normal(0.4, 1, 9)
    expected = scipy.stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip(values)[0] == pytest.approx(expected)


def test_ties_from_counts_are_not_lost_to_rounding():
    assert sign_flip(np.array([0.1, 0.2, -0.3])) == (1.0, True)
    assert sign_flip(np.array([0.1] * 6)) == (2 / 64, True)


def test_many_seeds_are_flipped_at_random():
    generator = np.random.default_rng(0)
    p_value, exact = sign_flip(generator.normal(0, 1, 30))
    assert not exact
    assert 0 < p_value <= 1
    assert sign_flip(generator.normal(3, 1, 30))[0] < 0.001


def test_the_mean_of_many_values_is_tested_as_by_scipy():
    values = np.random.default_rng(0).normal(-0.1, 1, 400)
    expected = stats.norm.cdf(values.mean() / stats.sem(values))
    assert mean_not_below_zero(values) == pytest.approx(expected)
    assert mean_not_below_zero(np.zeros(5)) == mean_not_below_zero(np.array([-1.0])) == 1.0  # nothing varies


def test_two_values_have_a_mean_and_an_error():
    assert mean_not_below_zero(np.array([-1.0, -2.0])) == pytest.approx(stats.norm.cdf(-1.5 / 0.5))


def test_up_to_fourteen_values_all_flips_are_tried():
    values = np.random.default_rng(2).normal(0.3, 1, 15)
    assert [sign_flip(values[:count])[1] for count in (14, 15)] == [True, False]


def test_drawn_flips_are_those_of_the_stated_seed_and_count_the_observed_one():
    values = np.random.default_rng(3).normal(0.3, 1, 20)
    drawn = np.random.default_rng(0).choice((1.0, -1.0), (20_000, 20))
    reached = int(np.sum(np.abs(drawn @ values) >= abs(values.sum()) - 1e-12))
    assert sign_flip(values)[0] == (1 + reached) / 20_001
