import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.statistics.seeds import seed_noise
from zoolens.training.crosstrain.study.noise import noise_of
from zoolens.training.crosstrain.training.trials import TrainedSide, Trial
from zoolens.training.pairs.explanation.noise_words import lines, signed


def test_noise_is_told_from_difference():
    found = seed_noise("torch", [0.80, 0.82, 0.81, 0.79, 0.83, 0.80], "jax", [0.60, 0.61, 0.63, 0.58, 0.62, 0.60])
    assert found.difference.value == pytest.approx(-0.201666, abs=1e-5)
    assert found.p_value == pytest.approx(2 / 64)
    assert found.beyond_noise
    differences = np.subtract(found.accuracies_b, found.accuracies_a)
    assert found.level == pytest.approx(np.sqrt(2 / np.pi) * differences.std(ddof=1))
    assert found.excess.value == pytest.approx(0.201666 - found.level, abs=1e-5)
    assert found.excess.excludes_zero
    assert any("exact: p = 0.031, the least that 6 seeds can give)" in line for line in lines(found))


def test_one_seed_says_nothing_of_noise():
    found = seed_noise("a", [0.5], "b", [0.7])
    assert found.beyond_noise is found.level is found.excess is None
    assert "differ on these images" in lines(found)[1]


def trial(number, a, b):
    return Trial(str(number), {}, (TrainedSide("torch", accuracy=a), TrainedSide("jax", accuracy=b)))


def test_noise_of_trials_skips_seeds_without_both():
    found = noise_of([trial(0, 0.5, 0.7), trial(1, None, 0.7), trial(2, 0.6, 0.7)], "torch", "jax")
    assert found.accuracies_a == (0.5, 0.6)
    lost = Trial("3", {}, (TrainedSide("torch", "non-finite", accuracy=0.1), TrainedSide("jax", accuracy=0.7)))
    assert noise_of([trial(0, 0.5, 0.7), lost], "torch", "jax").accuracies_a == (0.5,)
    with pytest.raises(ZoolensError, match="both torch and jax"):
        noise_of([trial(1, None, 0.7)], "torch", "jax")


def test_trials_that_say_on_how_many_images_have_an_interval_with_a_width():
    trials = [
        Trial(seed, {}, (TrainedSide("torch", accuracy=a, total=100), TrainedSide("jax", accuracy=a + 0.03, total=100)))
        for seed, a in (("0", 0.70), ("1", 0.75))
    ]
    assert noise_of(trials, "torch", "jax").beyond_noise is False


def test_equal_small_differences_are_not_beyond_the_seeds_own_spread():
    found = seed_noise("a", [0.70, 0.75], "b", [0.701, 0.751])
    assert found.difference.excludes_zero
    assert found.beyond_noise is False
    assert lines(found)[-1].endswith("The sides may differ, by less than two seeds of the same side do.")
    assert seed_noise("a", [0.70, 0.75], "b", [0.20, 0.25]).beyond_noise


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ([0.50, 0.52, 0.51, 0.50], "The sides differ if their differences are normally distributed"),
        ([0.70, 0.60, 0.78, 0.55], "Seeds alone may explain the difference"),
        ([0.60, 0.45, 0.65, 0.50], "that it is more than noise is not certain with 4 seeds"),
    ],
)
def test_four_seeds_are_not_said_to_show_more_than_they_can(theirs, words):
    found = seed_noise("a", [0.80, 0.79, 0.81, 0.80], "b", theirs)
    assert found.p_value >= found.least_p == 0.125
    assert words in lines(found)[-1]
    assert "The sides differ." not in lines(found)[-1]


def test_the_sides_differ_only_where_every_figure_beside_it_says_so():
    found = seed_noise("a", [0.80, 0.82, 0.81, 0.79, 0.83, 0.80], "b", [0.60, 0.61, 0.63, 0.58, 0.62, 0.60])
    assert found.p_value < 0.05
    assert found.difference.excludes_zero
    assert found.excess.excludes_zero
    assert lines(found)[-1].endswith("The sides differ.")


def test_equal_differences_of_which_the_rounding_is_not_known_have_no_interval():
    found = seed_noise("a", [0.5, 0.625], "b", [0.25, 0.375])
    assert signed(found.difference) == "-25.00 points (no spread, so no interval)"
    assert "[" in signed(seed_noise("a", [0.5, 0.625], "b", [0.25, 0.375], images=100).difference)
