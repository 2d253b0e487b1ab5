"""Pascal VOC: coordinates, difficult objects, splits, and XML of strangers."""

import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.voc import CLASSES, open_voc

WIDTH, HEIGHT = 40, 30


def thing(name="cat", corners=(1, 2, 10, 12), difficult=None, more=""):
    sides = "".join(
        f"<{side}>{value}</{side}>" for side, value in zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True)
    )
    mark = "" if difficult is None else f"<difficult>{difficult}</difficult>"
    return f"<object><name>{name}</name>{mark}<bndbox>{sides}</bndbox>{more}</object>"


def annotation(*things, size=(WIDTH, HEIGHT)):
    said = f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>"
    return f"<annotation><filename>x.jpg</filename>{said}{''.join(things)}</annotation>"


def write(folder, annotations, splits=None, suffix=".jpg"):
    (folder / "JPEGImages").mkdir(parents=True, exist_ok=True)
    (folder / "Annotations").mkdir(exist_ok=True)
    for name, text in annotations.items():
        Image.new("RGB", (WIDTH, HEIGHT)).save(folder / "JPEGImages" / f"{name}{suffix}")
        path = folder / "Annotations" / f"{name}.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name, lines in (splits or {}).items():
        (folder / "ImageSets" / "Main").mkdir(parents=True, exist_ok=True)
        (folder / "ImageSets" / "Main" / f"{name}.txt").write_text(lines)
    return str(folder)


def test_pixels_count_from_one_and_the_last_one_belongs_to_the_box(tmp_path):
    files = {"a": annotation(thing("cat", (1, 2, 1, 30)), thing("dog", (8.5, 1, 40, 30)))}
    place = write(tmp_path / "VOC2007", files)
    dataset = open_voc(place)
    assert dataset.classes == CLASSES
    assert open_voc(write(tmp_path / "pets", files)).classes == ("cat", "dog")
    truth = dataset.truth(0)
    assert truth["boxes"].tolist() == [[0, 1, 1, 29], [7.5, 0, 32.5, 30]]
    assert truth["areas"].tolist() == [29, 975]
    assert truth["classes"].tolist() == [7, 11]
    assert (dataset.alphabetical, dataset.notes) == (False, ())
    assert dataset.read(0).id == "a.jpg"
    assert open_voc(place, origin="0").truth(0)["boxes"].tolist() == [[1, 2, 0, 28], [8.5, 1, 31.5, 29]]


def test_difficult_objects_are_crowds_unless_they_count(tmp_path):
    place = write(tmp_path, {"a": annotation(thing(difficult=1), thing(difficult=0), thing())})
    dataset = open_voc(place)
    assert dataset.truth(0)["crowds"].tolist() == [True, False, False]
    assert "objects marked as difficult count neither for nor against a model: 1 of 3" in dataset.notes
    counted = open_voc(place, difficult="count")
    assert not counted.truth(0)["crowds"].any()
    assert counted.fingerprint() != dataset.fingerprint()


def test_parts_of_an_object_are_no_objects(tmp_path):
    part = "<part><name>head</name><bndbox><xmin>3</xmin></bndbox></part>"
    dataset = open_voc(write(tmp_path, {"a": annotation(thing("person", more=part))}))
    assert dataset.truth(0)["boxes"].tolist() == [[0, 1, 10, 11]]


def test_boxes_from_pixel_nought_are_said(tmp_path):
    dataset = open_voc(write(tmp_path, {"a": annotation(thing(corners=(0, 5, 9, 9)))}))
    assert dataset.truth(0)["boxes"].tolist() == [[-1, 4, 10, 5]]
    assert dataset.notes[0].startswith("boxes that begin at pixel 0, where VOC counts from 1: 1; ")


def test_splits_are_lists_in_their_own_order(tmp_path):
    files = {name: annotation(thing()) for name in "abc"}
    place = write(tmp_path, files, {"val": "c\r\na -1\n\n", "train": "b\n", "cat_val": "c  1\n"})
    with pytest.raises(DatasetError, match=r"has the splits train, val\. Say which"):
        open_voc(place)
    assert [sample.id for sample in open_voc(place, split="val")] == ["c.jpg", "a.jpg"]
    assert len(open_dataset(f"{tmp_path}?split=cat_val")) == 1
    with pytest.raises(DatasetError, match=r"no list '../val'"):
        open_voc(place, split="../val")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("a\nz\n", r"val.txt lists 'z', and .*Annotations has no file z.xml"),
        ("../a\n", r"lists '../a'"),
        ("a\na\n", "lists 'a' twice"),
        ("\n", "lists no images"),
    ],
)
def test_bad_lists_are_explained(tmp_path, lines, sentence):
    place = write(tmp_path, {"a": annotation(thing())}, {"val": lines})
    with pytest.raises(DatasetError, match=sentence):
        open_voc(place)


def test_other_classes_are_in_the_order_of_the_alphabet_or_of_a_list(tmp_path):
    place = write(tmp_path, {"a": annotation(thing("zebra"), thing("ant"))}, suffix=".png")
    dataset = open_voc(place)
    assert (dataset.classes, dataset.alphabetical) == (("ant", "zebra"), True)
    listed = open_voc(place, classes="zebra,ant")
    assert (listed.truth(0)["classes"].tolist(), listed.alphabetical) == ([0, 1], False)
    with pytest.raises(DatasetError, match=r"a.xml has the class 'zebra', which is not among the names"):
        open_voc(place, classes="bee,ant")


def test_a_development_kit_with_one_year_is_that_year(tmp_path):
    write(tmp_path / "VOC2007", {"a": annotation(thing())})
    assert len(open_voc(str(tmp_path))) == 1
    write(tmp_path / "VOC2012", {"a": annotation(thing())})
    with pytest.raises(DatasetError, match="several datasets: VOC2007, VOC2012"):
        open_voc(str(tmp_path))


def test_files_beside_the_pictures(tmp_path):
    Image.new("RGB", (WIDTH, HEIGHT)).save(tmp_path / "a.PNG")
    (tmp_path / "a.xml").write_text(annotation(thing()))
    assert open_voc(str(tmp_path)).read(0).id == "a.PNG"


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><annotation>&c;</annotation>'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB, "declares a document type"),
        (BOMB.encode("utf-16"), "declares a document type"),
        ("<annotation>", "cannot be read as XML: no element found"),
        ("", "cannot be read as XML"),
        (b"\xff\xfe\xff", "cannot be read as XML"),
        ("<annotation>" + "x" * (1 << 20) + "</annotation>", "more than the 1,048,576 bytes"),
        ("<svg/>", "no annotation of Pascal VOC"),
        (annotation("<object><bndbox/></object>"), "an object without a name"),
        (annotation("<object><name>cat</name><polygon/></object>"), "'cat' in .* has no bndbox with numbers"),
        (annotation(thing(corners=(1, 2, "wide", 4))), "has no bndbox with numbers"),
        (annotation(thing(corners=(1, 2, "nan", 4))), "The box of 'cat' in .*a.xml holds NaN"),
        (annotation(thing(corners=(9, 2, 4, 4))), "has a negative side"),
        (annotation(thing(corners=(50, 2, 60, 4))), "lies outside its picture of 40 × 30 pixels"),
        (annotation(), "has an object, so that no class is known"),
    ],
)
def test_bad_annotations_are_explained(tmp_path, text, sentence):
    place = write(tmp_path, {"a": text})
    with pytest.raises(DatasetError, match=sentence):
        open_voc(place)


def test_a_picture_that_is_missing_or_ambiguous_is_named(tmp_path):
    place = write(tmp_path, {"a": annotation(thing())})
    (tmp_path / "JPEGImages" / "a.jpg").rename(tmp_path / "JPEGImages" / "b.jpg")
    with pytest.raises(DatasetError, match=r"a.xml describes 'x.jpg', and no picture"):
        open_voc(place)


@pytest.mark.parametrize("option", [{"difficult": "maybe"}, {"origin": "2"}])
def test_unknown_options_are_explained(tmp_path, option):
    with pytest.raises(DatasetError, match=f"The option {next(iter(option))} is"):
        open_voc(write(tmp_path, {"a": annotation(thing())}), **option)
