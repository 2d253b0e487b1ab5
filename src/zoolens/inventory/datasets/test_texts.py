"""Tables of texts: columns by name, labels that are numbers or words, and what is refused."""

import json

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import TextDataset, TextPair
from zoolens.testing.dataset_contract import DatasetContract


class TestTexts(DatasetContract):
    def opened(self, tmp_path):
        return TextDataset(["good", "", "bad, \u202efilm"], [1, 0, 0], name="texts", classes=("no", "yes"))


class TestPairs(DatasetContract):
    def opened(self, tmp_path):
        (tmp_path / "pairs.csv").write_text('a,"b, c",2.5\n"",d,0\n')
        return open_dataset(f"text:{tmp_path / 'pairs.csv'}?columns=first,second,s&text=first,second&similarity=s")


class TestValues(DatasetContract):
    def opened(self, tmp_path):
        (tmp_path / "values.tsv").write_text("rating\ttext\n-1.5\tbad\n2\tgood\n")
        return open_dataset(f"{tmp_path / 'values.tsv'}?value=rating")


def test_a_column_of_numbers_is_true_values(tmp_path):
    dataset = TestValues().opened(tmp_path)
    assert dataset.truth_kind == "value"
    assert [dataset.truth(place)["value"].tolist() for place in (0, 1)] == [[-1.5], [2.0]]
    assert dataset.labels().tolist() == [-1, -1]
    (tmp_path / "two.jsonl").write_text('{"text": "x", "a": 1, "b": "2.5"}\n')
    assert open_dataset(f"{tmp_path / 'two.jsonl'}?value=a,b").truth(0)["value"].tolist() == [1.0, 2.5]


def test_pairs_of_texts(tmp_path):
    dataset = TestPairs().opened(tmp_path)
    assert dataset.read(0).value.item() == TextPair("a", "b, c")
    assert str(dataset.read(0).value) == "a | b, c"
    assert dataset.truth_kind == "similarity"
    assert dataset.truth(0)["similarity"].tolist() == [2.5]
    (tmp_path / "labelled.csv").write_text("q,a,label\nx,y,yes\nx,z,no\n")
    assert open_dataset(f"{tmp_path / 'labelled.csv'}?text=q,a").labels().tolist() == [1, 0]


def test_truths_and_the_limits_of_texts_are_part_of_the_fingerprint(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,s\nxy,z,1\n")
    (tmp_path / "b.csv").write_text("a,b,s\nx,yz,1\n")
    (tmp_path / "c.csv").write_text("a,b,s\nxy,z,2\n")
    ways = [f"{tmp_path / name}.csv?text=a,b&{kind}=s" for name in "abc" for kind in ("value", "similarity")]
    assert len({open_dataset(way).fingerprint() for way in ways}) == 6


def read(path):
    dataset = open_dataset(path)
    return [str(sample.value) for sample in dataset], dataset.labels().tolist(), dataset.classes


def test_the_same_texts_in_three_kinds_of_files_are_the_same_data(tmp_path):
    rows = [("1", 'good, "really"'), ("0", "bad 'film"), ("1", " 👍 ")]
    (tmp_path / "a.tsv").write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows))
    quoted = [text.replace('"', '""') for _, text in rows]
    lines = [f'"{text}",{label}\r\n' for text, (label, _) in zip(quoted, rows, strict=True)]
    (tmp_path / "a.csv").write_bytes(("\ufefftext,label\r\n" + "".join(lines)).encode())
    objects = [json.dumps({"label": int(label), "text": text, "other": None}) for label, text in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(objects) + "\n\n")
    opened = [open_dataset(tmp_path / name) for name in ("a.tsv", "a.csv", "a.jsonl")]
    assert len({dataset.fingerprint() for dataset in opened}) == 1
    assert read(tmp_path / "a.csv") == ([text for _, text in rows], [1, 0, 1], None)
    (tmp_path / "b.tsv").write_text("label\ttext\n0\tgood\n1\tbad\n")
    assert open_dataset(tmp_path / "b.tsv").fingerprint() != opened[0].fingerprint()


def test_labels_that_are_words_are_classes_whose_order_nothing_says(tmp_path):
    (tmp_path / "words.csv").write_text("review,category\nfine,positive\npoor,negative\n")
    dataset = open_dataset(tmp_path / "words.csv")
    assert (dataset.classes, dataset.labels().tolist(), dataset.alphabetical) == (
        ("negative", "positive"),
        [1, 0],
        True,
    )
    named = open_dataset(f"text:{tmp_path / 'words.csv'}?classes=positive,negative")
    assert (named.classes, named.labels().tolist(), named.alphabetical) == (("positive", "negative"), [0, 1], False)
    unlabelled = open_dataset(f"{tmp_path / 'words.csv'}?label=none")
    assert not unlabelled.labelled
    (tmp_path / "stars.csv").write_text("text,label\nfine,5\npoor,1\n")  # names that are numbers, counted from 1
    stars = open_dataset(f"{tmp_path / 'stars.csv'}?classes=1,2,3,4,5")
    assert stars.labels().tolist() == [4, 0]


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("a.csv", "a,b\n1,2\n", "", "no column with a usual name for text.*It has a, b; choose with the option text"),
        ("a.csv", "text,label\nx,1,2\n", "", "line 2 has 3 columns, but the first line names 2"),
        ("a.csv", 'text,label\n"x,1\n', "", "line 2 cannot be read"),
        ("a.tsv", "text\tlabel\nx\n", "", "line 2 has 1 columns"),
        ("a.tsv", "text\tlabel\nx\t2.726\n", "", "holds the number 2.726, which is not a class.*label=none"),
        ("a.tsv", "text\tlabel\nx\t-1\ny\t1\n", "?classes=no,yes", "has the class '-1', which the class file"),
        ("a.tsv", "text\ttext\nx\t1\n", "", "two columns of one name"),
        ("a.tsv", "text\tlabel\nx\t\n", "", "line 2 has no label in 'label'"),
        ("a.jsonl", '{"text": 5}\n', "", "line 1 has no text in 'text'"),
        ("a.jsonl", '{"text": "x"}\n[1]\n', "", "line 2 is not a JSON object"),
        ("a.jsonl", '{"text": "x"\n', "", "line 1 is not JSON"),
        ("a.jsonl", "[" * 5000, "", "line 1 is not JSON"),
        ("a.csv", "text,label\n", "", "is empty"),
        ("a.csv", "text;label\nx;1\n", "", "has one column, 'text;label': its columns seem to be separated by ';'"),
        ("a.csv", "a,b,c\nx,y,z\n", "?text=a,b,c", "one text or a pair, but text='a,b,c' names 3 columns"),
        ("a.csv", "text,score\nx,high\n", "?value=score", "line 2 has no number in 'score', but 'high'"),
        ("a.csv", "text,score\nx,nan\n", "?value=score", "line 2 has no number in 'score', but 'nan'"),
        ("a.jsonl", '{"text": "x", "score": true}\n', "?value=score", "line 1 has no number in 'score', but 'True'"),
        ("a.csv", "text,score\nx,1\n", "?similarity=score", "how alike two texts are, but a sample of .* has one text"),
        ("a.csv", "a,b,s\nx,y,1\n", "?text=a,b&similarity=s&value=s", "either value or similarity"),
        ("a.csv", "text,s\nx,1\n", "?value=s&label=s", "either label or a column of numbers"),
        ("a.csv", "x,y,1\nx,1\n", "?columns=a,b,s&text=a,b", "line 2 has 2 columns, but the option columns names 3"),
        ("a.jsonl", '{"text": "x"}\n', "?columns=text", "is for tables without names"),
    ],
)  # fmt: skip
def test_what_is_no_table_of_texts_is_one_sentence(tmp_path, name, content, options, sentence):
    (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(f"text:{tmp_path / name}{options}")


def test_texts_that_are_no_utf8_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"text,label\nna\xefve,1\n")
    with pytest.raises(DatasetError, match="it is not UTF-8 text"):
        open_dataset(tmp_path / "a.csv")
    assert np.asarray(TextDataset(["x"], [0], name="x").read(0).value).item() == "x"


def test_columns_are_found_in_any_case_and_one_that_may_be_labels_is_said(tmp_path):
    (tmp_path / "a.csv").write_text("Text,Label\ngood,1\n")
    assert open_dataset(tmp_path / "a.csv").labels().tolist() == [1]
    (tmp_path / "a.csv").write_text("text,stars\ngood,1\n")
    (said,) = open_dataset(tmp_path / "a.csv").notes
    assert said.startswith("none of the columns stars has a usual name for labels")
    assert not open_dataset(f"text:{tmp_path / 'a.csv'}?label=none").notes
