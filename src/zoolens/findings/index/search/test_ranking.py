"""Every answer against brute force: the same rows, in the same order, whatever way the search takes."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import UnknownName
from zoolens.findings.index.search import buckets, range_filter
from zoolens.findings.index.search import prepared_search as search
from zoolens.findings.index.search.ranking import Ranking
from zoolens.findings.index.search.search_columns import Range, given_columns

NAMES = ("params", "latency", "memory")
figures = st.sampled_from([nan, inf, -inf, 0.0, -0.0, 1.0, 2.0, 0.1, 1e300, 16777217.0]) | st.floats()


def brute_force(values, score, ranges, limit, floor, admit, descending):
    keep = ~np.isnan(score) & (score >= floor)
    for one in ranges:
        column = values[one.column]
        keep &= (column > one.low) if one.open_low else (column >= one.low)
        keep &= (column < one.high) if one.open_high else (column <= one.high)
    if admit is not None:
        keep &= admit
    best_first = sorted(np.flatnonzero(keep), key=lambda row: (-score[row] if descending else score[row], row))
    return best_first[: max(limit, 0)], int(keep.sum())


def check(values, score, ranges, limit, floor=-inf, admit=None, descending=True):
    ranking = Ranking(given_columns(values), score, descending)
    expected, count = brute_force(values, score, ranges, limit, floor, admit, descending)
    found = ranking.top(ranges, limit, floor=floor, admit=admit)
    assert found.dtype == np.int64
    assert found.tolist() == expected
    assert ranking.count(ranges, floor=floor, admit=admit) == count


@st.composite
def ranges_over(draw, names=NAMES):
    return Range(draw(st.sampled_from(names)), draw(figures), draw(figures), draw(st.booleans()), draw(st.booleans()))


@st.composite
def small_tables(draw):
    rows = draw(st.integers(0, 40))
    column = st.lists(figures, min_size=rows, max_size=rows).map(lambda some: np.array(some, np.float64))
    values = {name: draw(column) for name in NAMES}
    admit = draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows).map(np.array))
    return values, draw(column), None if admit is None else admit.astype(bool)


@given(small_tables(), st.lists(ranges_over(), max_size=4), st.integers(-1, 50), figures, st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_small_table(table, ranges, limit, floor, descending):
    values, score, admit = table
    check(values, score, ranges, limit, floor, admit, descending)


def large_table(seed, rows, levels, unknown):
    """Columns that are continuous, tied, or follow the score; `levels` 0: continuous."""
    random = np.random.default_rng(seed)
    score = random.random(rows)
    values = {
        "params": random.random(rows),
        "latency": 1 - score + random.normal(0, 0.05, rows),
        "memory": np.exp(random.normal(0, 3, rows)),
    }
    if levels:
        values = {name: np.round(some * levels) for name, some in values.items()}
        score = np.round(score * levels) / levels
    for some in (*values.values(), score):
        some[random.random(rows) < unknown] = nan
    return random, values, score


def random_ranges(random, values):
    """Ends are often figures that occur, where open and closed differ."""
    chosen = []
    for name in random.permutation(NAMES)[: random.integers(0, 4)]:
        low, high = np.sort(random.choice(values[name], 2))
        low, high = (low, inf) if random.random() < 0.3 else (-inf, high) if random.random() < 0.6 else (low, high)
        chosen.append(Range(str(name), float(low), float(high), bool(random.integers(2)), bool(random.integers(2))))
    return chosen


def check_large(seed, rows, levels, unknown):
    random, values, score = large_table(seed, rows, levels, unknown)
    for _ in range(8):
        floor = -inf if random.random() < 0.5 else float(random.choice(score))
        admit = None if random.random() < 0.6 else random.random(rows) < random.choice([0.01, 0.5])
        limit = int(random.choice([1, 3, 10, 100, 10 * rows]))
        check(values, score, random_ranges(random, values), limit, floor, admit, bool(random.integers(2)))


tables = st.tuples(
    st.integers(0, 2**32), st.integers(1, 3000), st.sampled_from([0, 1, 3, 50]), st.sampled_from([0, 0, 0.1, 0.9])
)


@given(tables)
@settings(max_examples=25, deadline=None)
def test_large_tables(table):
    check_large(*table)


@pytest.mark.parametrize("gather_call", [0, 10**9], ids=["gather", "scan"])
@pytest.mark.parametrize("byte_rows", [0, 10**9], ids=["two bytes", "one byte"])
def test_large_tables_in_tiny_pieces(monkeypatch, gather_call, byte_rows):
    """The same with every size of the search made so small that pieces, zones, crowds and gathers all happen."""
    monkeypatch.setattr(buckets, "BYTE_ROWS", byte_rows)
    for module in (range_filter, search):
        monkeypatch.setattr(module, "BLOCK", 16)
    sizes = {"LEAST_PIECE": 8, "NEXT_PIECE": 16, "MOST_PIECE": 64, "MOST_ROUNDS": 2, "LEAST_PART": 4, "GATHER_ROW": 1}
    for name, size in {**sizes, "GATHER_CALL": gather_call}.items():
        monkeypatch.setattr(search, name, size)

    @given(tables)
    @settings(max_examples=15, deadline=None)
    def tables_agree(table):
        check_large(*table)

    tables_agree()


@pytest.mark.parametrize("limit", [1, 3, 10, 100])
def test_ranges_that_end_within_a_bucket_of_the_best_rows(limit):
    """A bucket holds some ten rows here, so that codes alone do not tell where a range ends."""
    value = np.arange(3000.0)
    values = {"a": value, "b": np.roll(value, 5)}
    for cut in (0.0, 1.0, 4.5, 9.0, 10.0, 11.0, 12.0, 17.0, 30.0, 99.0, 2990.0):
        check(values, value, [Range("a", high=cut)], limit, descending=False)
        check(values, value, [Range("a", low=cut)], limit, floor=cut - 2, descending=False)
        check(values, value, [Range("a", cut, cut + 14, True, True), Range("b", high=2994)], limit, descending=False)
        check(values, value, [Range("a", low=1)], limit, floor=2999 - cut)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_rows_that_only_look_right_come_first(limit):
    value = np.arange(3000.0)
    for cut in range(100, 112):
        for wrong in range(1, 9):
            score = -value
            score[cut + 1 : cut + 1 + wrong] = 1.0
            check({"a": value}, score, [Range("a", high=float(cut))], limit)


def test_ends_are_exact_where_float32_is_not():
    values = {"params": np.array([16777216.0, 16777217.0, 16777218.0])}
    check(values, np.zeros(3), [Range("params", high=16777216.5)], 5)
    check({"params": np.array([0.5, 0.25])}, np.zeros(2), [Range("params", high=0.49999999999)], 5)


def test_mutually_exclusive_ranges_hold_nothing():
    share = np.random.default_rng(0).random(20_000)
    ranking = Ranking(given_columns({"a": share, "b": 1 - share}), share)
    for cut in (0.3, 0.5, float(share[7])):
        ranges = [Range("a", high=cut), Range("b", high=1 - cut, open_high=True)]
        assert ranking.top(ranges, 10).tolist() == np.flatnonzero((share <= cut) & (1 - share < 1 - cut)).tolist()


def test_two_searches_of_equal_scores_return_the_same_rows():
    columns = given_columns({"a": np.arange(5000.0) % 7})
    first = Ranking(columns, np.ones(5000)).top([Range("a", high=3)], 20)
    again = Ranking(columns, np.ones(5000)).prepare([Range("a", high=3)], 20)
    assert first.tolist() == again().tolist() == again().tolist() == [row for row in range(5000) if row % 7 <= 3][:20]


def test_without_columns_the_best_scores_are_the_answer():
    ranking = Ranking(given_columns({}), np.array([0.2, nan, 0.9, 0.9]))
    assert ranking.top([], 2).tolist() == [2, 3]
    assert ranking.top([], 9, floor=0.3).tolist() == [2, 3]
    assert len(ranking) == 3
    with pytest.raises(UnknownName):
        ranking.top([Range("params")], 1)


def test_the_plan_says_how_and_how_much():
    random = np.random.default_rng(3)
    rows = 300_000
    ranking = Ranking(given_columns({"a": random.random(rows), "b": random.random(rows)}), random.random(rows))
    assert ranking.plan([], 10).strategy == "prefix"
    assert ranking.plan([Range("a", high=-1)], 10).strategy == "nothing"
    scan = ranking.plan([Range("a", high=0.5), Range("b", low=0.5)], 10)
    assert (scan.strategy, round(scan.touched, -1)) == ("scan", 40)
    assert scan.shares["a"] == pytest.approx(0.5, abs=0.01)
    rare = [Range("a", high=0.0005), Range("b", low=0.5)]
    gather = ranking.plan(rare, 100)
    assert (gather.strategy, round(gather.touched, -2)) == ("gather", 200)
    before = ranking.nbytes
    assert len(ranking.top(rare, 100)) == min(ranking.count(rare), 100)
    assert ranking.nbytes > before, "the gather made an array of positions, which counts"


def test_scores_of_another_length_are_refused():
    with pytest.raises(ValueError, match="2 scores for 3 rows"):
        Ranking(given_columns({"a": np.zeros(3)}), np.zeros(2))
