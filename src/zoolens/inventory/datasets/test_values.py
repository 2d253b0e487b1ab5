"""True numbers beside arrays."""

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.dataset_contract import DatasetContract


def written(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", x=np.arange(8, dtype=np.float32).reshape(4, 2), **arrays)
    return f"npz:{tmp_path / 'a.npz'}?value=y"


class TestValues(DatasetContract):
    def opened(self, tmp_path):
        return open_dataset(written(tmp_path, y=np.array([0.5, 1.5, -2.0, 3.0])))


def test_numbers_are_the_truth_where_it_is_said(tmp_path):
    dataset = open_dataset(written(tmp_path, y=np.array([[1, 2], [3, 4], [5, 6], [7, 8]])))
    assert dataset.truth_kind == "value"
    assert dataset.truth(1)["value"].tolist() == [3.0, 4.0]
    other = open_dataset(written(tmp_path, y=np.array([[1, 2], [3, 4], [5, 6], [7, 9]])))
    assert other.fingerprint() != dataset.fingerprint()


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (np.array([1.0, 2, 3]), "4 inputs but 3 true values"),
        (np.array([1.0, np.nan, 3, 4]), "A true value of dataset a is NaN or infinite"),
        (np.array([b"a", b"b", b"c", b"d"]), r"are \|S1, not numbers"),
    ],
)
def test_what_are_no_true_numbers_is_refused(tmp_path, y, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(written(tmp_path, y=y))


def test_quantities_that_are_taken_for_classes_are_told_how_to_be_none(tmp_path):
    spec = written(tmp_path, y=np.array([0.5, 1.5, -2.0, 3.0]))
    with pytest.raises(DatasetError, match=r"npz:FILE\?value=y"):
        open_dataset(spec.partition("?")[0])
    with pytest.raises(DatasetError, match="one of y, value and present"):
        open_dataset(spec + "&y=y")
