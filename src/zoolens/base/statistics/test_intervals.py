import math

import numpy as np
import pytest
from scipy import optimize, signal, stats

from zoolens.base.statistics.intervals import (
    Interval,
    bootstrap_mean,
    median_difference,
    paired_difference,
    quantile,
    random_blocks,
    wilson,
)
from zoolens.base.statistics.series import autocorrelation_time, series_quantile, series_share


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (1, 7), (693, 725), (50, 100), (9999, 10000)])
def test_wilson_equals_scipy(k, n):
    expected = stats.binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_paired_difference_covers_the_truth_at_the_nominal_rate():
    generator = np.random.default_rng(1)
    cells = generator.multinomial(500, [0.70, 0.08, 0.05, 0.17], size=4000)
    intervals = [paired_difference(int(c[1]), int(c[2]), 500) for c in cells]
    coverage = np.mean([interval.contains(0.05 - 0.08) for interval in intervals])
    assert 0.94 < coverage < 0.97


@pytest.mark.parametrize("expected_a", [0.5, 1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("ratio", [0, 0.25, 0.5, 1])
def test_paired_difference_covers_the_truth_also_where_few_inputs_are_answered_differently(expected_a, ratio):
    """Exact coverage at n = 1,000; the interval of Agresti and Min covers 86.4 % at two expected losses and no wins."""
    n, most = 1000, 40
    share_a, share_b = expected_a / n, expected_a * ratio / n
    counts = [(a, b) for a in range(most) for b in range(most if share_b else 1)]
    chance = stats.multinomial.pmf([(a, b, n - a - b) for a, b in counts], n, [share_a, share_b, 1 - share_a - share_b])
    likely = [(chance_here, *both) for chance_here, both in zip(chance, counts, strict=True) if chance_here > 1e-6]
    held = sum(here for here, a, b in likely if paired_difference(a, b, n).contains(share_b - share_a))
    assert held > 0.93


@pytest.mark.parametrize(
    ("only_a", "only_b", "n"), [(3, 9, 100), (1, 1, 3), (0, 4, 50), (16, 6, 161), (7, 1, 21), (120, 90, 2000)]
)
def test_the_ends_of_a_paired_difference_are_where_the_score_test_turns(only_a, only_b, n):
    """With the constrained maximum likelihood found by a search instead of the quadratic equation."""
    counts = np.array([only_a, only_b, n - only_a - only_b])

    def score(difference):
        def shares(share_a):
            return np.array([share_a, share_a + difference, 1 - 2 * share_a - difference])

        low, high = max(0.0, -difference), (1 - difference) / 2
        best = optimize.minimize_scalar(
            lambda share_a: -np.sum(counts * np.log(np.maximum(shares(share_a), 1e-300))),
            bounds=(low, high),
            method="bounded",
            options={"xatol": 1e-12},
        ).x
        return (only_b - only_a - n * difference) / np.sqrt(n * (2 * best + difference * (1 - difference)))

    low, high = paired_difference(only_a, only_b, n)
    assert (score(low), score(high)) == pytest.approx((stats.norm.ppf(0.975), stats.norm.ppf(0.025)), abs=1e-4)
    assert paired_difference(only_b, only_a, n) == pytest.approx((-high, -low), abs=1e-15)


def test_paired_difference_is_the_published_example():
    """Airway hyper-responsiveness of 21 children, in Fagerland, Lydersen and Laake 2014."""
    assert paired_difference(7, 1, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


@pytest.mark.parametrize("n", [10, 100, 2000])
def test_paired_difference_without_any_by_hand(n):
    z = stats.norm.ppf(0.975)
    end = z * z / (n + z * z)  # n d² = z² d (1 − d)
    assert paired_difference(0, 0, n) == pytest.approx((-end, end), abs=1e-12)


def test_paired_difference_goes_no_further_than_a_difference_can():
    assert paired_difference(2, 0, 2).low == -1.0
    assert paired_difference(0, 2, 2).high == 1.0
    assert paired_difference(0, 2, 2).contains(1.0)


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


def test_nothing_measured_is_no_knowledge():
    assert wilson(0, 0) == (0.0, 1.0)
    assert paired_difference(0, 0, 0) == (-1.0, 1.0)


def test_the_difference_of_two_medians_covers_the_truth_as_often_as_it_says():
    random = np.random.default_rng(3)
    covered = sum(
        median_difference(random.exponential(1, 60), 0.5 + random.exponential(1, 40)).contains(0.5) for _ in range(60)
    )
    assert covered >= 52
    assert median_difference(np.array([]), np.ones(3)) == (-math.inf, math.inf)
    assert median_difference(np.zeros(4), np.ones(9)) == (-math.inf, math.inf)
    assert median_difference(np.zeros(5), np.ones(5)) == (1, 1)


def test_a_series_whose_neighbours_are_alike_has_wider_intervals():
    random = np.random.default_rng(5)
    independent = random.exponential(1, 4000)
    together = np.repeat(independent[:800], 5)
    widths = [series_quantile(values, 0.5) for values in (independent, together)]
    assert widths[1][2] - widths[1][1] > 2 * (widths[0][2] - widths[0][1])
    alike = np.repeat(random.random(800) < 0.5, 5)
    assert series_share(alike).high - series_share(alike).low > 2 * np.diff(wilson(int(alike.sum()), 4000))[0]


def test_a_series_that_depends_on_itself_for_too_long_has_no_interval():
    random = np.random.default_rng(6)
    assert series_quantile(np.repeat(random.exponential(1, 40), 10), 0.5)[1:] == (None, None)
    assert series_quantile(random.exponential(1, 90), 0.5)[1:] == (None, None)
    assert series_quantile(random.exponential(1, 900), 0.99)[1:] == (None, None)
    assert series_share(np.repeat(random.random(40) < 0.5, 10)) is None
    assert series_share(np.array([], bool)) is None
    assert np.isnan(series_quantile(np.array([]), 0.5)[0])


def test_independent_and_equal_values_have_the_autocorrelation_time_of_one():
    assert autocorrelation_time(np.random.default_rng(7).normal(size=5000)) == pytest.approx(1, abs=0.15)
    assert autocorrelation_time(np.full(50, 3.0)) == 1
    walk = signal.lfilter([1], [1, -0.9], np.random.default_rng(8).normal(size=100_000))
    assert autocorrelation_time(walk) == pytest.approx(19, rel=0.15)  # (1 + 0.9) / (1 − 0.9)
    assert series_quantile(np.full(500, 2.0), 0.5) == (2.0, 2.0, 2.0)
