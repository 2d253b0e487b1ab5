"""Whether a tier is cheaper is yes, no or not known, and does not depend on where in its interval a time lies."""

import pytest

from zoolens.faces.serving.contracts.ladder import LatencyProfile, Rung
from zoolens.faces.serving.services.rung_costs import compare_costs


def rung(name, low, high, memory=None, energy=None):
    middle = (low + high) / 2
    profile = LatencyProfile({1: middle, 8: 8 * middle}, {1: low, 8: 8 * low}, {1: high, 8: 8 * high})
    return Rung(name, "onnxruntime", 0.9, 0.9, profile, memory, {} if energy is None else {"energy": energy})


REFERENCE = rung("reference", 0.98, 1.02)


@pytest.mark.parametrize(
    ("low", "high", "cheaper"),
    [
        (0.50, 0.52, None),  # clearly: nothing is said
        (0.97, 1.03, False),
        (1.50, 1.60, False),
        (0.93, 0.97, "open"),  # around the threshold
        (0.20, 3.00, "open"),  # timed on a busy machine
    ],
)
def test_the_whole_interval_decides(low, high, cheaper):
    found = compare_costs(rung("other", low, high), [REFERENCE], 8, time_alone=True)
    if cheaper is None:
        assert found is None
    else:
        assert found.cheaper is (False if cheaper is False else None)
        assert found.other is REFERENCE


def test_a_rung_that_is_no_cheaper_than_one_of_several_says_than_which():
    others = [REFERENCE, rung("quick", 0.4, 0.41)]
    found = compare_costs(rung("middle", 0.5, 0.51), others, 8, time_alone=True)
    assert (found.cheaper, found.other.model) == (False, "quick")
    assert found.words == "505 ms [500, 510] instead of 405 ms [400, 410] for one input"


def test_memory_and_energy_count_where_the_policy_looks_at_them():
    small, thrifty = rung("small", 1.0, 1.0, memory=50), rung("thrifty", 1.0, 1.0, energy=0.5)
    for other, more in ((small, rung("r", 1.0, 1.0, memory=100)), (thrifty, rung("r", 1.0, 1.0, energy=1.0))):
        assert compare_costs(other, [more], 8, time_alone=False) is None
        assert compare_costs(other, [more], 8, time_alone=True).cheaper is False


def test_a_time_without_an_interval_is_exact():
    profile = LatencyProfile({1: 0.1, 8: 0.8}, {1: 0.09}, {1: 0.2})
    assert profile.interval(1) == (0.09, 0.2)
    assert profile.interval(8) == (0.8, 0.8)
    assert profile.changed(lambda size, seconds: seconds + size).interval(1) == (1.09, 1.2)
