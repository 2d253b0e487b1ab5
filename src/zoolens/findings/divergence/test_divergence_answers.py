"""Answers that are names of something, such as the class of each pixel, have no distance from each other."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from zoolens.base.numerics.deviation import Deviation
from zoolens.findings.divergence.divergence_answers import AnswerPair, AnswerPairs, _row
from zoolens.findings.divergence.divergence_words import lines
from zoolens.findings.divergence.test_result import divergence
from zoolens.inventory.runtimes.runtime import TensorSpec


def side(task, kind="int64", scale=None):
    return SimpleNamespace(
        job=SimpleNamespace(manifest=SimpleNamespace(task=task)),
        watched=TensorSpec("out", (1, 4), kind, scale=scale, zero_point=None if scale is None else 0),
        real_answer=lambda answer: np.asarray(answer, np.float64).reshape(-1),
    )


def row(one, numbers, others, kind="int64"):
    arrays = (np.array([values], kind) for values in (numbers, others))
    return _row(one, one, (0, "image", -1), *arrays, "raw outputs")


def test_classes_of_pixels_differ_or_do_not():
    found = row(side("segmentation"), [15, 0, 0, 1], [14, 0, 0, 1])
    assert (found.flips, found.differing) == (True, 0.25)
    assert row(side("segmentation"), [15, 0, 0, 1], [15, 0, 0, 1]).flips is False
    # 15 and 14 are as near to each other as 15 and 1: the sentences name no distance.
    made = divergence(answers=AnswerPairs((found,), "raw outputs", discrete=False))
    told = " ".join(lines(made))
    assert "1 of 1 inputs are answered differently (in at least one whole number)" in told
    assert "whole numbers, such as classes, of which up to 25.00 % differ on an input" in told
    assert "image: 25.00 % of its numbers differ" in told
    assert "relative" not in told


def test_the_input_with_other_tokens_is_not_the_one_without_numbers():
    broken = AnswerPair(0, "first", -1, -1, -1, math.inf, Deviation(math.inf, "not finite"), True)
    longer = AnswerPair(1, "second", -1, -1, -1, math.inf, Deviation(math.inf, "shape"), True)
    found = AnswerPairs((broken, longer), "raw outputs")
    assert found.other_shapes
    assert found.first_of_other_shape == 1


@pytest.mark.parametrize("one", [side("segmentation", "uint8", 0.5), side("regression"), side("other")])
def test_quantised_scores_and_quantities_have_a_distance(one):
    found = row(one, [100, 100], [100, 101], "uint8" if one.watched.quantised else "int64")
    assert found.differing is None
    assert found.deviation.error == pytest.approx(1 / np.sqrt(20_000), rel=0.1)
