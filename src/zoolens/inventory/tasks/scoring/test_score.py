"""Scores say why they are undefined, and weights repeat inputs."""

import math

import numpy as np
import pytest

from zoolens.inventory.tasks.scoring.score import (
    Score,
    checked_weights,
    mean_of_scores,
    ratio,
    undefined,
    weighted_mean,
)


def test_a_ratio_without_a_denominator_is_undefined():
    assert ratio(1, 4, "") == Score(0.25)
    nothing = ratio(0, 0, "There is nothing.")
    assert (nothing.defined, nothing.reason) == (False, "There is nothing.")


def test_the_mean_of_scores_says_how_many_were_used():
    mean = mean_of_scores([Score(0.5), undefined("no class"), Score(1.0)])
    assert (mean.value, mean.used, mean.total) == (0.75, 2, 3)
    nothing = mean_of_scores([undefined("no class")])
    assert (math.isnan(nothing.value), nothing.used, nothing.reason) == (True, 0, "no class")
    assert mean_of_scores([]).reason == "There are no classes."


def test_the_weighted_mean_is_that_of_repeated_inputs():
    mean = weighted_mean([1.0, math.nan, 0.0, 5.0], [3, 2, 1, 0], "")
    assert (mean.value, mean.used, mean.total) == (0.75, 4, 6)
    assert weighted_mean([math.nan], None, "why").reason == "why"
    assert weighted_mean([], None, "why").reason == "There are no inputs."
    assert weighted_mean([1.0], [0], "why").reason == "There are no inputs."


@pytest.mark.parametrize("weights", [[1, 2], [[1, 2, 3]], [1, -1, 1], [0.5, 1, 1]])
def test_weights_are_integers_one_an_input(weights):
    with pytest.raises(ValueError, match="Weights must"):
        checked_weights(weights, 3)
    assert checked_weights(np.array([1, 0, 2], np.uint8), 3).dtype == np.int64
