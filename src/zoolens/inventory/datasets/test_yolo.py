"""YOLO's folders: shares of the sides, the forms of data.yaml, and what Ultralytics reads from other people's files."""

import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.yolo import open_yolo

WIDTH, HEIGHT = 40, 20
BOX = "0 0.5 0.5 0.25 0.5\n"


def write(folder, labels, images="images/val", yaml=None):
    """`labels`: the text of each picture's file, None where it has none. A file data.yaml where `yaml` is given."""
    for name, text in labels.items():
        picture = folder / images / f"{name}.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT)).save(picture)
        if text is not None:
            before, _, after = images.rpartition("images")
            path = folder / f"{before}labels{after}" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if yaml is not None:
        (folder / "data.yaml").write_text(yaml)
    return str(folder)


NAMES = "names: [cat, dog]\n"
VAL = "val: images/val\n" + NAMES


def test_boxes_are_shares_of_the_pictures_sides(tmp_path):
    dataset = open_yolo(write(tmp_path, {"a": "1 0.5 0.5 0.25 0.5\n0 0.1 0.25 0.2 0.5\n", "b": ""}, yaml=VAL))
    truth = dataset.truth(0)
    assert truth["boxes"].tolist() == [[15, 5, 10, 10], [0, 0, 8, 10]]
    assert truth["areas"].tolist() == [100, 80]
    assert truth["classes"].tolist() == [1, 0]
    assert not truth["crowds"].any()
    assert dataset.truth(-1)["boxes"].shape == (0, 4)
    assert dataset.classes == ("cat", "dog")
    assert [sample.id for sample in dataset] == ["images/val/a.png", "images/val/b.png"]
    assert dataset.notes == ("pictures without any box: 1 of 2",)


def test_a_missing_file_means_no_object_and_is_said(tmp_path):
    dataset = open_yolo(write(tmp_path, {"a": BOX, "b": "", "c": None}, yaml=VAL))
    assert dataset.notes == (
        "pictures without a text file of boxes, taken to show no object: 1 of 3",
        "pictures without any box: 2 of 3",
    )
    with pytest.raises(DatasetError, match=r"None of the 1 pictures .* has a text file of boxes, such as .*a.txt"):
        open_yolo(write(tmp_path / "none", {"a": None}, yaml=VAL))


def test_polygons_become_the_box_around_them(tmp_path):
    dataset = open_yolo(write(tmp_path, {"a": "0 0.1 0.2 0.5 0.2 0.3 0.6\n"}, yaml=VAL))
    assert dataset.truth(0)["boxes"].round(9).tolist() == [[4, 4, 16, 8]]
    assert "polygons, of which the box around them is used: 1" in dataset.notes


def test_key_points_are_no_polygon_where_data_yaml_names_them(tmp_path):
    line = "0 0.5 0.5 0.25 0.5 0.9 0.9 0.1 0.1\n"
    dataset = open_yolo(write(tmp_path, {"a": line}, yaml=VAL + "kpt_shape: [2, 2]\n"))
    assert dataset.truth(0)["boxes"].tolist() == [[15, 5, 10, 10]]
    assert "key points are passed over: only the boxes are read" in dataset.notes
    with pytest.raises(DatasetError, match=r"has 9 numbers.*11 numbers"):
        open_yolo(write(tmp_path / "more", {"a": line}, yaml=VAL + "kpt_shape: [2, 3]\n"))


def test_line_ends_and_marks_of_windows_and_equal_lines(tmp_path):
    text = b"\xef\xbb\xbf0 0.5 0.5 0.25 0.5\r\n\r\n0  0.5 0.5 0.25 0.5\r\n1.0 0.5 0.5 0.5 0.5"
    dataset = open_yolo(write(tmp_path, {"a": text}, yaml="\ufeff" + VAL.replace("\n", "\r\n")))
    assert dataset.truth(0)["classes"].tolist() == [0, 1]
    assert "lines that are in a file twice and count once: 1" in dataset.notes


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("2 0.5 0.5 0.1 0.1", r"a.txt line 2 has the class 2, but there are only 2 names"),
        ("cat 0.5 0.5 0.1 0.1", "begins with 'cat'"),
        ("-1 0.5 0.5 0.1 0.1", "begins with '-1'"),
        ("9999999999 0.5 0.5 0.1 0.1", "begins with '9999999999'"),
        ("0 0.5 0.5 0.1", "has 4 numbers. A line is a class and a box, 5 numbers"),
        ("0 0.5 0.5 0.1 0.1 0.9", "has 6 numbers"),
        ("0 0.5 0.5 wide 0.1", "no number"),
        ("0 0.5 0.5 nan 0.1", "holds NaN"),
        ("0 200 100 40 20", "holds 200, which is no share"),
        ("0 0.5 0.5 -0.1 0.1", "holds -0.1, which is no share"),
        ("0 0.5 0.5 -0.001 0.1", "negative side"),
    ],
)
def test_bad_lines_are_explained(tmp_path, line, sentence):
    place = write(tmp_path, {"a": f"{BOX}{line}\n"}, yaml=VAL)
    with pytest.raises(DatasetError, match=sentence):
        open_yolo(place)


@pytest.mark.parametrize(
    ("yaml", "images"),
    [
        ("path: .\nval: images/val\nnames: {0: cat, 1: dog}\nnc: 2\n", "images/val"),
        ("path: inner\nval: images/val\nnames: {'1': dog, '0': cat}\n", "inner/images/val"),
        ("path: /home/me/datasets/pets\ntrain: images/train\nval: images/val\n" + NAMES, "images/val"),
        ("train: ../train/images\nval: ../valid/images\n" + NAMES, "valid/images"),
        ("val: /content/pets/images/val/\n" + NAMES, "images/val"),
        ("val: [images/val]\n" + NAMES, "images/val"),
        ("val: val.txt\n" + NAMES, "images/val"),
    ],
)
def test_forms_of_data_yaml(tmp_path, yaml, images):
    (tmp_path / "val.txt").write_text("./images/val/b.png\n/home/me/pets/images/val/a.png\n")
    dataset = open_yolo(write(tmp_path, {"a": "1 0.5 0.5 0.25 0.5", "b": BOX}, images, yaml))
    assert dataset.classes == ("cat", "dog")
    assert sorted(sample.id.rpartition("/")[2] for sample in dataset) == ["a.png", "b.png"]
    first = [dataset.read(place).id.endswith("a.png") for place in range(2)].index(True)
    assert dataset.truth(first)["classes"].tolist() == [1]


@pytest.mark.parametrize(
    ("yaml", "sentence"),
    [
        ("val: images/val\nnc: 3\n" + NAMES, "says nc: 3, but has 2 names"),
        ("val: images/val\nnames: {1: cat, 2: dog}\n", "does not name every class from 0 on"),
        ("val: images/val\nnames: [yes, no]\n", "class 0: YAML reads it as 'True'.*in quotes"),
        ("val: images/val\n", "no names of classes"),
        ("val: ../../elsewhere\n" + NAMES, r"names '../../elsewhere', which is not in"),
        ("val: images/gone\n" + NAMES, "names 'images/gone', which is not in .*root=FOLDER"),
        ("val: 3\n" + NAMES, "names no pictures for 'val'"),
        (NAMES, "names no pictures for 'val'"),
        ("val: [images/val\n", "line 2: not valid YAML"),
        ("a: &a [1]\nval: *a\n", "aliases"),
        ("just words", "not a data.yaml"),
        ("val: gone.txt\n" + NAMES, "names 'gone.txt'"),
        ("val: bad.txt\n" + NAMES, r"bad.txt lists '../secret.png', which is not in"),
        ("val: images/val\nkpt_shape: 3\n" + NAMES, "kpt_shape that is not two numbers"),
    ],
)
def test_bad_data_yaml_is_explained(tmp_path, yaml, sentence):
    (tmp_path / "inner").mkdir()
    Image.new("RGB", (3, 3)).save(tmp_path / "secret.png")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "inner" / "bad.txt").write_text("../secret.png\n")
    place = write(tmp_path / "inner", {"a": BOX}, yaml=yaml)
    with pytest.raises(DatasetError, match=sentence):
        open_yolo(place)


def test_the_user_may_say_where_the_dataset_lies(tmp_path):
    write(tmp_path / "data", {"a": BOX})
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "pets.yaml").write_text("path: ../data\n" + VAL)
    with pytest.raises(DatasetError, match="root=FOLDER"):
        open_yolo(str(tmp_path / "lists"))
    dataset = open_dataset(f"yolo:{tmp_path}/lists/pets.yaml?root={tmp_path}/data")
    assert (dataset.name, len(dataset)) == ("pets val", 1)


@pytest.mark.parametrize("images", ["images/val", "val/images", "images"])
def test_folders_without_data_yaml(tmp_path, images):
    dataset = open_yolo(write(tmp_path, {"a": BOX}, images))
    assert (dataset.classes, dataset.truth(0)["classes"].tolist()) == (None, [0])
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    assert open_dataset(str(tmp_path) if images != "val/images" else f"yolo:{tmp_path}").classes == ("cat", "dog")


def test_of_several_splits_one_has_to_be_named(tmp_path):
    write(tmp_path, {"a": BOX}, "images/train")
    place = write(tmp_path, {"b": BOX}, "images/val")
    with pytest.raises(DatasetError, match="has the splits val, train"):
        open_yolo(place)
    assert [sample.id for sample in open_yolo(place, split="train")] == ["images/train/a.png"]
    with pytest.raises(DatasetError, match=r"no split 'test'. It has val, train"):
        open_yolo(place, split="test")


def test_shares_are_of_the_picture_as_it_is_decoded(tmp_path):
    """Ultralytics' labels are of the turned picture, which OpenCV decodes."""
    pytest.importorskip("cv2")
    write(tmp_path, {"a": "0 0.5 0.25 0.5 0.5\n"}, yaml=VAL)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "images/val/a.png", exif=exif)
    dataset = open_yolo(str(tmp_path))
    assert dataset.truth(0)["boxes"].tolist() == [[10, 0, 20, 10]]
    turned = dataset.decoded_with("opencv")
    assert turned.read(0).value.shape == (WIDTH, HEIGHT, 3)
    assert turned.truth(0)["boxes"].tolist() == [[5, 0, 10, 20]]
