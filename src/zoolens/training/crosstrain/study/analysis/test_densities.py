import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from zoolens.training.crosstrain.study.analysis.densities import bandwidth, density

pytest.importorskip("sklearn.neighbors")
shares = st.lists(st.floats(0, 1), min_size=2, max_size=60).map(np.array)


@given(shares, st.sampled_from(["silverman", "scott"]))
def test_a_density_has_the_mass_of_one_whatever_the_values(values, rule):
    found = density(values, rule=rule)
    assert np.trapezoid(found.height, found.grid) == pytest.approx(1, abs=2e-3)
    assert found.grid[0] >= 0
    assert found.grid[-1] <= 1


def test_far_from_the_borders_it_is_the_plain_estimate():
    values = np.random.default_rng(0).normal(0.5, 0.05, 200)
    found = density(values, rule="scott")
    np.testing.assert_allclose(found.height, gaussian_kde(values, "scott")(found.grid), atol=1e-9)


def test_it_does_not_sink_at_a_border_where_the_values_lie():
    values = np.random.default_rng(0).uniform(0, 1, 5000)
    found = density(values, rule="scott")
    plain = gaussian_kde(values, "scott")(found.grid)
    assert found.height[0] == pytest.approx(1, abs=0.12)
    assert plain[0] < 0.6


def test_two_humps_stay_apart_under_silverman():
    values = np.r_[np.full(20, 0.1), np.random.default_rng(0).normal(0.7, 0.02, 80)]
    found = density(values)
    at = dict(zip(np.round(found.grid, 2), found.height, strict=True))
    assert at[0.4] < 0.01 * min(at[0.1], at[0.7])
    assert bandwidth(np.sort(values), "silverman") < bandwidth(np.sort(values), "scott")


def test_what_is_not_a_share_is_left_out_and_counted():
    found = density(np.array([0.1, np.nan, 0.2, np.inf, 1.5, 0.3]))
    assert (found.n, found.left_out) == (3, 3)


def test_equal_values_have_a_width_and_one_value_has_no_density():
    assert density(np.full(9, 0.1)).bandwidth > 0
    assert density(np.array([0.5, np.nan])) is None
