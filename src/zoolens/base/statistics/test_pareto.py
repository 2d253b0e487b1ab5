import numpy as np
import pytest

from zoolens.base.statistics.pareto import clearly_beaten, front


def beats(a, b):
    return (a <= b).all() and (a < b).any()


@pytest.mark.parametrize("respects", [1, 2, 3])
def test_the_front_is_what_nobody_beats(respects):
    costs = np.random.default_rng(respects).integers(0, 6, (80, respects)).astype(float)  # with many equal ones
    costs[7, 0] = np.nan
    known = np.delete(costs, 7, axis=0)
    expected = [not np.isnan(row).any() and not any(beats(other, row) for other in known) for row in costs]
    assert front(costs).tolist() == expected


def test_equal_rows_share_the_front():
    assert front(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 2.0]])).tolist() == [True, True, False]


def test_no_rows_have_no_front():
    assert front(np.empty((0, 2))).tolist() == []
    assert front(np.full((2, 2), np.nan)).tolist() == [False, False]


def test_beaten_clearly_means_beyond_both_intervals():
    random = np.random.default_rng(3)
    centres = random.random((2, 60))
    widths = random.random((2, 60)) * 0.2
    low, high = centres - widths, centres + widths
    low[0, 4] = np.nan
    expected = [
        row != 4 and any(other != 4 and (high[:, other] < low[:, row]).all() for other in range(60))
        for row in range(60)
    ]
    assert clearly_beaten((low[0], high[0]), (low[1], high[1])).tolist() == expected
    assert any(expected)


def test_without_an_interval_nothing_is_clear():
    exact, unknown = np.array([1.0, 9.0]), np.full(2, np.nan)
    assert not clearly_beaten((exact, exact), (unknown, unknown)).any()
