"""Profiles between and beyond the sizes that were measured. `make mutants` runs these."""

import pytest

from zoolens.faces.serving.contracts.ladder import LatencyProfile

PROFILE = LatencyProfile({8: 0.040, 1: 0.010, 4: 0.016}, low={1: 0.009, 4: 0.015}, high={1: 0.012, 8: 0.050})


@pytest.mark.parametrize(
    ("batch", "seconds"), [(1, 0.010), (4, 0.016), (8, 0.040), (2, 0.012), (3, 0.014), (6, 0.028), (16, 0.088)]
)
def test_between_two_sizes_it_is_interpolated_and_beyond_it_grows_by_the_last_slope(batch, seconds):
    assert PROFILE.of(batch) == pytest.approx(seconds)


def test_below_the_smallest_size_the_first_slope_holds_and_no_time_is_negative():
    assert LatencyProfile({4: 0.016, 8: 0.024}).of(2) == pytest.approx(0.012)
    assert LatencyProfile({4: 0.016, 8: 0.080}).of(1) == 0.0
    assert LatencyProfile({1: 0.016, 8: 0.002}).of(64) == 0.0


def test_a_single_size_is_taken_in_proportion():
    assert LatencyProfile({4: 0.020}).of(4) == 0.020
    assert LatencyProfile({4: 0.020}).of(1) == pytest.approx(0.005)
    assert LatencyProfile({4: 0.020}).of(8) == pytest.approx(0.040)


def test_an_interval_is_exact_where_none_is_known():
    assert PROFILE.interval(1) == (0.009, 0.012)
    assert PROFILE.interval(4) == (0.015, 0.016)
    assert PROFILE.interval(8) == (0.040, 0.050)
    assert PROFILE.interval(2) == pytest.approx((0.011, 0.012 + 0.004 / 3))


def test_a_change_holds_for_the_times_and_their_intervals():
    changed = PROFILE.changed(lambda size, seconds: seconds + size)
    assert changed.seconds == {8: 8.040, 1: 1.010, 4: 4.016}
    assert changed.low == {1: 1.009, 4: 4.015}
    assert changed.high == {1: 1.012, 8: 8.050}
