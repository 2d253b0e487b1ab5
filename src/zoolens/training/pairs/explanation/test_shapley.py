from itertools import combinations, permutations

import numpy as np
import pytest

from zoolens.training.pairs.explanation.design import folded, full
from zoolens.training.pairs.explanation.shapley import interactions, shapley_weights, shares

NAMES = ("p", "q", "r", "s", "t", "u", "v")


def played(design, game, seeds=3, noise=0.0):
    """Seeds × cells of a game from a set of players to a number."""
    values = [game(frozenset(p for p in range(design.players) if cell >> p & 1)) for cell in design.cells]
    drawn = np.random.default_rng(0).normal(0, noise, (seeds, len(values))) if noise else 0.0
    return np.tile(np.array(values, float), (seeds, 1)) + drawn


def by_orders(players, game):
    """Shapley values by their definition: what each one adds, over all orders of arrival."""
    total = np.zeros(players)
    orders = list(permutations(range(players)))
    for order in orders:
        here = frozenset()
        for one in order:
            total[one] += game(here | {one}) - game(here)
            here = here | {one}
    return total / len(orders)


def glove(players):
    """One left glove (0), two right ones: a pair is worth 1. The known values are 2/3, 1/6, 1/6."""
    return float(0 in players and len(players & {1, 2}) > 0)


def test_the_glove_game():
    found, left = shares(full(3), NAMES[:3], played(full(3), glove))
    assert [one.points.value for one in found] == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    assert [one.share.value for one in found] == pytest.approx([2 / 3, 1 / 6, 1 / 6])
    assert left is None


@pytest.mark.parametrize("players", [1, 2, 4, 5])
def test_a_full_design_gives_the_shapley_values(players):
    worth = np.random.default_rng(players).normal(size=1 << players)

    def game(some):
        return worth[sum(1 << one for one in some)]

    found, _ = shares(full(players), NAMES[:players], played(full(players), game))
    points = [one.points.value for one in found]
    assert points == pytest.approx(by_orders(players, game))
    assert sum(points) == pytest.approx(worth[-1] - worth[0])


@pytest.mark.parametrize("players", [6, 7])
def test_a_folded_design_is_right_where_no_three_interact(players):
    generator = np.random.default_rng(1)
    alone, together = generator.normal(size=players), np.triu(generator.normal(size=(players, players)), 1)

    def game(some):
        return sum(alone[one] for one in some) + sum(together[pair] for pair in combinations(sorted(some), 2))

    found, left = shares(folded(players), NAMES[:players], played(folded(players), game))
    halves = (together + together.T) * (1 - np.eye(players)) / 2
    expected = alone + halves.sum(axis=1)
    assert [one.points.value for one in found] == pytest.approx(expected)
    assert left.points.value == pytest.approx(0, abs=1e-12)


def test_a_folded_design_says_what_it_cannot_assign():
    found, left = shares(folded(6), NAMES[:6], played(folded(6), lambda some: float(len(some) == 6)))
    assert sum(one.points.value for one in found) + left.points.value == pytest.approx(1)
    assert abs(left.points.value) > 0.1


def test_a_folded_design_that_is_full_of_players_leaves_nothing():
    names = (*NAMES, "w")
    found, left = shares(folded(8), names, played(folded(8), lambda some: float(len(some) >= 3)))
    assert sum(one.points.value for one in found) == pytest.approx(1)
    assert left is None


def test_a_player_without_effect_has_no_share():
    design = full(3)
    weights = shapley_weights(design)
    table = played(design, lambda some: 0.5 * (0 in some) + 0.2 * (0 in some and 1 in some))
    assert (table @ weights.T)[0] == pytest.approx([0.6, 0.1, 0.0])


def test_interactions_are_found_and_named():
    design = full(3)
    found = interactions(
        design, NAMES[:3], played(design, lambda some: 0.3 * ({0, 2} <= some) + 0.1 * (1 in some), noise=1e-4)
    )
    assert found[0].pairs == (("p", "r"),)
    assert found[0].points.value == pytest.approx(0.3, abs=1e-3)
    assert found[0].points.excludes_zero
    assert abs(found[1].points.value) < 1e-3
    chained = interactions(folded(6), NAMES[:6], played(folded(6), lambda some: 0.3 * ({0, 2} <= some)))
    assert ("p", "r") in chained[0].pairs
    assert len(chained[0].pairs) > 1
    assert chained[0].points.value == pytest.approx(0.3)


def test_equal_seeds_leave_the_rounding_of_their_counts():
    """Two seeds that gave the same accuracies: each is a count of 100 images, and its share is known no better."""
    design = full(2)
    table = played(design, lambda some: 0.5 + 0.3 * (0 in some) + 0.01 * (1 in some), seeds=2)
    (large, small), _ = shares(design, NAMES[:2], table, 100)
    assert large.points.excludes_zero
    assert not small.points.excludes_zero
    half = 12.706 * np.sqrt(4 * 0.25 / 12 / 2) / 100  # four cells with weights of ±1/2
    assert tuple(small.points.interval) == pytest.approx((0.01 - half, 0.01 + half), abs=1e-5)
    assert small.share.interval.low < 0 < small.share.interval.high
    [together] = interactions(design, NAMES[:2], table, 100)
    assert together.points.interval.high - together.points.interval.low == pytest.approx(4 * half, abs=1e-4)


def test_the_share_of_the_only_player_is_all_of_the_gap_however_coarse_the_counts():
    [only], _ = shares(full(1), NAMES[:1], played(full(1), lambda some: 0.4 * len(some), seeds=2), 100)
    assert tuple(only.share.interval) == pytest.approx((1, 1))
