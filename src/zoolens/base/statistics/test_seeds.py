from itertools import product

import numpy as np
import pytest
from scipy import stats

from zoolens.base.statistics.seeds import seed_noise
from zoolens.base.statistics.student import mean_estimate


def test_the_level_is_what_equal_sides_show_and_their_excess_is_within_noise():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(0.8, 0.02, (2, 4000))
    found = seed_noise("a", ours, "b", theirs)
    assert found.level == pytest.approx(np.abs(ours - theirs).mean(), rel=0.03)


SHARED, SEEDS, GAPS = (0.0, 0.5, 0.9), (2, 4, 8), (0.0, 0.01, 0.1)


@pytest.mark.parametrize(
    ("shared", "seeds", "gap"),
    [  # a third of them, in which each value meets each of the others, is quick
        pytest.param(SHARED[i], SEEDS[j], GAPS[k], marks=[pytest.mark.slow] if (i + j + k) % 3 else [])
        for i, j, k in product(range(3), repeat=3)
    ],
)
def test_the_excess_interval_covers_also_where_sides_share_their_weights(shared, seeds, gap):
    """`shared`: the correlation of the sides' accuracies over the seeds."""
    generator = np.random.default_rng(1)
    level = np.sqrt(2 / np.pi * 2 * (1 - shared)) * 0.02
    covered = []
    for _ in range(300):
        common, one, other = generator.normal(0, 0.02, (3, seeds))
        ours, theirs = (np.sqrt(shared) * common + np.sqrt(1 - shared) * own for own in (one, other))
        covered.append(seed_noise("a", 0.8 + ours, "b", 0.8 - gap + theirs).excess.interval.contains(gap - level))
    assert np.mean(covered) > 0.91  # 95 % less three standard errors of 300 draws


def test_the_level_knows_what_the_sides_of_a_seed_have_in_common():
    generator = np.random.default_rng(0)
    common, one, other = generator.normal(0, [[0.02], [0.002], [0.002]], (3, 4000))
    found = seed_noise("a", 0.8 + common + one, "b", 0.8 + common + other)
    assert found.level == pytest.approx(np.abs(one - other).mean(), rel=0.03)


@pytest.mark.parametrize(("images", "accuracy"), [(20, 0.5), (20, 0.95), (100, 0.8), (100, 0.95)])
def test_two_seeds_on_few_images_raise_no_more_than_five_false_alarms_in_a_hundred(images, accuracy):
    """Sides of equal accuracy: the probability that the interval of their difference excludes 0, counted exactly."""
    counts = stats.binom.pmf(np.arange(images + 1), images, accuracy)
    chances = {place - images: chance for place, chance in enumerate(np.convolve(counts, counts[::-1]))}
    likely = {count: chance for count, chance in chances.items() if chance > 1e-5}
    alarms, without_rounding = 0.0, 0.0
    for first, second in product(likely, repeat=2):
        chance = likely[first] * likely[second]
        differences = np.array([first, second]) / images
        alarms += chance * mean_estimate(differences, 2 / 12 / images**2).excludes_zero
        without_rounding += chance * mean_estimate(differences).excludes_zero
    assert alarms < 0.05 < without_rounding


def test_equal_differences_of_counts_have_an_interval_with_a_width():
    found = seed_noise("a", [0.70, 0.75], "b", [0.73, 0.78], images=100)
    assert not found.difference.excludes_zero
    assert not found.beyond_noise
    assert found.excess.interval.low < found.excess.value < found.excess.interval.high
    assert seed_noise("a", [0.70, 0.75], "b", [0.20, 0.25], images=100).beyond_noise  # larger than any rounding


def test_sides_that_never_vary():
    found = seed_noise("a", [0.5, 0.5, 0.5], "b", [0.5, 0.5, 0.5])
    assert (found.level, found.excess.value, found.p_value, found.beyond_noise) == (0, 0, 1, False)
