import numpy as np

from zoolens.base.numerics.sequence_alignment import best_pairs, common_beginning


def test_a_common_beginning_ends_at_the_first_other_item_or_with_the_shorter_one():
    def length(a, b):
        return common_beginning(np.array(a), np.array(b))

    assert length([1, 2, 3], [1, 2, 4, 5]) == length([1, 2], [1, 2, 3]) == 2
    assert length([], [1]) == length([2], [1]) == 0


def test_the_best_alignment_leaves_gaps_late():
    pairs = best_pairs("aab", "aaaab", lambda one, two: float(one == two))
    assert pairs == [("a", "a"), ("a", "a"), (None, "a"), (None, "a"), ("b", "b")]


def test_sequences_too_long_for_one_table_are_aligned_in_pieces(monkeypatch):
    monkeypatch.setattr("zoolens.base.numerics.sequence_alignment.MAX_CELLS", 16)
    pairs = best_pairs("abcdefghij", "abcdefghij", lambda one, two: float(one == two))
    assert pairs == [(one, one) for one in "abcdefghij"]
    assert len(best_pairs("a" * 9, "b" * 9, lambda one, two: float(one == two))) == 18
