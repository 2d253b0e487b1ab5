"""Tokens are drawn as often as their probabilities say, and the same again with the same seed."""

import numpy as np
import pytest

from zoolens.faces.serving.contracts.language import Sampling
from zoolens.faces.serving.language.token_choice import TokenChoice

CHANCES = np.array([0.05, 0.4, 0.0, 0.3, 0.05, 0.2])
with np.errstate(divide="ignore"):
    LOGARITHMS = np.log(CHANCES)


def counts(how, draws=4000):
    choice = TokenChoice(how)
    return np.bincount([choice.choose(LOGARITHMS) for _ in range(draws)], minlength=len(CHANCES))


def check(found, expected):
    """Within five standard deviations, and never what is impossible."""
    draws = found.sum()
    assert (found[expected == 0] == 0).all()
    np.testing.assert_array_less(
        np.abs(found - draws * expected), 5 * np.sqrt(draws * expected * (1 - expected)) + 1e-9
    )


def test_tokens_are_drawn_by_their_probabilities():
    check(counts(Sampling(seed=1)), CHANCES)
    check(counts(Sampling(temperature=5e-324, seed=1), 50), np.eye(len(CHANCES))[1])
    squared = CHANCES**2 / (CHANCES**2).sum()
    check(counts(Sampling(temperature=0.5, seed=2)), squared)


@pytest.mark.parametrize(
    ("top_p", "left"), [(0.39, [1]), (0.41, [1, 3]), (0.69, [1, 3]), (0.71, [1, 3, 5]), (0.92, [0, 1, 3, 5])]
)
def test_the_smallest_set_that_reaches_top_p(top_p, left):
    expected = np.zeros(len(CHANCES))
    expected[left] = CHANCES[left] / CHANCES[left].sum()
    check(counts(Sampling(top_p=top_p, seed=3), 1000), expected)


def test_seeds_and_temperature_0():
    def drawn(seed):
        choice = TokenChoice(Sampling(seed=seed))
        return [choice.choose(LOGARITHMS) for _ in range(40)]

    assert drawn(7) == drawn(7) != drawn(8)
    assert drawn(None) != drawn(None)
    ties = np.log(np.array([0.2, 0.4, 0.4]))
    assert {TokenChoice(Sampling(temperature=0)).choose(ties) for _ in range(9)} == {1}
