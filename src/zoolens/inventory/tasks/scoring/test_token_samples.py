"""Samples of unlikely tokens: estimates are right on average, exact for equal models, and their limits hold."""

import numpy as np
import pytest

from zoolens.inventory.tasks.scoring.next_tokens import compare_tokens, kept_tokens
from zoolens.inventory.tasks.scoring.token_samples import (
    SPACING,
    _drawn,
    limits_of_mean,
    position_seeds,
    sampled_limits,
    text_seed,
)

VOCABULARY = 2000


def seeds_of(texts, positions):
    return position_seeds(np.array([text_seed(f"text {n}") for n in range(texts)]), np.full(texts, positions))


def chances(scores):
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def pair(seed, positions, noise, spread=2.0):
    random = np.random.default_rng(seed)
    first = spread * random.normal(size=(positions, VOCABULARY))
    return first, first + noise * random.normal(size=first.shape)


def compared(sides, seeds, top=20):
    following = np.zeros(len(seeds), np.int64)
    return compare_tokens(*(kept_tokens(side, following, top, seeds=seeds) for side in sides), seeds)


def true_variation(sides):
    p, q = map(chances, sides)
    return 0.5 * np.abs(p - q).sum(axis=1)


def test_drawn_numbers_are_uniform_and_tokens_and_positions_have_their_own():
    drawn = _drawn(seeds_of(50, 2)[:, None], np.arange(VOCABULARY, dtype=np.uint32)[None]) / 2.0**32
    assert drawn.min() > 0
    assert drawn.max() < 1
    counts = np.histogram(drawn, bins=100, range=(0, 1))[0]
    expected = drawn.size / 100
    assert ((counts - expected) ** 2 / expected).sum() < 160  # chi-squared of 99 degrees: one in 10,000 is above
    for between in (drawn[:, 1:] - drawn[:, :-1], drawn[1:] - drawn[:-1]):
        # The difference of two independent uniform numbers has a variance of 1/6.
        assert np.var(between) == pytest.approx(1 / 6, rel=0.02)
    centred = drawn - 0.5
    assert abs(np.mean(centred[:, 1:] * centred[:, :-1])) < 4 / 12 / np.sqrt(drawn.size)
    assert abs(np.mean(centred[1:] * centred[:-1])) < 4 / 12 / np.sqrt(drawn.size)


def test_numbers_are_the_same_in_all_versions_and_on_all_machines():
    """Runs of today are compared with those of later years."""
    assert text_seed("The lighthouse") == 4497560641609577034
    seeds = position_seeds(np.array([5, 7]), np.array([2, 1]))
    assert seeds.tolist() == [13877614986023876344, 7134611160154358618, 7191089600892374487]
    drawn = _drawn(seeds, np.array([0, 1, 49_151], np.uint32))
    assert drawn.tolist() == [3991718143, 3002472585, 3096680490]


def test_positions_count_from_the_end():
    """A model with a token for the beginning foresees the first token of a text too, and the others are the same."""
    longer, shorter = (position_seeds(np.array([9]), np.array([count])) for count in (6, 5))
    np.testing.assert_array_equal(longer[1:], shorter)


def test_what_is_kept_are_the_tokens_above_their_drawn_numbers():
    (scores, _), seeds = pair(0, 7, 0.0), seeds_of(1, 7)
    kept = kept_tokens(scores, np.zeros(7, np.int64), 5, seeds=seeds)
    p = chances(scores)
    drawn = _drawn(seeds[:, None], np.arange(VOCABULARY, dtype=np.uint32)[None]) / 2.0**32
    wanted = p >= drawn * SPACING
    np.put_along_axis(wanted, kept.ids.astype(np.int64), values=False, axis=1)
    rows, ids = np.nonzero(wanted)
    np.testing.assert_array_equal(kept.sample.counts, np.bincount(rows, minlength=7))
    np.testing.assert_array_equal(kept.sample.ids, ids)
    np.testing.assert_allclose(kept.sample.logs, np.log(p)[rows, ids], atol=1e-5)


def test_a_sample_has_no_more_tokens_than_its_spacing_allows_on_average():
    seeds = seeds_of(20, 20)
    kept = kept_tokens(np.zeros((400, VOCABULARY)), np.zeros(400, np.int64), 20, seeds=seeds)
    assert kept.sample.counts.mean() == pytest.approx((1 - 20 / VOCABULARY) / SPACING, rel=0.03)


def test_equal_models_have_no_estimate_of_a_difference():
    scores, _ = pair(1, 30, 0.0)
    known, rest = compared((scores, scores.copy()), seeds_of(3, 10)).sampled
    assert not known.any()
    assert not rest.any()


@pytest.mark.parametrize("noise", [0.05, 0.3, 2.0])
def test_estimates_are_the_total_variation_on_average(noise):
    sides = pair(2, 1, noise)
    repeated = tuple(np.repeat(side, 600, axis=0) for side in sides)
    known, rest = compared(repeated, seeds_of(600, 1)).sampled
    found, wanted = known + rest, true_variation(sides)[0]
    assert found.mean() == pytest.approx(wanted, abs=4 * found.std() / np.sqrt(len(found)))
    assert rest.std() > 0


def test_equal_models_of_which_more_and_fewer_tokens_were_kept_do_not_differ():
    """One decides by float64 what it draws, and the other's logarithms were rounded to float32."""
    scores, _ = pair(0, 3000, 0.0, spread=1.0)
    seeds, following = seeds_of(3000, 1), np.zeros(3000, np.int64)
    few, many = (kept_tokens(scores, following, top, seeds=seeds) for top in (20, 100))
    assert not compare_tokens(few, many, seeds).sampled[1].any()


def test_one_model_that_knows_nothing_of_the_likely_tokens_of_the_other():
    """Where the two have nothing in common, the total variation is 1."""
    scores = np.full((2, 200, VOCABULARY), -60.0)
    scores[0, :, :40] = scores[1, :, 500:900] = 0.0
    known, rest = compared(tuple(scores), seeds_of(200, 1)).sampled
    assert not known.any()
    assert rest.mean() == pytest.approx(1.0, abs=0.03)


def test_tokens_of_a_model_that_keeps_more_of_them_are_compared_alike():
    sides, seeds = pair(3, 300, 0.3), seeds_of(300, 1)
    following = np.zeros(300, np.int64)
    first, second = (kept_tokens(side, following, top, seeds=seeds) for side, top in zip(sides, (5, 40), strict=True))
    found = [sum(compare_tokens(*each, seeds).sampled) for each in ((first, second), (second, first))]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    assert found[0].mean() == pytest.approx(true_variation(sides).mean(), rel=0.05)


@pytest.mark.parametrize("noise", [0.02, 0.3, 2.0])
def test_limits_hold_and_are_near(noise):
    texts, positions = 400, 5
    sides = pair(4, positions, noise)
    repeated = tuple(np.tile(side, (texts, 1)) for side in sides)
    known, rest = (
        each.reshape(texts, positions).mean(axis=1) for each in compared(repeated, seeds_of(texts, positions)).sampled
    )
    low, high = sampled_limits(rest, np.full(texts, 1 / positions))
    true = true_variation(sides).mean()
    assert (known + low <= true + 1e-6).all()
    assert (true <= known + high + 1e-6).all()
    # Of all texts together the limits are nearer by the square root of their number, or more.
    low, high = sampled_limits(rest.mean(), np.array(1 / positions / texts))
    assert known.mean() + low <= true + 1e-6 <= known.mean() + high + 2e-6
    assert high - low < 0.06


def test_limits_are_wrong_as_rarely_as_they_say():
    """With odds of one in 20 instead of one in a million, so that errors can be counted."""
    texts, positions = 3000, 3
    sides = pair(5, positions, 0.5)
    repeated = tuple(np.tile(side, (texts, 1)) for side in sides)
    known, rest = (
        each.reshape(texts, positions).mean(axis=1) for each in compared(repeated, seeds_of(texts, positions)).sampled
    )
    low, high = sampled_limits(rest, np.full(texts, 1 / positions))
    true = true_variation(sides).mean()
    assert np.mean(known + low > true) <= 0.05
    assert np.mean(known + high < true) <= 0.05


@pytest.mark.parametrize("copies", [1, 450])
def test_copies_of_a_text_count_as_one_text_in_the_limits_of_the_mean(copies, monkeypatch):
    """Copies have the same sample: taken for as many texts, their limits were wrong in half of the cases."""
    monkeypatch.setattr("zoolens.inventory.tasks.scoring.token_samples.ODDS", 10.0)
    positions, wrong = 8, 0
    for draw in range(60):
        sides = pair(draw, 20 * positions, 0.5)
        seeds = np.array([text_seed(f"{draw} {place}") for place in range(20)])
        lengths = np.full(20, positions)
        known, rest = compared(sides, position_seeds(seeds, lengths)).sampled
        often = np.where(np.arange(20) == 0, copies, 1)
        of_texts = [np.repeat(each.reshape(20, positions).mean(axis=1), often) for each in (known, rest)]
        low, high = limits_of_mean(of_texts[1], np.repeat(lengths, often), np.repeat(seeds, often))
        true = np.repeat(true_variation(sides).reshape(20, positions).mean(axis=1), often).mean()
        wrong += not low <= true - of_texts[0].mean() <= high
    assert wrong <= 12  # two sides of one in ten; limits are wider than they need be


def test_a_short_text_does_not_make_the_mean_uncertain():
    estimates, lengths, seeds = np.full(40, 0.01), np.full(40, 100), np.arange(40)
    low, high = limits_of_mean(estimates, lengths, seeds)
    for length, wider in ((0, 1.3), (1, 7)):  # of the text of one token, a 40th of the mean, next to nothing is known
        shorter = lengths.copy()
        shorter[3] = length
        other_low, other_high = limits_of_mean(np.where(shorter > 0, estimates, 0.0), shorter, seeds)
        assert other_high - other_low < wider * (high - low)
