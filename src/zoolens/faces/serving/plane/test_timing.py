"""How often requests come, and how long calls take, by a clock that the test moves."""

import numpy as np
import pytest

from zoolens.faces.serving.contracts.ladder import LatencyProfile
from zoolens.faces.serving.plane.timing import ArrivalRate, ScaledTiming


def rate_after(times, seconds=1.0):
    rate = ArrivalRate(seconds)
    for now in times:
        rate.add(now)
    return rate


def test_of_one_request_no_rate_is_known():
    rate = ArrivalRate(10.0)
    assert rate.at(5.0) == 0
    rate.add(7.0)
    assert rate.at(7.0) == rate.at(9.0) == 0


@pytest.mark.parametrize("each", [1.0, 5.0, 30.0])
def test_the_first_requests_of_an_even_stream_tell_its_rate(each):
    """The average over 40 s would be a tenth of it after four seconds."""
    times = [each * place for place in range(40)]
    for count in range(2, 40):
        rate = rate_after(times[:count], 40.0)
        # Just after a request; on average over the time until the next one it is less.
        told = rate.at(times[count - 1])
        assert told <= 4 * count / 40 + 1 / each
        if times[count - 1] >= 10:
            assert told == pytest.approx(1 / each, rel=0.55)


def test_a_burst_is_seen_at_once_and_two_requests_are_no_flood():
    burst = rate_after([0.0, *np.linspace(0, 0.1, 9)], 40.0)
    assert burst.at(0.1) == pytest.approx(9 / 10, rel=0.02)
    assert rate_after([0.0, 0.0001]).at(0.0001) == pytest.approx(4, rel=0.01)


def test_the_rate_of_chance_arrivals_is_told_on_average_from_the_start():
    random = np.random.default_rng(0)
    told = []
    for _ in range(400):
        times = np.cumsum(random.exponential(0.1, 200))
        rate = ArrivalRate()
        for now in times[times < times[0] + 0.5]:
            rate.add(now)
        told.append(rate.at(times[0] + 0.5))
    assert np.mean(told) == pytest.approx(10, rel=0.05)


def test_what_is_seen_of_one_size_holds_for_all():
    timing = ScaledTiming(LatencyProfile({1: 1.0, 11: 2.0}))
    assert timing.predict(6) == pytest.approx(1.5)
    timing.add(1, 0.5)
    assert timing.predict(11) == pytest.approx(1.0)
    timing.add(11, 4.0)
    assert timing.predict(1) == pytest.approx(0.5 + 0.2 * 1.5)
