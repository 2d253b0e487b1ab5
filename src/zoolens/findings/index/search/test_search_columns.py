from math import inf, nan

import numpy as np
import pytest

from zoolens.base.errors import UnknownName
from zoolens.findings.index.search.buckets import buckets_of
from zoolens.findings.index.search.search_columns import Range, given_columns


def test_values_are_exact_and_half_as_large_where_nothing_is_lost():
    columns = given_columns({"pages": np.array([4096.0, nan, inf]), "params": np.array([25_557_033.0, 0.1, nan])})
    assert columns.names == ("pages", "params")
    assert columns.rows == 3
    assert (columns.value("params", 0), columns.value("params", 1)) == (25_557_033.0, 0.1)
    assert columns.value("pages", 2) == inf
    assert np.isnan(columns.value("pages", 1))
    assert columns.values("pages").dtype == np.float64
    assert columns.nbytes == 3 * 4 + 3 * 8


def test_the_values_of_a_caller_may_change_without_harm():
    values = np.array([0.1, 0.2])
    columns = given_columns({"a": values})
    values[:] = 7
    assert columns.value("a", 0) == 0.1


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="different lengths"):
        given_columns({"a": np.zeros(2), "b": np.zeros(3)})


def test_an_unknown_metric_names_a_close_one():
    with pytest.raises(UnknownName, match="latency_p95"):
        given_columns({"latency_p95": np.zeros(1)}).value("latency_p59", 0)


def test_a_value_shared_by_many_rows_has_a_bucket_of_its_own():
    spread = np.random.default_rng(0).random(20_000)
    buckets = buckets_of(np.sort(np.concatenate([spread, np.full(5_000, 0.5)])), 255)
    own = list(buckets.lows).index(0.5)
    assert buckets.highs[own] == 0.5
    assert buckets.starts[own + 1] - buckets.starts[own] == 5_000
    assert len(buckets.lows) <= 255


def test_few_values_have_a_bucket_each_so_that_no_range_cuts_one():
    buckets = buckets_of(np.sort(np.repeat(np.arange(200.0), 3)), 255)
    assert list(buckets.lows) == list(buckets.highs) == list(range(200))
    assert buckets.span(3.5, 9, open_low=False, open_high=True).unsure == ()


def test_buckets_are_at_most_as_many_as_there_are_codes():
    random = np.random.default_rng(1)
    for levels in (1, 2, 100, 254, 255, 256, 300, 1000, 10**6):
        values = np.sort(random.integers(0, levels, 5_000) ** 2.0)
        buckets = buckets_of(values, 255)
        assert len(buckets.lows) <= 255
        assert buckets.starts[-1] == len(values)
        assert all(high < low for high, low in zip(buckets.highs, buckets.lows[1:], strict=False))


@pytest.mark.parametrize(
    ("range_", "held"),
    [
        (Range("a"), [-inf, 0, 1, inf]),
        (Range("a", 0, 1), [0, 1]),
        (Range("a", 0, 1, open_low=True), [1]),
        (Range("a", 0, 1, open_high=True), [0]),
        (Range("a", -inf, inf, open_low=True, open_high=True), [0, 1]),
        (Range("a", nan), []),
    ],
)
def test_a_range_holds_what_lies_between_its_ends(range_, held):
    values = np.array([-inf, 0, 1, inf, nan])
    assert values[range_.holds(values)].tolist() == held
    assert [value for value in values.tolist() if range_.admits(value)] == held
