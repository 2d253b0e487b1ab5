import math

import numpy as np
import pytest
from scipy import stats

from zoolens.base.statistics.heterogeneity import (
    LEVEL,
    SPREAD,
    Sitting,
    agree,
    agreement_p_value,
    beyond_its_sitting,
    chi_square_tail,
    outlying,
    pooled_estimate,
    time_factor,
)

SITTINGS = math.log1p(SPREAD) / 1.959964
WITHIN = 0.01  # standard error of one sitting's median, relative


def sitting(value, machine="", error=WITHIN):
    half = math.exp(1.959964 * error)
    return Sitting(value, value / half, value * half, machine)


def drawn(random, machines, spread):
    values = 1e-3 * np.exp(random.normal(0, spread, machines) + random.normal(0, WITHIN, machines))
    return [sitting(float(value), f"m{place}") for place, value in enumerate(values)]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30])
def test_tail_of_chi_square(freedom):
    for x in (0.0, 0.1, 1.0, 5.0, 40.0, 300.0):
        assert chi_square_tail(x, freedom) == pytest.approx(stats.chi2.sf(x, freedom), rel=1e-9, abs=1e-300)


def test_sittings_that_spread_as_allowed_are_told_to_differ_as_seldom_as_stated():
    random = np.random.default_rng(7)
    for machines in (2, 3, 8):
        refused = np.mean([not agree(drawn(random, machines, SITTINGS)) for _ in range(1000)])
        assert refused <= LEVEL + 3 * math.sqrt(LEVEL / 1000)


def test_pooled_intervals_cover():
    """The mean of the kind of machine, for spreads from none to the largest that counts as agreement. Only what agrees
    is pooled, so that only that is counted. docs/bounds.md has the figures of 40,000 draws."""
    random = np.random.default_rng(11)
    for machines in (2, 3, 6):
        for spread in (0.0, SITTINGS / 2, SITTINGS):
            draws = [drawn(random, machines, spread) for _ in range(600)]
            pooled = [pooled_estimate(one).interval for one in draws if agree(one)]
            covered = np.mean([interval.contains(1e-3) for interval in pooled])
            assert covered >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(pooled)), (machines, spread)


@pytest.mark.parametrize("spread", [0.0, SITTINGS / 2, SITTINGS])
def test_the_factor_of_two_times_covers(spread):
    """Of single sittings of two things, whose true medians are 1.5 apart; also at a level for many comparisons."""
    random = np.random.default_rng(17)
    covered = {0.95: 0, 0.999: 0}
    for _ in range(2000):
        before, after = (
            beyond_its_sitting(sitting(true * math.exp(random.normal(0, spread) + random.normal(0, WITHIN))))
            for true in (1.0, 1.5)
        )
        for confidence in covered:
            covered[confidence] += time_factor(before, after, confidence).interval.contains(1.5)
    for confidence, count in covered.items():
        assert count / 2000 >= confidence - 3 * math.sqrt(confidence * (1 - confidence) / 2000), (spread, confidence)


def test_a_time_without_an_interval_tells_nothing_of_other_sittings():
    assert beyond_its_sitting(Sitting(1.0)) is None
    assert beyond_its_sitting(Sitting(1.0, 1.1, 1.2)) is None
    narrow = beyond_its_sitting(Sitting(1.0, 1.0, 1.0))
    assert narrow.high == pytest.approx(1 + SPREAD)
    wide = time_factor(narrow, beyond_its_sitting(Sitting(2.0, 1.0, 2.0)))
    # The far end of the second is below it, and pushes the lower end of the factor alone.
    assert wide.value == pytest.approx(2.0)
    assert wide.interval.low < 1.0
    assert wide.interval.high == pytest.approx(2.0 * math.exp(math.hypot(math.log(1.05), math.log(1.05))))


def test_several_sittings_of_a_machine_count_once():
    random = np.random.default_rng(13)
    covered = []
    for _ in range(600):
        machines = np.exp(random.normal(0, SITTINGS, 4))
        times = [sitting(float(machines[0] * np.exp(random.normal(0, WITHIN))), "m0") for _ in range(9)]
        times += [
            sitting(float(machines[place] * np.exp(random.normal(0, WITHIN))), f"m{place}") for place in (1, 2, 3)
        ]
        covered.append(pooled_estimate(times).interval.contains(1.0))
    assert np.mean(covered) >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / 600)


def test_one_machine_that_is_slower_is_named():
    times = [sitting(1.0, "a"), sitting(1.02, "b"), sitting(1.41, "c"), sitting(1.40, "c"), sitting(0.99, "d")]
    assert not agree(times)
    assert outlying(times) == (2, 3)
    assert agreement_p_value(times) < 1e-6


def test_one_sitting_that_is_slower_is_named_where_its_machine_has_others():
    times = [sitting(1.0, "a"), sitting(1.02, "a"), sitting(1.4, "b"), sitting(0.99, "b")]
    assert outlying(times) == (2,)


def test_of_two_that_differ_neither_is_the_outlying_one():
    assert outlying([sitting(1.0, "a"), sitting(1.4, "b")]) == ()
    # Each of the two pairs might be right.
    assert outlying([sitting(1.0, "a"), sitting(1.01, "b"), sitting(1.4, "c"), sitting(1.41, "d")]) == ()


def test_a_single_sitting_has_a_value_and_no_interval():
    one = pooled_estimate([sitting(2.0)])
    assert one.value == pytest.approx(2.0)
    assert one.interval is None
    assert agree([sitting(2.0)])


def test_equal_values_are_not_known_better_than_each_of_them():
    interval = pooled_estimate([sitting(1.0, "a"), sitting(1.0, "b"), sitting(1.0, "c")]).interval
    assert interval.high / interval.low > math.exp(2 * WITHIN)
