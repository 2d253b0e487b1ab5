import numpy as np
import pytest
import scipy.stats

from zoolens.statistics.student import mean_estimate, t_quantile


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
