from itertools import combinations

import pytest

from zoolens.training.pairs.explanation.design import choose, folded, full


def letters_word(design, players):
    word = 0
    for player in players:
        word ^= design.words[player]
    return word


def test_a_full_design_has_every_cell_once():
    assert sorted(full(4).cells) == list(range(16))
    assert full(4).full
    assert all(len(chain) == 1 for chain in full(4).chains())
    assert full(4).mixed_into(0) == []


@pytest.mark.parametrize(
    ("players", "cells"), [(1, 2), (2, 4), (3, 8), (4, 8), (5, 16), (6, 16), (7, 16), (8, 16), (9, 32), (11, 32)]
)
def test_a_folded_design_is_of_resolution_four_and_holds_both_sides(players, cells):
    design = folded(players)
    assert len(set(design.cells)) == len(design.cells) == cells
    assert {0, (1 << players) - 1} <= set(design.cells)
    for cell in design.cells:
        assert (1 << players) - 1 - cell in design.cells  # folded over
    for size in (1, 2, 3):
        assert all(letters_word(design, some) for some in combinations(range(players), size))
    for one in range(players):  # balanced, and so is every pair
        assert sum(cell >> one & 1 for cell in design.cells) == cells // 2
        for other in range(one):
            assert sum(cell >> one & cell >> other & 1 for cell in design.cells) == cells // 4


def test_what_cannot_be_told_apart_is_named():
    design = folded(8)
    assert not design.full
    assert {pair for chain in design.chains() for pair in chain} == set(combinations(range(8), 2))
    assert all(len(chain) == 4 for chain in design.chains())
    assert len(design.mixed_into(0)) == 7
    for trio in design.mixed_into(3):
        assert letters_word(design, trio) == design.words[3]


def test_the_usual_choice():
    assert choose(5).full
    assert not choose(6).full
    assert len(choose(6, "full").cells) == 64
    assert not choose(4, "folded").full
