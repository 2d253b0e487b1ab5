"""Seed noise on few numbers that can be added up by hand. `make mutants` runs these; test_seeds.py simulates."""

import math

import numpy as np
import pytest

from zoolens.base.statistics.seeds import seed_noise

HALF_NORMAL = math.sqrt(2 / math.pi)
SHARED = [0.70, 0.75, 0.80, 0.72]


def test_a_certain_difference_may_be_less_than_that_of_two_seeds_of_one_side():
    """The sides of a seed share its weights: b is a point better in each, while seeds are five points apart."""
    found = seed_noise("a", SHARED, "b", [0.710, 0.7601, 0.8099, 0.730])
    assert found.difference.excludes_zero
    assert found.excess.value > 0
    assert found.within_seeds
    assert not found.beyond_noise
    far = seed_noise("a", SHARED, "b", [0.810, 0.8601, 0.9099, 0.830])
    assert not far.within_seeds
    assert far.beyond_noise


@pytest.mark.parametrize(("gap", "within"), [(0.0563, True), (0.0565, False), (-0.0563, True), (-0.0565, False)])
def test_two_seeds_of_the_same_side_are_apart_by_both_their_spreads(gap, within):
    """Spreads of 5 points each: √(2/π) · √(5² + 5²) = 5.642 points."""
    side = np.array([0.70, 0.75, 0.80])
    assert seed_noise("a", side, "b", side + gap).within_seeds is within


def test_figures_of_several_seeds():
    ours, theirs = [0.70, 0.75, 0.80], [0.72, 0.80, 0.79]
    found = seed_noise("a", ours, "b", theirs)
    differences = np.subtract(theirs, ours)
    assert (found.a, found.b, found.seeds) == ("a", "b", 3)
    assert (found.accuracies_a, found.accuracies_b) == (tuple(ours), tuple(theirs))
    assert found.spread_a == pytest.approx(0.05)
    assert found.spread_b == pytest.approx(np.std(theirs, ddof=1))
    assert found.difference.value == pytest.approx(0.02)
    assert found.level == pytest.approx(HALF_NORMAL * differences.std(ddof=1))
    assert found.excess.value == pytest.approx(0.02 - found.level)
    assert found.excess.interval.low < found.excess.value < found.excess.interval.high
    assert (found.exact, found.p_value, found.least_p) == (True, 0.5, 0.25)
    assert found.beyond_noise is False


def test_the_sides_can_be_exchanged():
    one, other = seed_noise("a", SHARED, "b", [0.8] * 4), seed_noise("b", [0.8] * 4, "a", SHARED)
    assert one.difference.value == pytest.approx(-other.difference.value)
    assert one.excess == other.excess


def test_the_interval_of_the_excess_is_that_of_its_pivot():
    """Recomputed from draws of another generator, so to a few per cent of its width."""
    differences = np.array([0.04, 0.06, 0.05, 0.03])
    found = seed_noise("a", SHARED, "b", SHARED + differences).excess.interval
    generator = np.random.default_rng(7)
    sigma = differences.std(ddof=1) * np.sqrt(3 / generator.chisquare(3, 200_000))
    drawn = differences.mean() - sigma * (generator.normal(size=200_000) / 2 + HALF_NORMAL)
    low, high = np.quantile(drawn, (0.025, 0.975))
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03 * (high - low))


def test_a_known_number_of_images_widens_the_interval_by_its_rounding():
    ours, theirs = [0.70, 0.75, 0.80], [0.75, 0.80, 0.85]
    widths = []
    for images in (None, 1000, 100, 20):
        interval = seed_noise("a", ours, "b", theirs, images).excess.interval
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(0.0, abs=1e-12)
    assert widths[3] / widths[2] == pytest.approx(5.0, rel=1e-3)  # a count is known to one image


def test_one_seed_says_nothing_of_noise():
    found = seed_noise("a", [0.7], "b", [0.9])
    assert (found.spread_a, found.spread_b, found.p_value, found.level, found.excess) == (None,) * 5
    assert found.exact is False
    assert found.beyond_noise is None
    assert found.within_seeds is False
    assert found.least_p == 1.0
    assert seed_noise("a", [0.7], "b", [0.7]).within_seeds is True


def test_two_seeds_say_something_of_noise():
    found = seed_noise("a", [0.70, 0.75], "b", [0.71, 0.78])
    assert found.level == pytest.approx(HALF_NORMAL * math.sqrt(2) * 0.01)
    assert found.least_p == 0.5
