import numpy as np
import pytest
from scipy import stats

from zoolens.statistics.intervals import (
    Interval,
    bootstrap_mean,
    exact_mcnemar,
    no_better_than_guessing,
    paired_difference,
    quantile,
    random_blocks,
    wilson,
)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (1, 7), (693, 725), (50, 100), (9999, 10000)])
def test_wilson_equals_scipy(k, n):
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(("a", "b"), [(0, 0), (0, 1), (3, 9), (10, 10), (0, 40), (400, 480), (3000, 2900)])
def test_exact_mcnemar_equals_the_binomial_test(a, b):
    expected = 1.0 if a + b == 0 else stats.binomtest(a, a + b, 0.5).pvalue
    assert exact_mcnemar(a, b) == pytest.approx(expected, rel=1e-9)


def test_paired_difference_covers_the_truth_at_the_nominal_rate():
    generator = np.random.default_rng(1)
    cells = generator.multinomial(500, [0.70, 0.08, 0.05, 0.17], size=4000)
    intervals = [paired_difference(int(c[1]), int(c[2]), 500) for c in cells]
    coverage = np.mean([interval.contains(0.05 - 0.08) for interval in intervals])
    assert 0.94 < coverage < 0.97


@pytest.mark.parametrize(
    ("only_a", "only_b", "n", "low", "high"),
    [
        (3, 9, 100, -0.00951139030530, 0.12715844912883),  # 6/102 ± 1.95996… · √(13 − 36/102) / 102
        (9, 3, 100, -0.12715844912883, 0.00951139030530),
        (0, 0, 10, -0.16333033204500, 0.16333033204500),  # 0 ± 1.95996… · √1 / 12
        (2, 0, 2, -1.0, 0.19295191217484),
        (0, 2, 2, -0.19295191217484, 1.0),  # no further than a difference can be
    ],
)
def test_paired_difference_by_hand(only_a, only_b, n, low, high):
    assert paired_difference(only_a, only_b, n) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("q", "n"), [(0.5, 30), (0.5, 400), (0.9, 400), (0.99, 1000)])
def test_quantile_interval_covers_the_true_quantile(q, n):
    generator = np.random.default_rng(2)
    truth = stats.expon.ppf(q)
    hits = 0
    for _ in range(2000):
        _, low, high = quantile(np.sort(generator.exponential(size=n)), q)
        hits += low <= truth <= high
    assert hits / 2000 > 0.94


def test_an_end_that_the_sample_cannot_tell_is_not_made_up():
    values = np.arange(100.0)
    value, low, high = quantile(values, 0.99)
    assert (value, high) == (pytest.approx(98.01), None)
    assert low == 97.0
    assert quantile(values[:3], 0.5)[1:] == (None, None)


@pytest.mark.parametrize(
    ("q", "n", "low", "high"),
    [
        (0.5, 400, 180, 220),  # 200 ± 19.6
        (0.9, 400, 348, 372),  # 360 ± 11.76
        (0.1, 400, 28, 52),  # 40 ± 11.76
        (0.5, 4, 0, None),  # 2 ± 1.96: rank 4 is beyond the last, which is 3
        (0.8, 25, 16, 24),  # 20 ± 3.92: the last one
    ],
)
def test_the_ranks_of_a_quantiles_interval_by_hand(q, n, low, high):
    assert quantile(np.arange(float(n)), q)[1:] == (low, high)


@pytest.mark.parametrize("n", [100, 900, 40_000])
def test_bootstrap_is_repeatable_and_close_to_the_normal_interval(n):
    values = np.random.default_rng(3).normal(5, 2, n)
    interval = bootstrap_mean(values)
    assert interval == bootstrap_mean(values)
    assert interval.contains(values.mean())
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * 2 / np.sqrt(n), rel=0.15)


def test_bootstrap_equals_that_of_scipy_for_few_skewed_values():
    values = np.random.default_rng(4).exponential(size=60)
    expected = stats.bootstrap((values,), np.mean, method="percentile", random_state=0).confidence_interval
    assert bootstrap_mean(values) == pytest.approx((expected.low, expected.high), rel=0.05)


def test_the_draws_are_those_of_the_stated_seed():
    values = np.arange(50.0) ** 2
    blocks = np.random.default_rng(0).permutation(50)
    drawn = np.random.default_rng(0).multinomial(50, np.full(50, 1 / 50), size=1000)
    expected = np.quantile(drawn @ values[np.argsort(blocks)] / 50, [0.025, 0.975])
    assert bootstrap_mean(values) == pytest.approx(expected, abs=1e-12)
    assert random_blocks(50).tolist() == blocks.tolist()


def test_ends_belong_to_an_interval():
    assert [Interval(1.0, 2.0).contains(value) for value in (0.9, 1.0, 1.5, 2.0, 2.1)] == [False, *[True] * 3, False]


def test_a_share_is_between_none_and_all():
    assert all(wilson(n, n).high <= 1 and wilson(0, n).low >= 0 for n in range(1, 500))


def test_no_samples_have_no_quantile_and_one_is_its_own():
    assert np.isnan(quantile(np.array([]), 0.5)[0])
    assert quantile(np.array([]), 0.5)[1:] == (None, None)
    assert quantile(np.array([3.0]), 0.5) == (3.0, None, None)


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


def test_the_tail_of_guessing_equals_that_of_scipy():
    from zoolens.statistics.intervals import _binomial_tail

    for k, n, p in [(0, 5, 0.3), (1, 5, 0.3), (5, 5, 0.3), (40, 1000, 0.05), (700, 1000, 0.5)]:
        assert _binomial_tail(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-9)
    assert all(_binomial_tail(0, n, 0.3) <= 1 for n in range(1, 200))


def test_nothing_measured_is_no_knowledge():
    assert wilson(0, 0) == (0.0, 1.0)
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)


@pytest.mark.parametrize("seed", [8, 11, 12, 15])
def test_an_interval_contains_its_estimate_although_noise_pushes_the_statistic_up(seed):
    from zoolens.measure.metrics.calibration import _calibration_interval, expected_calibration_error

    random = np.random.default_rng(seed)
    confidence = random.uniform(0.3, 1, 1000)
    correct = (random.uniform(size=1000) < confidence).astype(float)  # well calibrated: the error is noise alone
    low, high = _calibration_interval(confidence, correct)
    assert low <= expected_calibration_error(confidence, correct) <= high
