import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.dataset_contract import DatasetContract

IMAGES = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
PRESENT = np.array([[1, 0], [0, -1], [1, 1]], np.int8)


def npz(folder, present=PRESENT):
    np.savez(folder / "several.npz", x=IMAGES, present=present)
    return f"npz:{folder / 'several.npz'}?present=present"


def table(folder, text="file,cat,dog\n0.png,1,0\n1.png,0,\n2.png,1.0,1\n"):
    for number, image in enumerate(IMAGES):
        Image.fromarray(image).save(folder / f"{number}.png")
    (folder / "present.csv").write_text(text)
    return f"imagefolder:{folder}?present=present.csv"


@pytest.mark.parametrize("written", [npz, table])
class TestContract(DatasetContract):
    @pytest.fixture
    def dataset(self, tmp_path, written):
        return open_dataset(written(tmp_path))

    def opened(self, tmp_path):
        return open_dataset(npz(tmp_path))

    def opened_with_another_truth(self, tmp_path):
        return open_dataset(npz(tmp_path, PRESENT[::-1]))

    def test_labels_of_samples(self, dataset):
        assert dataset.truth_kind == "labels"
        assert [dataset.truth(place)["present"].tolist() for place in range(3)] == PRESENT.tolist()

    def test_the_fingerprint_is_of_content_and_not_of_paths(self, tmp_path, written):
        here, there = tmp_path / "here", tmp_path / "there"
        for folder in (here, there):
            folder.mkdir()
        assert open_dataset(written(here)).fingerprint() == open_dataset(written(there)).fingerprint()


def test_labels_have_the_names_of_columns_or_those_that_are_given(tmp_path):
    assert open_dataset(table(tmp_path)).classes == ("cat", "dog")
    assert open_dataset(npz(tmp_path) + "&classes=cow,hen").classes == ("cow", "hen")
    with pytest.raises(DatasetError, match="2 columns of labels but 3 names"):
        open_dataset(npz(tmp_path) + "&classes=a,b,c")


def test_a_sample_of_which_nobody_said_anything_has_no_truth(tmp_path):
    assert open_dataset(npz(tmp_path, np.array([[np.nan, np.nan], [1, 0], [0, np.nan]]))).truth(0) is None


@pytest.mark.parametrize(
    ("present", "sentence"),
    [
        (np.array([1, 0, 1]), r"shape \(3,\) and type int64, not samples × labels"),
        (np.array([[2, 0]] * 3), "have the value 2"),
        (np.array([[0.5, 0]] * 3), "have the value 0.5"),
        (np.array([["a"]] * 3), "type <U1, not samples"),
        (np.array([[1, 0]] * 2), "3 inputs but 2 rows of labels"),
    ],
)
def test_arrays_that_are_no_labels_are_refused(tmp_path, present, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(npz(tmp_path, present))


def test_a_sample_is_judged_in_one_way(tmp_path):
    with pytest.raises(DatasetError, match="one of y, value and present"):
        open_dataset(npz(tmp_path) + "&y=present")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not name the column of files"),
        ("0.png,1,0\n", "does not name the column of files"),
        ("file,cat,cat\n0.png,1,0\n", "does not name the column of files"),
        ("file,cat\n", "lists no images"),
        ("file,cat\n0.png,1,1\n", "line 2 has 3 cells, but the first line 2"),
        ("file,cat\n0.png,-1\n", "line 2 has the cell '-1' in a column of a label"),
        ("file,cat\n../0.png,1\n", "lies outside the folder"),
        ("file,cat\n9.png,1\n", "which does not exist"),
        ("file,cat\n0.p\0ng,1\n", "null character|cannot be read"),
    ],
)
def test_tables_that_are_no_labels_are_refused(tmp_path, text, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(table(tmp_path, text))
