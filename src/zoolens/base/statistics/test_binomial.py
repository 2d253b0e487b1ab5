import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from zoolens.base.statistics.binomial import (
    binomial_lower,
    binomial_lowers,
    binomial_tail,
    binomial_upper,
    needed_successes,
)


@pytest.mark.parametrize(
    ("k", "n"),
    [(0, 10), (10, 10), (1, 7), (6, 7), (72, 100), (750, 1000), (6900, 10_000), (3, 10_000), (9999, 10_000),
     (720_000, 1_000_000), (1, 1_000_000), (999_999, 1_000_000)],
)  # fmt: skip
@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.01, 1e-6, 0.7])
def test_bounds_equal_the_beta_quantiles_of_scipy(k, n, alpha):
    low = 0.0 if k == 0 else stats.beta.ppf(alpha, k, n - k + 1)
    high = 1.0 if k == n else stats.beta.ppf(1 - alpha, k + 1, n - k)
    assert binomial_lower(k, n, alpha) == pytest.approx(low, abs=1e-9)
    assert binomial_upper(k, n, alpha) == pytest.approx(high, abs=1e-9)


def test_both_ends_at_half_alpha_are_the_exact_interval_of_scipy():
    expected = stats.binomtest(690, 1000).proportion_ci(0.95, method="exact")
    found = binomial_lower(690, 1000, 0.025), binomial_upper(690, 1000, 0.025)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(n=st.integers(1, 300), share=st.floats(0, 1), data=st.data())
@settings(max_examples=200, deadline=None)
def test_the_tail_equals_that_of_scipy(n, share, data):
    k = data.draw(st.integers(0, n + 1))
    assert binomial_tail(k, n, share) == pytest.approx(stats.binom.sf(k - 1, n, share), rel=1e-9, abs=1e-12)


def test_many_counts_at_once_are_the_same_as_one_by_one():
    counts = np.array([[90, 95], [100, 90]])
    expected = [[binomial_lower(int(k), 100, 0.05) for k in row] for row in counts]
    assert binomial_lowers(counts, 100, 0.05).tolist() == expected


@pytest.mark.parametrize("n", [1, 10, 59, 100, 2000])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_the_fewest_successes_are_enough_and_one_less_is_not(n, share, alpha):
    fewest = needed_successes(n, share, alpha)
    if fewest is None:
        assert binomial_lower(n, n, alpha) < share
        return
    assert binomial_lower(fewest, n, alpha) >= share
    assert binomial_lower(fewest - 1, n, alpha) < share


def test_what_cannot_be_shown_and_what_needs_no_showing():
    assert needed_successes(58, 0.95, 0.05) is None
    assert needed_successes(59, 0.95, 0.05) == 59
    assert needed_successes(1000, 1.0, 0.05) is None
    assert needed_successes(1000, 0.0, 0.05) == 0
    assert needed_successes(1, 0.5, 0.5) == 1  # the bound is the share exactly
    assert needed_successes(5, 0.01, 0.05) == 1
    fewest = needed_successes(100, 0.9, 0.05)
    assert (fewest, type(fewest)) == (min(k for k in range(101) if stats.binom.sf(k - 1, 100, 0.9) <= 0.05), int)
    assert binomial_tail(1, 5, 0.0) == 0.0


def test_a_bound_covers_the_truth_at_the_nominal_rate():
    """Simulated, so that a bound on the wrong side or at half the confidence would fail."""
    truth, n, alpha = 0.9, 200, 0.1
    counts = np.random.default_rng(0).binomial(n, truth, 4000)
    misses = np.mean(binomial_lowers(counts, n, alpha) > truth)
    assert 0.05 < misses <= alpha + 0.015


@pytest.mark.parametrize(("k", "n", "alpha"), [(3, 2, 0.05), (-1, 2, 0.05), (0, 0, 0.05), (1, 2, 0.0), (1, 2, 1.0)])
def test_nonsense_is_refused(k, n, alpha):
    with pytest.raises(ValueError):
        binomial_lower(k, n, alpha)


def test_a_confidence_of_one_cannot_be_had():
    with pytest.raises(ValueError, match="alpha is 0"):
        binomial_lower(3, 10, 0.0)
