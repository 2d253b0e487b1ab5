"""Parquet and Arrow files with declared columns: texts, pairs, numbers, labels, true texts and tags."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import TextPair, Words
from zoolens.testing.dataset_contract import DatasetContract

ROWS = {
    "a": ["good", "", "ship"],
    "b": ["bad", "film", "boat"],
    "rating": [0.5, -2.0, 3.25],
    "stars": [1, 2, 3],
    "cat": [1, 0, None],
    "dog": [0, 1, 1],
    "kinds": [["x"], [], ["y", "x"]],
    "numbers": [[1], [0, 2], None],
    "tokens": [["Anna", "sings"], ["Rome"], []],
    "ner_tags": [[1, 0], [2], []],
    "tags": [["B-PER", "O"], ["B-LOC"], []],
    "mood": ["sad", "glad", "sad"],
    "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "hole": [1.0, None, 2.0],
    "nan": [1.0, float("nan"), 2.0],
}
FEATURES = {"ner_tags": {"feature": {"names": ["O", "B-PER", "B-LOC"], "_type": "ClassLabel"}, "_type": "Sequence"}}


def table():
    image = io.BytesIO()
    Image.new("RGB", (4, 4)).save(image, "PNG")
    columns = {**ROWS, "picture": [image.getvalue()] * 3}
    meta = {"huggingface": json.dumps({"info": {"features": FEATURES}})}
    return pa.table(columns).replace_schema_metadata(meta)


@pytest.fixture(params=["parquet", "arrow"])
def opened(request, tmp_path):
    path = tmp_path / f"rows.{request.param}"
    if request.param == "parquet":
        pq.write_table(table(), path, row_group_size=2)
    else:
        with pa.ipc.new_stream(path, table().schema) as writer:
            writer.write_table(table())
    kind = {"parquet": "parquet", "arrow": "saved"}[request.param]
    return lambda query: open_dataset(f"{kind}:{path}?{query}")


def truths(dataset, part):
    found = (dataset.truth(place) for place in range(len(dataset)))
    return [None if truth is None else truth[part].tolist() for truth in found]


class TestColumns(DatasetContract):
    def opened(self, tmp_path):
        pq.write_table(table(), tmp_path / "rows.parquet")
        return open_dataset(f"parquet:{tmp_path / 'rows.parquet'}?x=picture&truth=value:rating")

    def opened_with_another_truth(self, tmp_path):
        pq.write_table(table(), tmp_path / "rows.parquet")
        return open_dataset(f"parquet:{tmp_path / 'rows.parquet'}?x=picture&truth=value:stars")


def test_numbers_of_images_arrays_and_texts(opened):
    for inputs in ("picture", "vector", "a"):
        dataset = opened(f"x={inputs}&truth=value:rating")
        assert dataset.truth_kind == "value"
        assert truths(dataset, "value") == [[0.5], [-2.0], [3.25]]
    assert truths(opened("x=a&truth=value:rating,stars"), "value") == [[0.5, 1], [-2, 2], [3.25, 3]]
    assert truths(opened("x=a&truth=value:vector"), "value") == ROWS["vector"]
    assert opened("x=picture&truth=value:rating").read(0).value.shape == (4, 4, 3)


def test_texts_pairs_and_labels(opened):
    assert [str(sample.value) for sample in opened("x=a&y=none")] == ROWS["a"]
    labelled = opened("x=a&y=mood")
    assert (labelled.labels().tolist(), labelled.classes) == ([1, 0, 1], ("glad", "sad"))
    pairs = opened("x=a,b&truth=similarity:rating")
    assert pairs.read(2).value.item() == TextPair("ship", "boat")
    assert truths(pairs, "similarity") == [[0.5], [-2.0], [3.25]]


def test_several_labels(opened):
    flags = opened("x=a&truth=labels:cat,dog")
    assert flags.classes == ("cat", "dog")
    assert truths(flags, "present") == [[1, 0], [0, 1], [-1, 1]]
    named = opened("x=picture&truth=labels:kinds")
    assert (named.classes, truths(named, "present")) == (("x", "y"), [[1, 0], [0, 0], [1, 1]])
    numbered = opened("x=a&truth=labels:numbers&classes=p,q,r")
    assert truths(numbered, "present") == [[0, 1, 0], [1, 0, 1], None]


def test_true_texts_and_tags(opened):
    assert truths(opened("x=picture&truth=text:mood"), "text") == [["sad"], ["glad"], ["sad"]]
    for query in ("truth=tags:tags", "truth=tags:ner_tags", "truth=tags:ner_tags&classes=O,B-PER,B-LOC"):
        dataset = opened(f"x=tokens&{query}")
        assert dataset.read(0).value.item() == Words(("Anna", "sings"))
        assert truths(dataset, "tags") == ROWS["tags"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("x=a&truth=rating", "is not a kind and its columns"),
        ("x=a&truth=boxes:rating", "kinds are value, similarity, labels, text, tags"),
        ("x=a&truth=value:none", "has no column 'none'"),
        ("x=a&truth=value:rating,", "has no column ''"),
        ("x=a&truth=value:hole", "without a number, or with NaN"),
        ("x=a&truth=value:nan", "without a number, or with NaN"),
        ("x=a&truth=value:mood", "without a number, or with NaN"),
        ("x=a&truth=value:kinds", "lists of different lengths"),
        ("x=a&truth=similarity:rating", "is no pair of texts"),
        ("x=picture&truth=similarity:rating", "is no pair of texts"),
        ("x=a&truth=text:rating", "holds double, not texts"),
        ("x=a&truth=labels:rating,dog", "have the value 0.5"),
        ("x=a&truth=labels:numbers", "nothing says how many labels there are"),
        ("x=a&truth=labels:numbers&classes=p,q", "the label '2', which is none of 2"),
        ("x=a&truth=labels:mood,dog", "other values than 0 and 1"),
        ("x=a&truth=tags:tags", "has no list in a"),
        ("x=picture&truth=tags:tags", "Tags are of words"),
        ("x=tokens&truth=tags:numbers", "has no list in numbers"),
        ("x=tokens&truth=tags:kinds", "1 words|2 words|neither O nor"),
        ("x=a&y=mood&truth=value:rating", "judged in one way"),
        ("x=picture,vector&truth=value:rating", "only texts come in pairs"),
        ("x=a,b,mood&truth=value:rating", "one text or a pair, but x names 3"),
        ("x=kinds&y=none", "holds list<.*>, not texts"),
    ],
)
def test_columns_that_do_not_fit_are_refused(opened, query, words):
    with pytest.raises(DatasetError, match=words):
        opened(query)


def test_a_dictionary_of_one_long_text_is_no_bomb(tmp_path):
    rows = 70_000
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 4000]))
    pq.write_table(pa.table({"text": texts}), tmp_path / "bomb.parquet")
    with pytest.raises(DatasetError, match=r"more than 268,435,456 bytes together"):
        open_dataset(f"parquet:{tmp_path / 'bomb.parquet'}?y=none")


def saved_arrow(path, column):
    made = pa.table({"text": ["one"], "many": column})
    with pa.ipc.new_stream(path, made.schema) as writer:
        writer.write_table(made)
    return f"saved:{path}"


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.null()), pa.list_(pa.list_(pa.null())), pa.list_(pa.null(), 1 << 25), pa.list_view(pa.int8()),
             pa.list_(pa.list_(pa.int8(), 0)), pa.list_(pa.struct([]))]
)  # fmt: skip
def test_values_that_take_no_room_in_a_file_are_refused(tmp_path, kind):
    """A list of 2³¹ nulls is a file of 500 bytes, and as a list of Python 16 GiB."""
    place = saved_arrow(tmp_path / "bomb.arrow", pa.nulls(1, kind))
    for query in ("x=text&truth=value:many", "x=text&truth=labels:many", "x=many&y=none"):
        with pytest.raises(DatasetError, match=r"The column many of .* holds .*, which is not read"):
            open_dataset(f"{place}?{query}")


def test_the_values_of_lists_are_counted_before_they_are_unpacked(tmp_path):
    flags = pa.ListArray.from_arrays([0, (1 << 24) + 1], pa.array(np.zeros((1 << 24) + 1, np.bool_)))
    place = saved_arrow(tmp_path / "flags.arrow", flags)
    with pytest.raises(DatasetError, match=r"16,777,217 samples, more than"):
        open_dataset(f"{place}?x=text&truth=value:many")


def test_words_may_be_long_strings_everywhere(tmp_path, monkeypatch):
    """list<large_string> is what polars writes; the limit of texts holds for it too."""
    place = saved_arrow(tmp_path / "long.arrow", pa.array([["x" * 200, "y"]], pa.list_(pa.large_string())))
    assert open_dataset(f"{place}?x=text&truth=labels:many").classes == ("x" * 200, "y")
    monkeypatch.setattr("zoolens.inventory.datasets.column_truths.MAX_TEXTS", 100)
    with pytest.raises(DatasetError, match="more than 100 bytes together"):
        open_dataset(f"{place}?x=text&truth=labels:many")


def test_texts_have_their_usual_name(tmp_path):
    pq.write_table(pa.table({"text": ["one", None], "label": [0, 1]}), tmp_path / "gap.parquet")
    with pytest.raises(DatasetError, match="Row 1 of gap has no text in text"):
        open_dataset(f"parquet:{tmp_path / 'gap.parquet'}")
