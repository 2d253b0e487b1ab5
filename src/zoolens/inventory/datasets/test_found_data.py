from __future__ import annotations

from pathlib import Path

import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.found_data import find_data, labelled_by
from zoolens.inventory.datasets.opening import open_dataset


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"")
    return tmp_path


def specs(root):
    return [found.spec for found in find_data(root).found]


def test_folders_of_classes_are_found_below_the_folder_and_their_order_is_said_to_be_a_guess(root):
    for name in ("cat/1.png", "dog/2.jpg", "dog/3.jpg"):
        picture(root / "photos" / name)
    (found,) = find_data(root).found
    assert found.spec == "photos"
    assert found.reason == (
        "3 pictures in 2 folders are its classes, in the order of the alphabet, which is a guess: cat, dog"
    )
    assert len(open_dataset(found.spec)) == 3


def test_a_class_file_gives_the_order(root):
    for name in ("cat/1.png", "dog/2.jpg"):
        picture(root / "photos" / name)
    (root / "photos" / "classes.txt").write_text("dog\ncat\n")
    (found,) = find_data(root).found
    assert "in the order of classes.txt" in found.reason


def test_a_table_beside_the_pictures_and_one_above_them_give_labels(root):
    picture(root / "photos" / "a.png")
    (root / "truth.csv").write_text("file,label\na.png,3\n")
    (found,) = find_data(root).found
    assert found.spec == "imagefolder:photos?labels=../truth.csv"
    assert open_dataset(found.spec).labels().tolist() == [3]
    (root / "truth.csv").rename(root / "photos" / "labels.csv")
    assert specs(root) == ["photos"]


def test_a_table_that_names_other_pictures_is_left_out_with_the_reason(root):
    picture(root / "photos" / "a.png")
    (root / "photos" / "labels.csv").write_text("file,label\nb.png,3\n")
    search = find_data(root)
    assert [found.labelled for found in search.found] == [False]
    assert "'b.png', which does not exist" in search.left_out[0]
    with pytest.raises(DatasetError, match="gives no labels"):
        labelled_by(root / "photos" / "labels.csv", root)


def test_a_table_without_pictures_is_no_table_of_labels(root):
    picture(root / "photos" / "a.png")
    (root / "results.csv").write_text("model,accuracy\nx,0.5\n")
    search = find_data(root)
    assert search.left_out == ()
    assert [(found.spec, found.labelled) for found in search.found] == [("photos", False)]


def test_annotations_come_before_folders(root):
    picture(root / "boxes" / "JPEGImages" / "a.jpg")
    (root / "boxes" / "Annotations").mkdir()
    (found,) = find_data(root).found
    assert found.spec == "voc:boxes"


def test_splits_are_no_classes_and_several_datasets_are_all_named(root):
    for split in ("train", "val"):
        for name in ("cat/1.png", "dog/2.jpg"):
            picture(root / "photos" / split / name)
    assert specs(root) == ["photos/train", "photos/val"]


def test_pictures_without_labels_count_only_where_none_has_any(root):
    picture(root / "logo.png")
    assert [found.labelled for found in find_data(root).found] == [False]
    for name in ("cat/1.png", "dog/2.jpg"):
        picture(root / "photos" / name)
    assert specs(root) == ["photos"]


def test_a_folder_without_pictures_has_no_data(root):
    assert find_data(root).found == ()
