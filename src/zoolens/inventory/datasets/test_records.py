"""Samples of several parts on each line of a table."""

import json

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.dataset_contract import DatasetContract

LINES = 'photo,caption,age,mood\na.png,"one, two",1.5,happy\nb.png,,-2,sad\na.png,drei ä,0,happy\n'


def table(folder, lines=LINES):
    for name, size in (("a", (3, 2)), ("b", (1, 4))):
        Image.new("RGB", size, (9, 8, 7)).save(folder / f"{name}.png")
    (folder / "table.csv").write_text(lines)
    return f"records:{folder / 'table.csv'}?images=photo&texts=caption&numbers=age"


class TestRecords(DatasetContract):
    def opened(self, tmp_path):
        return open_dataset(table(tmp_path) + "&label=mood")


class TestValues(DatasetContract):
    def opened(self, tmp_path):
        return open_dataset(table(tmp_path) + "&value=age")

    def opened_with_another_truth(self, tmp_path):
        return open_dataset(table(tmp_path, LINES.replace("1.5", "2.5")) + "&value=age")


def test_each_part_has_its_own_kind_and_size(tmp_path):
    dataset = open_dataset(table(tmp_path) + "&label=mood")
    first, second, third = dataset
    assert first.value.dtype.names == ("photo", "caption", "age")
    assert [one.value["photo"].shape for one in dataset] == [(2, 3, 3), (4, 1, 3), (2, 3, 3)]
    assert [str(one.value["caption"]) for one in dataset] == ["one, two", "", "drei ä"]
    assert [float(one.value["age"]) for one in dataset] == [1.5, -2, 0]
    assert (dataset.labels().tolist(), dataset.classes) == ([0, 1, 0], ("happy", "sad"))
    assert dataset.alphabetical
    assert dataset.encoded
    assert dataset.read_encoded(0) == (tmp_path / "a.png").read_bytes()
    assert not np.array_equal(first.value["photo"], second.value["photo"])
    assert third.id == "2"


def test_numbers_are_parts_of_their_own_or_one_vector(tmp_path):
    rows = [{"a": [1, 2], "b": 3, "c": "4"}, {"a": [5, 6.5], "b": 7, "c": 8}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place = f"records:{tmp_path / 't.jsonl'}?numbers="
    assert [one.value["a"].tolist() for one in open_dataset(place + "a,b")] == [[1, 2], [5, 6.5]]
    joined = open_dataset(place + "all:c,b")
    assert [one.value["all"].tolist() for one in joined] == [[4, 3], [8, 7]]
    assert joined.fingerprint() != open_dataset(place + "all:b,c").fingerprint()
    assert joined.read_encoded(0) is None


def test_every_part_belongs_to_the_content(tmp_path):
    plain = open_dataset(table(tmp_path)).fingerprint()
    ways = [LINES.replace("two", "three"), LINES.replace("1.5", "1.6"), LINES.replace("b.png", "a.png")]
    found = {open_dataset(table(tmp_path, way)).fingerprint() for way in ways}
    assert len(found | {plain}) == 4


@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (LINES, "", "Nothing says what the samples of"),
        (LINES, "texts=caption,caption", "Two parts of a sample of .* are called 'caption'"),
        (LINES, "texts=nothing", "has no column 'nothing'"),
        (LINES, "numbers=mood", "line 2 has no number in 'mood', but 'happy'"),
        (LINES, "numbers=age&label=mood&value=age", "Give either label or value"),
        (LINES.replace("b.png", "gone.png"), "images=photo", "line 3, column 'photo' names 'gone.png', which does not"),
        (LINES.replace("b.png", "../b.png"), "images=photo", "lies outside the folder"),
        (LINES.replace("-2", "nan"), "numbers=age", "line 3 has no number in 'age', but 'nan'"),
        (LINES.replace("-2", "1e39"), "numbers=age", "too large for float32"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, lines, options, sentence):
    location = table(tmp_path, lines).partition("?")[0]
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(f"{location}?{options}")


@pytest.mark.parametrize("rows", [[[1, 2], [1]], [[1], 1], [[1], [None]], [[], []], [[True], [1]]])
def test_lists_of_numbers_are_all_of_one_length(tmp_path, rows):
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({"a": row}) for row in rows))
    with pytest.raises(DatasetError, match=r"line \d has no list of \d numbers in 'a'"):
        open_dataset(f"records:{tmp_path / 't.jsonl'}?numbers=a")
