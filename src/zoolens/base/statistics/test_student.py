import numpy as np
import pytest
import scipy.stats

from zoolens.base.statistics.student import mean_estimate, ratio_interval, t_quantile


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 29, 120])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_t_quantiles_are_those_of_scipy(freedom, confidence):
    expected = scipy.stats.t.ppf(0.5 + confidence / 2, freedom)
    assert t_quantile(freedom, confidence) == pytest.approx(expected, rel=1e-9)


def test_a_mean_and_its_interval_are_those_of_scipy():
    values = np.array([0.1, 0.4, -0.2, 0.35])
    found = mean_estimate(values)
    expected = scipy.stats.ttest_1samp(values, 0).confidence_interval()
    assert found.value == pytest.approx(values.mean())
    assert tuple(found.interval) == pytest.approx(tuple(expected))
    assert mean_estimate(values[:1]).interval is None


def test_no_interval_where_the_gap_may_be_nothing():
    assert ratio_interval(np.array([0.1, 0.2, 0.3]), np.array([0.2, -0.1, 0.05])) is None
    assert ratio_interval(np.array([0.1]), np.array([0.2])) is None


def test_ratio_intervals_cover():
    generator = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        whole = generator.normal(0.5, 0.05, 4)
        covered.append(ratio_interval(0.8 * whole + generator.normal(0, 0.02, 4), whole).contains(0.8))
    assert 0.93 < np.mean(covered) < 0.97


def test_a_share_of_everything_is_all_of_it():
    gap = np.array([0.4, 0.5, 0.45])
    assert tuple(ratio_interval(gap, gap)) == pytest.approx((1, 1))
