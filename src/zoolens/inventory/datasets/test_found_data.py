from __future__ import annotations

import os
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
        "3 pictures in 2 folders are its classes, in the order of the alphabet, which is a guess unless the models "
        "name them: cat, dog"
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
    assert "names 'b.png', which lies in none of the folders" in search.left_out[0]
    with pytest.raises(DatasetError, match="gives no labels"):
        labelled_by(root / "photos" / "labels.csv", root)


def test_a_table_without_pictures_is_no_table_of_labels(root):
    picture(root / "photos" / "a.png")
    (root / "results.csv").write_text("model,accuracy\nx,0.5\n")
    search = find_data(root)
    assert search.left_out == ()
    assert [(found.spec, found.labelled) for found in search.found] == [("photos", False)]


def test_folders_of_numbers_are_no_guess(root):
    for name in ("0/1.png", "10/2.png"):
        picture(root / "digits" / name)
    (found,) = find_data(root).found
    assert "whose names are the numbers of the classes: 0, 10" in found.reason


def test_annotations_beside_the_folder_of_images(root):
    picture(root / "data" / "val" / "1.jpg")
    (root / "data" / "instances_val.json").write_text("{}")
    assert specs(root) == ["coco:data/instances_val.json"]


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


# --- what would give wrong labels and look right


def test_folders_beside_the_classes_are_no_classes_and_shift_none(root):
    for name in ("cat/1.png", "dog/2.jpg"):
        picture(root / "photos" / name)
    (root / "photos" / "cache").mkdir()
    search = find_data(root)
    assert not any(found.labelled for found in search.found)
    assert "cache has no pictures: put cat, dog into a folder of their own" in search.left_out[0]


def test_pictures_deeper_in_a_folder_of_a_class_are_of_that_class(root):
    for name in ("bird/2021/1.png", "cat/2.jpg", "dog/3.jpg"):
        picture(root / "photos" / name)
    (found,) = find_data(root).found
    assert "3 pictures in 3 folders" in found.reason
    assert len(open_dataset(found.spec).classes) == 3


def test_a_table_that_fits_two_folders_is_not_given_to_one_of_them(root):
    for name in ("train/1.png", "test/1.png"):
        picture(root / name)
    (root / "labels.csv").write_text("file,label\n1.png,3\n")
    assert sorted(specs(root)) == [
        "imagefolder:test?labels=../labels.csv", "imagefolder:train?labels=../labels.csv"
    ]  # fmt: skip
    with pytest.raises(DatasetError, match="names pictures of 2 folders"):
        labelled_by(root / "labels.csv", root)


def test_a_table_may_name_pictures_from_a_folder_between(root):
    for name in ("cat/1.png", "dog/2.png"):
        picture(root / "photos" / name)
    (root / "labels.csv").write_text("file,label\ncat/1.png,1\ndog/2.png,0\n")
    assert specs(root) == ["imagefolder:photos?labels=../labels.csv"]


def test_a_table_above_a_folder_of_images_gives_labels_once(root):
    picture(root / "images" / "1.png")
    (root / "labels.csv").write_text("file,label\n1.png,3\n")
    assert specs(root) == ["."]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("file,prediction\na.png,3\n", "its columns are file, prediction, and none is called label"),
        ("file,width\na.png,224\n", "its columns are file, width"),
        ("a.png,640,480,cat\n", "it has 4 columns and no line that names them"),
    ],
)
def test_a_column_that_nobody_calls_labels_is_not_taken_for_them(root, text, reason):
    picture(root / "a.png")
    (root / "table.csv").write_text(text)
    search = find_data(root)
    assert reason in search.left_out[0]
    assert not search.found[0].labelled
    if text.startswith("file"):  # who names it means its second column
        assert labelled_by(root / "table.csv", root).labelled


def test_a_table_of_some_of_the_pictures_says_of_how_many(root):
    for name in ("a.png", "b.png", "c.png"):
        picture(root / name)
    (root / "labels.csv").write_text("file,label\na.png,3\nb.png,1\n")
    assert "labels of 2 of 3 pictures" in find_data(root).found[0].reason


def test_what_cannot_be_read_is_said_and_does_not_hang(root):
    picture(root / "photos" / "a.heic")
    os.mkfifo(root / "photos" / "labels.csv")
    search = find_data(root)
    assert search.found == ()
    assert "1 pictures of kinds that are not read (.heic)" in search.left_out[0]


def test_links_to_folders_are_followed_once_and_software_is_passed_over(root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for name in ("cat/1.png", "dog/2.jpg"):
        picture(elsewhere / name)
    (root / "photos").symlink_to(elsewhere)
    (elsewhere / "cat" / "loop").symlink_to(elsewhere)
    for name in ("icons/1.png", "fonts/2.png"):
        picture(root / "venv" / "site-packages" / "tool" / name)
    assert specs(root) == ["photos"]


def test_names_with_spaces_and_signs_of_addresses(root):
    picture(root / "my photos & more" / "a b.png")
    (root / "my labels?.csv").write_text("file,label\na b.png,3\n")
    (found,) = find_data(root).found
    assert open_dataset(found.spec).labels().tolist() == [3]
