"""Arrays in files without a header, listed in a table."""

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.bin").write_bytes(np.arange(6, dtype=np.int8).tobytes())
    # As MLPerf Tiny writes it: no names of columns, the number of classes in the middle.
    (tmp_path / "y_labels.csv").write_text("a.bin,12,7\nb.bin,12,2\n")
    return tmp_path


def test_files_become_arrays_with_the_label_of_a_column(folder):
    dataset = open_dataset(f"raw:{folder}?shape=3x2&dtype=int8&labels=y_labels.csv&label=2")
    assert dataset.labels().tolist() == [7, 2]
    np.testing.assert_array_equal(dataset.read(0).value, [[0, 1], [2, 3], [4, 5]])
    wide = open_dataset(f"raw:{folder}?shape=3&dtype=uint16&labels=y_labels.csv&label=2")
    assert wide.read(0).value.tolist() == [256, 770, 1284]
    assert wide.fingerprint() != dataset.fingerprint()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("shape=3x3&dtype=int8", r"a\.bin has 6 bytes; 3×3 of int8 take 9"),
        ("shape=2x2&dtype=int8", r"a\.bin cannot be read: .*; 2×2 of int8 take 4"),
        ("shape=3x2&dtype=object", "There is no dtype 'object'"),
        ("shape=3,2&dtype=int8", "not written as 49x10x1"),
        ("shape=99999999x99999999&dtype=int8", "numbers is not read"),
    ],
)
def test_what_does_not_fit_gets_a_sentence(folder, options, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(f"raw:{folder}?{options}&labels=y_labels.csv&label=2").read(0)


def test_a_missing_column_or_table_gets_a_sentence(folder):
    with pytest.raises(DatasetError, match="is shorter than the header"):
        open_dataset(f"raw:{folder}?shape=6&dtype=int8&labels=y_labels.csv&label=3")
    with pytest.raises(DatasetError, match="There is no labels file"):
        open_dataset(f"raw:{folder}?shape=6&dtype=int8")
    (folder / "labels.csv").write_text("file,label\na.bin,0\n")
    with pytest.raises(DatasetError, match="has no column 'word'"):
        open_dataset(f"raw:{folder}?shape=6&dtype=int8&label=word")
