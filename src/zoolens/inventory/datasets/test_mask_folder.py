import io
import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.conftest import ASSETS
from zoolens.inventory.datasets.images import decode_mask
from zoolens.inventory.datasets.mask_folder import open_mask_folder
from zoolens.inventory.datasets.opening import open_dataset

NUMBERS = np.array([[0, 1, 2], [2, 255, 1]], np.uint8)


def png(pixels, mode=None):
    stream = io.BytesIO()
    image = Image.fromarray(pixels)
    if mode == "P":
        image.putpalette([value for colour in range(256) for value in (colour, 0, 255 - colour)])
    image.save(stream, "png")
    return stream.getvalue()


def grey_png(width, height, depth, compressed):
    """A grey PNG of these numbers of pixels and bits; `compressed` are its rows."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", compressed) + chunk(b"IEND", b"")


def written(folder, masks, images="images", truths="masks"):
    """Images of the masks' sizes, and the masks."""
    for name in (images, truths):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for number, mask in enumerate(masks):
        picture = np.full((*mask.shape[:2], 3), number, np.uint8)
        (folder / images / f"{number}.jpg").write_bytes(jpeg(picture))
        (folder / truths / f"{number}.png").write_bytes(png(mask))
    return folder


def jpeg(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "jpeg")
    return stream.getvalue()


def test_a_folder_of_images_and_masks_is_recognised(tmp_path):
    dataset = open_dataset(written(tmp_path, [NUMBERS]))
    assert dataset.truth_kind == "mask"
    assert dataset.says("mask")
    assert dataset.read(0).id == "images/0.jpg"
    truth = dataset.truth(0)["mask"]
    assert truth.dtype == np.uint8
    np.testing.assert_array_equal(truth, NUMBERS)  # 255: not judged


@pytest.mark.parametrize("mode", [None, "P"])
def test_numbers_are_read_from_grey_and_from_palettes(tmp_path, mode):
    written(tmp_path, [NUMBERS])
    (tmp_path / "masks/0.png").write_bytes(png(NUMBERS, mode))
    np.testing.assert_array_equal(open_mask_folder(str(tmp_path)).truth(0)["mask"], NUMBERS)


def test_numbers_of_few_bits_are_not_stretched():
    def small(depth, rows):
        return grey_png(4, 1, depth, zlib.compress(b"\0" + rows))

    assert decode_mask(small(4, b"\x01\x2f"), "x").tolist() == [[0, 1, 2, 15]]
    assert decode_mask(small(2, b"\x1b"), "x").tolist() == [[0, 1, 2, 3]]
    assert decode_mask(small(1, b"\x50"), "x").tolist() == [[0, 1, 0, 1]]


def test_masks_of_16_bits(tmp_path):
    wide = np.array([[0, 300], [70, 65535]], np.uint16)
    truth = open_mask_folder(str(written(tmp_path, [wide])), ignore="65535").truth(0)["mask"]
    assert truth.dtype == np.uint16
    np.testing.assert_array_equal(truth, wide)


def test_numbers_become_classes_by_a_table(tmp_path):
    written(tmp_path, [np.array([[0, 17, 18, 99]], np.uint8)])
    about = {"names": ["background", "cat", "dog"], "of": {"17": 1, "18": "dog"}}
    (tmp_path / "about.json").write_text(json.dumps(about))
    named = {"classes": "about.json#names", "ids": "about.json#of"}
    dataset = open_mask_folder(str(tmp_path), **named, ignore="0", others="background")
    assert dataset.classes == ("background", "cat", "dog")
    assert dataset.truth(0)["mask"].tolist() == [[255, 1, 2, 0]]
    assert open_mask_folder(str(tmp_path), **named, others="ignore").truth(0)["mask"].tolist() == [[255, 1, 2, 255]]
    with pytest.raises(DatasetError, match=r"has pixels of number 99, which is no class \(there are 3\)"):
        open_mask_folder(str(tmp_path), **named, ignore="0").truth(0)


def test_what_is_said_of_numbers_belongs_to_the_fingerprint(tmp_path):
    folder = str(written(tmp_path, [np.array([[0, 1]], np.uint8)]))
    assert open_mask_folder(folder).fingerprint() != open_mask_folder(folder, ignore="0").fingerprint()


def test_a_mask_that_judges_nothing_is_no_truth(tmp_path):
    assert open_mask_folder(str(written(tmp_path, [np.full((2, 2), 255, np.uint8)]))).truth(0) is None


def test_names_have_a_part_in_common(tmp_path):
    written(tmp_path, [NUMBERS], "left/val/a", "fine/val/a")
    (tmp_path / "left/val/a/0.jpg").rename(tmp_path / "left/val/a/x_left.jpg")
    (tmp_path / "fine/val/a/0.png").rename(tmp_path / "fine/val/a/x_ids.png")
    (tmp_path / "fine/val/a/x_colour.png").write_bytes(png(NUMBERS))
    dataset = open_mask_folder(str(tmp_path), images="left/val/*_left.jpg", masks="fine/val/*_ids.png")
    assert [sample.id for sample in dataset] == ["left/val/a/x_left.jpg"]


def test_files_without_their_other_half_are_left_out_and_said(tmp_path):
    written(tmp_path, [NUMBERS] * 4)
    for number in (1, 2):
        (tmp_path / f"masks/{number}.png").unlink()
    (tmp_path / "images/3.jpg").unlink()
    dataset = open_mask_folder(str(tmp_path))
    assert [sample.id for sample in dataset] == ["images/0.jpg"]
    assert dataset.notes == ("2 images that have no mask are left out", "1 mask that has no image is left out")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (png(np.zeros((5, 3), np.uint8)), "has 3 × 5 pixels, but its image has 3 × 2"),
        (png(np.zeros((2, 3, 3), np.uint8)), "is a PNG of mode RGB, not a PNG whose pixels are numbers of classes"),
        (jpeg(np.zeros((2, 3), np.uint8)), "is a JPEG of mode L, not a PNG"),
        (png(NUMBERS)[:50], "cannot be decoded"),
        (b"no picture", "is not an image of a known kind"),
        (grey_png(1 << 13, 1 << 14, 8, zlib.compress(b"")), "claims 8192×16384 pixels, more than the 67,108,864"),
        (png(np.array([[0, 1, 2], [2, 9, 1]], np.uint8)), r"has pixels of number 9, which is no class \(there are 3\)"),
    ],
)
def test_masks_of_strangers_are_refused_in_words(tmp_path, content, sentence):
    written(tmp_path, [NUMBERS])
    (tmp_path / "masks/0.png").write_bytes(content)
    with pytest.raises(DatasetError, match=sentence):
        open_mask_folder(str(tmp_path), classes="a,b,c").truth(0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"images": "../elsewhere"}, "lies outside the folder"),
        ({"images": "pictures"}, "There is no folder"),
        ({"images": "images/*/*.jpg"}, "has more than one"),
        ({"masks": "masks/*_ids.png"}, "No image of .* has a mask: images are called '0', masks nothing"),
        ({"ignore": "void"}, "has 'void', which is no number from 0 to 65,535"),
        ({"others": "0"}, "there is no ids"),
        ({"ids": "absent.json"}, "cannot be read"),
        ({"ids": "ids.json#absent"}, "has no part 'absent'"),
        ({"ids": "ids.json#names"}, "gives no classes of numbers"),
        ({"ids": "ids.json#beyond", "classes": "a,b"}, "has the class '7'; classes are 0 to 1"),
        ({"ids": "ids.json#numbers", "others": "cow"}, "has the class 'cow'"),
        ({"classes": "ids.json#numbers"}, "is no list of class names"),
    ],
)
def test_options_without_meaning_are_refused_in_words(tmp_path, options, sentence):
    (tmp_path / "elsewhere").mkdir()
    folder = written(tmp_path / "data", [NUMBERS])
    (folder / "ids.json").write_text(json.dumps({"names": ["a"], "numbers": {"1": 1}, "beyond": {"1": 7}}))
    with pytest.raises(DatasetError, match=sentence):
        open_mask_folder(str(folder), **options)


def test_two_images_of_one_name_are_refused(tmp_path):
    written(tmp_path, [NUMBERS])
    (tmp_path / "images/0.png").write_bytes(png(NUMBERS))
    with pytest.raises(DatasetError, match=r"two files called '0': \.jpg and \.png"):
        open_mask_folder(str(tmp_path))


COCO = (
    "masks:{}?images=detection/data/val2017&masks=segmentation/data/masks&classes=segmentation/data/classes.json%23voc21"
    "&ids=segmentation/data/classes.json%23coco_to_voc21&others=background&ignore=0"
)


@pytest.mark.assets
def test_masks_of_coco_as_the_classes_of_voc():
    if not (ASSETS / "tasks/segmentation").is_dir():
        pytest.skip(f"REFERENCE DATA ABSENT: nothing at {ASSETS}/tasks; set ZOOLENS_ASSETS to test with them")
    dataset = open_dataset(COCO.format(ASSETS / "tasks"))
    assert len(dataset) == 50
    assert len(dataset.classes) == 21
    found = np.unique(np.concatenate([np.unique(dataset.truth(place)["mask"]) for place in range(50)]))
    assert len(found) == 16 + 1  # as many classes as were found independently, and what is not judged
