import numpy as np
import pytest

from zoolens.inventory.tasks.ragged import Ragged, joined

ROWS = [np.array([1.0, 2.0]), np.zeros((0, 4)), np.array([[3.0], [4.0], [5.0]])]


def column():
    return Ragged.of(ROWS, np.float32)


def as_lists(ragged):
    return [row.tolist() for row in ragged]


def test_rows_are_kept_flat_and_in_order():
    assert as_lists(column()) == [[1, 2], [], [3, 4, 5]]
    assert len(column()) == 3
    assert column().lengths.tolist() == [2, 0, 3]
    assert column().values.dtype == np.float32


def test_one_row_is_had_by_its_place_also_from_the_end():
    assert column()[0].tolist() == [1, 2]
    assert column()[np.int64(-1)].tolist() == [3, 4, 5]
    with pytest.raises(IndexError):
        column()[3]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (slice(1, None), [[], [3, 4, 5]]),
        (np.array([2, 0, 2]), [[3, 4, 5], [1, 2], [3, 4, 5]]),
        (np.array([True, False, False]), [[1, 2]]),
        (np.array([], np.int64), []),
    ],
)
def test_rows_are_chosen_as_those_of_an_array_are(places, expected):
    assert as_lists(column()[places]) == expected


def test_pieces_are_joined():
    assert as_lists(joined([column()[1:], column()[:1]])) == [[], [3, 4, 5], [1, 2]]


def test_no_rows_at_all():
    assert as_lists(Ragged.of([], np.int64)) == []
    assert len(Ragged.of([], np.int64)) == 0
