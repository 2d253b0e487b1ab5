"""COCO's JSON: what is read, what is refused with a sentence, and what other people's exports look like."""

import json
import tracemalloc
from itertools import count

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.conftest import ASSETS
from zoolens.inventory.datasets import boxed_images, json_arrays
from zoolens.inventory.datasets.coco import open_coco
from zoolens.inventory.datasets.json_arrays import array_elements
from zoolens.inventory.datasets.opening import open_dataset

WIDTH, HEIGHT = 40, 30
REAL = ASSETS / "tasks" / "detection" / "data" / "instances_val50.json"


def image(number, name=None, **more):
    return {"id": number, "file_name": name or f"{number}.png", "width": WIDTH, "height": HEIGHT, **more}


_IDS = count(5)


def annotation(image_id=1, box=(4, 5, 10, 8), category=1, **more):
    return {"id": next(_IDS), "image_id": image_id, "category_id": category, "bbox": list(box), **more}


def content(**parts):
    usual = {
        "images": [image(1), image(2)],
        "annotations": [annotation()],
        "categories": [{"id": 1, "name": "cat"}, {"id": 7, "name": "dog"}],
    }
    return {**usual, **parts}


def write(folder, written=None, *, file="instances_val.json", pictures=("1.png", "2.png"), into="val"):
    for name in pictures:
        path = folder / into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (WIDTH, HEIGHT), (len(name), 0, 0)).save(path)
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written if isinstance(written, str) else json.dumps(written or content()), encoding="utf-8")
    return path


def opened(folder, **parts):
    return open_coco(str(write(folder, content(**parts))))


def test_boxes_belong_to_their_images_and_classes_are_in_the_files_order(tmp_path):
    boxes = [
        annotation(2, (0, 0, 5, 5), 7, area=12.5),
        annotation(1, (4, 5, 10, 8), 1, iscrowd=1, area=3),
        annotation(2, (1, 1, 6, 7), 1),
    ]
    dataset = opened(tmp_path, annotations=boxes, categories=[{"id": 7, "name": "dog"}, {"id": 1, "name": "cat"}])
    assert dataset.classes == ("dog", "cat")
    assert (dataset.truth_kind, dataset.says("boxes"), dataset.labels().tolist()) == ("boxes", True, [-1, -1])
    assert [dataset.read(place).id for place in range(2)] == ["1.png", "2.png"]
    first, second = dataset.truth(0), dataset.truth(1)
    assert first["boxes"].tolist() == [[4, 5, 10, 8]]
    assert (first["classes"].tolist(), first["areas"].tolist(), first["crowds"].tolist()) == ([1], [3], [True])
    assert second["boxes"].tolist() == [[0, 0, 5, 5], [1, 1, 6, 7]]
    assert second["classes"].tolist() == [0, 1]
    assert second["areas"].tolist() == [12.5, 42]
    assert dataset.notes == ("boxes without an area of their own, for which that of the box stands: 1",)


def test_an_image_without_boxes_is_kept(tmp_path):
    dataset = opened(tmp_path)
    assert dataset.truth(1)["boxes"].shape == (0, 4)
    assert "pictures without any box: 1 of 2" in dataset.notes


def test_boxes_that_reach_beyond_the_picture_are_kept_as_they_are(tmp_path):
    assert opened(tmp_path, annotations=[annotation(box=(-2, 25, 12, 9))]).truth(0)["boxes"].tolist() == [
        [-2, 25, 12, 9]
    ]


def test_without_a_list_of_annotations_nobody_said_what_is_on_the_images(tmp_path):
    written = content()
    del written["annotations"]
    dataset = open_coco(str(write(tmp_path, written)))
    assert (dataset.truth_kind, dataset.labelled, dataset.classes) == (None, False, ("cat", "dog"))


def test_ids_and_boxes_that_occur_twice_are_counted(tmp_path):
    same = annotation()
    dataset = opened(tmp_path, annotations=[same, same, {**annotation(box=(1, 1, 3, 3)), "id": same["id"]}])
    assert len(dataset.truth(0)["boxes"]) == 3
    said = " ".join(dataset.notes)
    assert "annotations that have the id of another one, and count as boxes of their own: 2" in said
    assert "boxes that another one of the same class equals, which count like all others: 1" in said


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"annotations": [annotation(box=(4, 5, -1, 8))]}, r"Annotation 1 .*'1.png', has a negative side: 4, 5, -1, 8"),
        ({"annotations": [annotation(box=(4, 5, float("nan"), 8))]}, "holds NaN or infinity"),
        ({"annotations": [annotation(box=(4, 5, 1e300, 8))]}, "larger than any picture"),
        ({"annotations": [annotation(box=(4, 5, 10**400, 8))]}, "too large for a picture"),
        ({"annotations": [annotation(box=(40, 5, 2, 2))]}, r"lies outside its picture of 40 × 30 pixels: 40, 5, 2, 2"),
        ({"annotations": [annotation(box=(-9, 5, 9, 2))]}, "lies outside its picture"),
        ({"annotations": [annotation(box=(1, 2, 3))]}, r"Annotation 1 of .* \(id '\d+'\) has no bbox of four numbers"),
        ({"annotations": [{"id": 5, "image_id": 1, "caption": "a cat"}]}, "Captions, panoptic segments"),
        ({"annotations": [annotation(box=("1", 2, 3, 4))]}, "no bbox of four numbers"),
        ({"annotations": [annotation(3)]}, "Annotation 1 of .* names the image '3', which the file does not list"),
        ({"annotations": [annotation(category=2)]}, "names the category '2', which the file does not list"),
        ({"annotations": [annotation(None)]}, "has no image_id"),
        ({"annotations": [annotation(iscrowd=2)]}, "iscrowd of '2'"),
        ({"annotations": [annotation(area=float("nan"))]}, "an area of 'nan'"),
        ({"annotations": [annotation(box=(0.1, 0.2, 0.3, 0.4))]}, "seem to be shares of the picture"),
        ({"annotations": [annotation(box=(15, 12, 39, 29))] * 12}, "taken for corners"),
        ({"annotations": [[]]}, "Annotation 1 of .* is not a JSON object"),
        ({"images": [image(1), image(1, "2.png")]}, "two images with the id '1'"),
        ({"images": [image(1), image(2, "1.png")]}, "2 images that are the file 1.png"),
        ({"images": [image(1), {"id": 2}]}, r"Image 2 of .* \(id '2'\) has no file_name"),
        ({"images": [image(1), image(2, "../secret.png")]}, r"1 of 2 images of .* are not in .*val: '../secret.png'"),
        ({"images": [image(1), image(2, "3.png")]}, r"missing=skip"),
        ({"images": []}, "lists no images"),
        ({"images": [image(1, neg_category_ids=[3])]}, "annotated as LVIS is"),
        ({"categories": []}, "lists no categories"),
        ({"categories": [{"id": 1}]}, "Category 1 of .* has no name"),
        ({"categories": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}, "two categories with the id '1'"),
    ],
)  # fmt: skip
def test_bad_files_are_explained(tmp_path, parts, sentence):
    (tmp_path / "secret.png").write_bytes(b"")
    with pytest.raises(DatasetError, match=sentence):
        opened(tmp_path, **parts)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ('{"images": [', "Expecting value at character 12"),
        ('{"images": [{"id": 1,', "cannot be read as COCO's JSON"),
        ('{"images": []} {}', "something follows its end at character 15"),
        ('{"images": [], "images": []}', "two parts named 'images'"),
        ('{"images": [' + "[" * 100_000, "nested too deeply"),
        ('{"info" 3}', "':' is missing at character 8"),
        ("{3}", "a name is missing"),
    ],
)
def test_damaged_json_is_explained(tmp_path, text, sentence):
    with pytest.raises(DatasetError, match=sentence):
        open_coco(str(write(tmp_path, text)))


def test_text_in_another_encoding_is_explained(tmp_path):
    path = write(tmp_path)
    path.write_bytes(json.dumps(content()).encode("utf-16"))
    with pytest.raises(DatasetError, match="not UTF-8 text"):
        open_coco(str(path))


def test_an_image_of_another_size_than_the_annotations_say_is_refused_when_it_is_read(tmp_path):
    dataset = opened(tmp_path, images=[image(1, width=80, height=60), image(2, width=HEIGHT, height=WIDTH)])
    with pytest.raises(DatasetError, match=r"1.png has 40 × 30 pixels, and its boxes were drawn on 80 × 60"):
        dataset.read(0)
    with pytest.raises(DatasetError, match="EXIF"):
        dataset.read(1)


def test_where_no_size_is_said_boxes_are_held_to_the_picture_itself(tmp_path):
    boxes = [annotation(), annotation(2, (70, 5, 2, 2))]
    dataset = opened(
        tmp_path, images=[{"id": 1, "file_name": "1.png"}, {"id": 2, "file_name": "2.png"}], annotations=boxes
    )
    assert dataset.read(0).value.shape == (HEIGHT, WIDTH, 3)
    with pytest.raises(DatasetError, match=r"Box 1 of 2.png lies outside its picture"):
        dataset.read(1)


# --- exports of other people


def test_ids_may_be_texts_in_one_place_and_numbers_in_another(tmp_path):
    dataset = opened(
        tmp_path,
        images=[image("1"), image("b2", "2.png")],
        annotations=[annotation(1.0, category="7"), annotation("b2")],
    )
    assert [dataset.truth(place)["classes"].tolist() for place in range(2)] == [[1], [0]]


def test_masks_are_passed_over_however_they_are_written(tmp_path):
    rle = {"counts": "abc[{", "size": [30, 40]}
    boxes = [annotation(segmentation=rle), annotation(2, segmentation=[[1, 2, 3, 4, 5, 6]])]
    assert len(opened(tmp_path, annotations=boxes).table.boxes) == 2


def test_a_placeholder_category_keeps_its_number_and_is_said(tmp_path):
    categories = [
        {"id": 0, "name": "animals", "supercategory": "none"},
        {"id": 1, "name": "cat", "supercategory": "animals"},
    ]
    dataset = opened(tmp_path, categories=categories)
    assert dataset.truth(0)["classes"].tolist() == [1]
    assert "category 'animals' (class 0) has no boxes: it seems to be a heading of the others" in dataset.notes


@pytest.mark.parametrize("name", ["/home/me/data/val/{}.png", r"C:\data\val\{}.png", "./val/{}.png", "val/{}.png"])
def test_paths_of_another_machine_are_found_by_their_last_parts(tmp_path, name):
    dataset = opened(tmp_path, images=[image(1, name.format(1)), image(2, name.format(2))])
    assert [dataset.read(place).id for place in range(2)] == ["1.png", "2.png"]
    assert dataset.notes[0].endswith("which has folders that are not here: 2")


def test_sub_folders_tell_files_of_one_name_apart(tmp_path):
    images = [image(1, "a/1.png"), image(2, "b/1.png")]
    path = write(tmp_path, content(images=images), pictures=("a/1.png", "b/1.png"))
    assert [sample.id for sample in open_coco(str(path))] == ["a/1.png", "b/1.png"]
    (tmp_path / "flat").mkdir()
    path = write(tmp_path / "flat", content(images=images), pictures=("1.png",))
    with pytest.raises(DatasetError, match=r"2 images that are the file 1.png"):
        open_coco(str(path))


def test_missing_images_can_be_left_out_with_their_boxes(tmp_path):
    boxes = [annotation(1), annotation(2, (0, 0, 3, 3))]
    path = write(tmp_path, content(annotations=boxes), pictures=("2.png",))
    with pytest.raises(DatasetError, match="lies in no folder beside it"):
        open_coco(str(path))
    dataset = open_coco(str(path), images="val", missing="skip")
    assert len(dataset) == 1
    assert dataset.truth(0)["boxes"].tolist() == [[0, 0, 3, 3]]
    assert "images whose file is not there are left out: 1 of 2" in dataset.notes


@pytest.mark.parametrize(
    ("file", "into"),
    [
        ("annotations/instances_val2017.json", "val2017"),
        ("annotations/instances_val2017.json", "images/val2017"),
        ("_annotations.coco.json", "."),
        ("boxes.json", "images"),
        ("boxes.json", "somewhere"),
    ],
)
def test_images_are_found_beside_the_annotations(tmp_path, file, into):
    path = write(tmp_path, file=file, into=into)
    assert [sample.id for sample in open_coco(str(path))] == ["1.png", "2.png"]
    assert open_coco(str(tmp_path)).fingerprint() == open_dataset(path).fingerprint()


def test_a_folder_named_like_the_file_is_meant_and_others_have_to_be_named(tmp_path):
    write(tmp_path, into="train")
    assert open_coco(str(write(tmp_path)))._entries[0].file.endswith("/val/1.png")
    path = write(tmp_path, file="boxes.json")
    with pytest.raises(DatasetError, match=r"which several folders have: .*train, .*val"):
        open_coco(str(path))
    assert len(open_coco(str(path), images="train")) == 2
    with pytest.raises(DatasetError, match="no folder of images 'gone'"):
        open_coco(str(path), images="gone")


def test_of_several_files_one_has_to_be_named(tmp_path):
    for name in ("train", "val"):
        write(tmp_path, file=f"annotations/instances_{name}.json", into=name)
    with pytest.raises(DatasetError, match=r"2 JSON files that may hold the annotations: .*instances_train.json, "):
        open_coco(str(tmp_path))


# --- size


def test_parts_of_a_file_are_read_across_the_borders_of_what_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_arrays, "_CHUNK", 7)
    path = tmp_path / "a.json"
    written = {
        "info": {"year": 2017},
        "images": [{"id": n, "é": "ü" * n} for n in range(9)],
        "n": 12345678,
        "annotations": [],
    }
    path.write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8-sig")
    seen = set()
    assert [element for _, element in array_elements(path, ["images"], seen)] == written["images"]
    assert seen == set(written)


def test_a_part_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_arrays, "_CHUNK", 100)
    monkeypatch.setattr(json_arrays, "LARGEST", 1000)
    with pytest.raises(DatasetError, match="has more than 1,000 characters"):
        open_coco(str(write(tmp_path, '{"images": ["' + "x" * 5000 + '"]}')))


def test_too_many_boxes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(boxed_images, "MAX_BOXES", 3)
    with pytest.raises(DatasetError, match="more than the 3 boxes"):
        opened(tmp_path, annotations=[annotation()] * 4)


@pytest.mark.slow  # the reader of elements has a test of its own limits in the quick suite
def test_memory_does_not_grow_with_masks(tmp_path):
    """20,000 annotations whose masks would take 100 MB once parsed."""
    mask = json.dumps([list(range(150))])
    one = json.dumps(annotation())[:-1] + f', "segmentation": {mask}}}'
    written = json.dumps(content(annotations=[])).replace(
        '"annotations": []', f'"annotations": [{",".join([one] * 20_000)}]'
    )
    path = write(tmp_path, written)
    tracemalloc.start()
    dataset = open_coco(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(dataset.table.boxes) == 20_000
    assert peak < 20 << 20


@pytest.mark.assets
@pytest.mark.skipif(not REAL.is_file(), reason=f"REFERENCE DATA ABSENT: nothing at {REAL}; set ZOOLENS_ASSETS")
def test_the_real_file():
    """Boxes and classes of COCO's validation images as the plain JSON has them."""
    plain = json.loads(REAL.read_text())
    dataset = open_dataset(REAL)
    assert len(dataset) == 50
    numbers = {category["id"]: number for number, category in enumerate(plain["categories"])}
    for place, listed in enumerate(plain["images"]):
        mine = [one for one in plain["annotations"] if one["image_id"] == listed["id"]]
        truth = dataset.truth(place)
        np.testing.assert_array_equal(truth["boxes"], np.array([one["bbox"] for one in mine]).reshape(-1, 4))
        assert truth["classes"].tolist() == [numbers[one["category_id"]] for one in mine]
        assert dataset.read(place).id == listed["file_name"]
