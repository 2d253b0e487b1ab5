"""Images, sounds and arrays with true texts: tables of several forms, and sentences for what is wrong."""

import json
import wave

import numpy as np
import pytest
from PIL import Image

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.dataset_contract import DatasetContract

TEXTS = {"a.png": "one", "b.png": "", "c.png": "drei, \u00e4"}


def pictures(tmp_path):
    for place, name in enumerate(TEXTS):
        Image.new("RGB", (8 + place, 4), (place, 0, 0)).save(tmp_path / name)
    return tmp_path


@pytest.fixture
def folder(tmp_path):
    return pictures(tmp_path)


def written(folder, form):
    rows = list(TEXTS.items())
    if form == "csv":
        lines = ["file,text,other", *(f'{name},"{text}",x' for name, text in rows)]
    elif form == "tsv":
        lines = ["path\tsentence", *(f"{name}\t{text}" for name, text in rows)]
    elif form == "jsonl":
        lines = [json.dumps({"file_name": name, "transcription": text}) for name, text in rows]
    else:
        lines = [f"{name}\t{text}" for name, text in rows]
    (folder / f"texts.{form}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"imagefolder:{folder}?text=texts.{form}"


class TestWrittenTexts(DatasetContract):
    def opened(self, tmp_path):
        return open_dataset(written(pictures(tmp_path), "csv"))

    def opened_with_another_truth(self, tmp_path):
        pictures(tmp_path)
        (tmp_path / "texts.csv").write_text("file,text\na.png,two\nb.png,\nc.png,x\n", encoding="utf-8")
        return open_dataset(f"imagefolder:{tmp_path}?text=texts.csv")


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "txt"])
def test_tables_of_every_form(folder, form):
    dataset = open_dataset(written(folder, form))
    assert dataset.truth_kind == "text"
    assert [dataset.truth(place)["text"].tolist() for place in range(3)] == [[text] for text in TEXTS.values()]
    assert [sample.id for sample in dataset] == list(TEXTS)
    assert dataset.read(2).value.shape == (4, 10, 3)


def test_a_text_that_nobody_said_is_no_truth(folder):
    lines = [json.dumps({"file": name, "text": None if name == "b.png" else "x"}) for name in TEXTS]
    (folder / "t.jsonl").write_text("\n".join(lines))
    dataset = open_dataset(f"imagefolder:{folder}?text=t.jsonl")
    assert [dataset.truth(place) is None for place in range(3)] == [False, True, False]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.csv", "file,text\n../up.png,x\n", "lies outside the folder"),
        ("t.csv", "file,text\nnone.png,x\n", "does not exist"),
        ("t.csv", "file,text\na.png,x\na.png,y\n", "lists a file twice"),
        ("t.csv", "file,text\n", "lists no files"),
        ("t.csv", "file,words of it\na.png,x\n", "has no column called text, transcription, transcript"),
        ("t.txt", "a.png one\n", "line 1 has no tab between a file and its text"),
        ("t.jsonl", '{"file": "a.png", "text": 3}\n', "the true text is '3', which is no text"),
        ("t.jsonl", '{"file": "a.png", "text": "\\ud800"}\n', "half a character"),
        ("t.png", "x", "is not called .csv, .tsv, .jsonl"),
    ],
)
def test_tables_that_cannot_be_read(folder, name, content, words):
    (folder / name).write_text(content)
    with pytest.raises(DatasetError, match=words):
        open_dataset(f"imagefolder:{folder}?text={name}")


def test_one_way_of_judging(folder):
    with pytest.raises(DatasetError, match="judged in one way"):
        open_dataset(f"{written(folder, 'csv')}&present=texts.csv")
    with pytest.raises(DatasetError, match="lies outside the folder"):
        open_dataset(f"imagefolder:{folder}?text=../texts.csv")


def test_sounds_with_transcripts(tmp_path):
    for place in range(2):
        with wave.open(str(tmp_path / f"{place}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(np.arange(4 + place, dtype="<i2").tobytes())
    (tmp_path / "said.csv").write_text("path,sentence\n1.wav,yes\n0.wav,no\n")
    dataset = open_dataset(f"sounds:{tmp_path}?text=said.csv")
    assert [dataset.truth(place)["text"][0] for place in range(2)] == ["yes", "no"]
    assert [sample.id for sample in dataset] == ["1.wav", "0.wav"]


@pytest.mark.parametrize("query", ["text=said.csv&classes=a,b", "text=said.csv&active=a", "active=a&classes=a,b"])
def test_options_that_would_be_ignored_are_refused(folder, query):
    with pytest.raises(DatasetError, match=r"(classes names those of labels|active is for voice activity)"):
        open_dataset(f"sounds:{folder}?{query}")
    if "active" not in query:
        for judged in ("text", "present"):
            with pytest.raises(DatasetError, match="classes names those of labels; present and text have none"):
                open_dataset(f"imagefolder:{folder}?{judged}=t.csv&classes=a,b")


def test_arrays_with_texts(tmp_path):
    np.savez(tmp_path / "lines.npz", x=np.zeros((2, 4, 8, 1), np.uint8), y=np.array(["ab", "c"]))
    dataset = open_dataset(f"npz:{tmp_path / 'lines.npz'}?value=y")
    assert [dataset.truth(place)["text"][0] for place in range(2)] == ["ab", "c"]
    np.savez(tmp_path / "short.npz", x=np.zeros((2, 4)), y=np.array(["ab"]))
    with pytest.raises(DatasetError, match="not one for each sample"):
        open_dataset(f"npz:{tmp_path / 'short.npz'}?value=y")
