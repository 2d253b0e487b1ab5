from itertools import product
from statistics import mean

import numpy as np
import pytest
import scipy.stats

from zoolens.crosstrain.noise import lines, mean_estimate, noise, noise_of, sign_flip, t_quantile
from zoolens.crosstrain.study import Side, Trial
from zoolens.errors import ZoolensError


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


@pytest.mark.parametrize("seed", range(5))
def test_the_sign_flip_test_is_brute_force(seed):
    values = np.random.default_rng(seed).normal(0.5, 1, 6)
    flipped = [abs(mean(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=6)]
    expected = sum(one >= abs(values.mean()) - 1e-12 for one in flipped) / 64
    assert sign_flip(values) == (pytest.approx(expected), True)


def test_the_sign_flip_test_is_that_of_scipy():
    values = np.random.default_rng(1).normal(0.4, 1, 9)
    expected = scipy.stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert sign_flip(values)[0] == pytest.approx(expected)


def test_ties_from_counts_are_not_lost_to_rounding():
    assert sign_flip(np.array([0.1, 0.2, -0.3])) == (1.0, True)
    assert sign_flip(np.array([0.1] * 6)) == (2 / 64, True)


def test_many_seeds_are_flipped_at_random():
    generator = np.random.default_rng(0)
    p_value, exact = sign_flip(generator.normal(0, 1, 30))
    assert not exact
    assert 0 < p_value <= 1
    assert sign_flip(generator.normal(3, 1, 30))[0] < 0.001


def test_noise_is_told_from_difference():
    found = noise("torch", [0.80, 0.82, 0.81, 0.79, 0.83, 0.80], "jax", [0.60, 0.61, 0.63, 0.58, 0.62, 0.60])
    assert found.difference.value == pytest.approx(-0.201666, abs=1e-5)
    assert found.p_value == pytest.approx(2 / 64)
    assert found.beyond_noise
    differences = np.subtract(found.accuracies_b, found.accuracies_a)
    assert found.level == pytest.approx(np.sqrt(2 / np.pi) * differences.std(ddof=1))
    assert found.excess.value == pytest.approx(0.201666 - found.level, abs=1e-5)
    assert found.excess.excludes_zero
    assert any("exact: p = 0.031, the least that 6 seeds can give)" in line for line in lines(found))


def test_the_level_is_what_equal_sides_show_and_their_excess_is_within_noise():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(0.8, 0.02, (2, 4000))
    found = noise("a", ours, "b", theirs)
    assert found.level == pytest.approx(np.abs(ours - theirs).mean(), rel=0.03)


@pytest.mark.parametrize("shared", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seeds", [2, 4, 8])
@pytest.mark.parametrize("gap", [0.0, 0.01, 0.1])
def test_the_excess_interval_covers_also_where_sides_share_their_weights(shared, seeds, gap):
    """`shared`: the correlation of the sides' accuracies over the seeds."""
    generator = np.random.default_rng(1)
    level = np.sqrt(2 / np.pi * 2 * (1 - shared)) * 0.02
    covered = []
    for _ in range(300):
        common, one, other = generator.normal(0, 0.02, (3, seeds))
        ours, theirs = (np.sqrt(shared) * common + np.sqrt(1 - shared) * own for own in (one, other))
        covered.append(noise("a", 0.8 + ours, "b", 0.8 - gap + theirs).excess.interval.contains(gap - level))
    assert np.mean(covered) > 0.91  # 95 % less three standard errors of 300 draws


def test_the_level_knows_what_the_sides_of_a_seed_have_in_common():
    generator = np.random.default_rng(0)
    common, one, other = generator.normal(0, [[0.02], [0.002], [0.002]], (3, 4000))
    found = noise("a", 0.8 + common + one, "b", 0.8 + common + other)
    assert found.level == pytest.approx(np.abs(one - other).mean(), rel=0.03)


def test_sides_that_never_vary():
    found = noise("a", [0.5, 0.5, 0.5], "b", [0.5, 0.5, 0.5])
    assert (found.level, found.excess.value, found.p_value, found.beyond_noise) == (0, 0, 1, False)


def test_one_seed_says_nothing_of_noise():
    found = noise("a", [0.5], "b", [0.7])
    assert found.beyond_noise is found.level is found.excess is None
    assert "differ on these images" in lines(found)[1]


def trial(number, a, b):
    return Trial(str(number), {}, (Side("torch", accuracy=a), Side("jax", accuracy=b)))


def test_noise_of_trials_skips_seeds_without_both():
    found = noise_of([trial(0, 0.5, 0.7), trial(1, None, 0.7), trial(2, 0.6, 0.7)], "torch", "jax")
    assert found.accuracies_a == (0.5, 0.6)
    with pytest.raises(ZoolensError, match="both torch and jax"):
        noise_of([trial(1, None, 0.7)], "torch", "jax")


def test_equal_small_differences_are_not_beyond_the_seeds_own_spread():
    found = noise("a", [0.70, 0.75], "b", [0.701, 0.751])
    assert found.difference.excludes_zero
    assert found.beyond_noise is False
    assert lines(found)[-1].endswith("The sides may differ, by less than two seeds of the same side do.")
    assert noise("a", [0.70, 0.75], "b", [0.20, 0.25]).beyond_noise


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ([0.50, 0.52, 0.51, 0.50], "The sides differ if their differences are normally distributed"),
        ([0.70, 0.60, 0.78, 0.55], "Seeds alone may explain the difference"),
        ([0.60, 0.45, 0.65, 0.50], "that it is more than noise is not certain with 4 seeds"),
    ],
)
def test_four_seeds_are_not_said_to_show_more_than_they_can(theirs, words):
    found = noise("a", [0.80, 0.79, 0.81, 0.80], "b", theirs)
    assert found.p_value >= found.least_p == 0.125
    assert words in lines(found)[-1]
    assert "The sides differ." not in lines(found)[-1]


def test_the_sides_differ_only_where_every_figure_beside_it_says_so():
    found = noise("a", [0.80, 0.82, 0.81, 0.79, 0.83, 0.80], "b", [0.60, 0.61, 0.63, 0.58, 0.62, 0.60])
    assert found.p_value < 0.05
    assert found.difference.excludes_zero
    assert found.excess.excludes_zero
    assert lines(found)[-1].endswith("The sides differ.")
