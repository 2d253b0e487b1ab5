"""The test of drawn texts: its error, its power, and how often its interval holds the distance, by simulation."""

import numpy as np
import pytest

from zoolens.findings.comparisons.wording import sample_words
from zoolens.inventory.tasks.scoring.sample_tests import ENDED, ERROR, sample_figures

TOKENS, DRAWS, PROMPTS = 6, 4, 10


def drawn(random, chances):
    """Draws of every prompt from distributions over tokens (prompts × vocabulary), the same at each position."""
    return [random.choice(len(row), (DRAWS, TOKENS), p=row) for row in chances]


def mixed(chances, share):
    """Distributions of which a share moves to the last token."""
    last = np.eye(chances.shape[1])[-1]
    return (1 - share) * chances + share * last


def test_equal_models_are_told_apart_no_more_often_than_stated():
    random = np.random.default_rng(0)
    found = []
    for _ in range(60):
        chances = random.dirichlet(np.ones(5), PROMPTS)
        found.append(sample_figures(drawn(random, chances), drawn(random, chances)).p_value <= ERROR)
    # Of 60 such tests 10 or more err once in 1,300 times.
    assert sum(found) < 10


def test_other_models_are_found_and_the_interval_holds_their_distance():
    random = np.random.default_rng(1)
    covered, different = [], []
    for _ in range(40):
        chances = random.dirichlet(np.ones(5), PROMPTS)
        others = mixed(chances, 0.5)
        result = sample_figures(drawn(random, chances), drawn(random, others))
        # Of many prompts: the mean over Dirichlet's, of the squared distance of the two distributions of a token.
        covered.append(result.interval.contains(0.25 * (2 / 6 - 2 / 5 + 1)))
        different.append(result.same is False)
    assert np.mean(covered) >= 0.95
    assert np.mean(different) > 0.95


def test_the_estimate_has_no_bias():
    random = np.random.default_rng(2)
    estimates = []
    for _ in range(120):
        chances = np.tile([0.5, 0.3, 0.2], (PROMPTS, 1))
        others = np.tile([0.2, 0.3, 0.5], (PROMPTS, 1))
        estimates.append(sample_figures(drawn(random, chances), drawn(random, others)).distance)
    assert np.mean(estimates) == pytest.approx(0.18, abs=4 * np.std(estimates) / np.sqrt(120))


def test_texts_that_are_always_the_same_are_the_same_once_prompts_suffice():
    alike = [np.zeros((DRAWS, TOKENS), int)] * 600
    assert sample_figures(alike, alike).same is True
    assert sample_figures(alike[:5], alike[:5]).same is None


def test_too_few_draws_tell_nothing():
    one = [np.zeros((1, TOKENS), int)]
    assert sample_figures(one, one) is None
    assert sample_figures([np.zeros((0, TOKENS), int)], [np.zeros((0, TOKENS), int)]) is None


def test_draws_of_other_lengths_are_not_compared():
    one, other = ([np.zeros((DRAWS, tokens), int)] for tokens in (TOKENS, TOKENS + 1))
    assert sample_figures(one, other) is None


def test_places_behind_all_ends_do_not_make_models_alike():
    random = np.random.default_rng(3)
    chances = random.dirichlet(np.ones(5), PROMPTS)
    ours, theirs = (drawn(random, chances) for _ in range(2))
    longer = [[np.pad(draws, ((0, 0), (0, 90)), constant_values=ENDED) for draws in side] for side in (ours, theirs)]
    assert sample_figures(*longer) == sample_figures(ours, theirs)
    empty = [np.full((DRAWS, TOKENS), ENDED)]
    assert sample_figures(empty, empty).distance == 0


def test_the_same_random_numbers_are_no_evidence():
    chances = np.tile([0.4, 0.6], (600, 1))
    ours = drawn(np.random.default_rng(4), chances)
    found = sample_figures(ours, ours)
    assert (found.repeated, found.same) == (True, None)
    assert "tells nothing of the models" in sample_words(found)
    theirs = drawn(np.random.default_rng(5), chances)
    assert not sample_figures(ours, theirs).repeated
    assert "position by position: " in sample_words(sample_figures(ours, theirs))
