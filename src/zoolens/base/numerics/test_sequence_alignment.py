from zoolens.base.numerics.sequence_alignment import best_pairs


def test_the_best_alignment_leaves_gaps_late():
    pairs = best_pairs("aab", "aaaab", lambda one, two: float(one == two))
    assert pairs == [("a", "a"), ("a", "a"), (None, "a"), (None, "a"), ("b", "b")]


def test_sequences_too_long_for_one_table_are_aligned_in_pieces(monkeypatch):
    monkeypatch.setattr("zoolens.base.numerics.sequence_alignment.MAX_CELLS", 16)
    pairs = best_pairs("abcdefghij", "abcdefghij", lambda one, two: float(one == two))
    assert pairs == [(one, one) for one in "abcdefghij"]
    assert len(best_pairs("a" * 9, "b" * 9, lambda one, two: float(one == two))) == 18
