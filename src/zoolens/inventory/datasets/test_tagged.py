"""Words with tags, and questions with answers: what is read, and what is refused."""

import json

import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.text_dataset import TextPair, Words
from zoolens.testing.dataset_contract import DatasetContract

CONLL = """-DOCSTART- -X- -X- O

Anna NNP I-NP B-PER
Maria NNP I-NP I-PER
in IN I-PP O
Rome NNP I-NP B-LOC

# NN I-NP O
"""


class TestTagged(DatasetContract):
    def opened(self, tmp_path):
        (tmp_path / "a.conll").write_text(CONLL)
        return open_dataset(tmp_path / "a.conll")


def tags(spec):
    dataset = open_dataset(spec)
    return [dataset.truth(place)["tags"].tolist() for place in range(len(dataset))]


def test_columns_are_words_and_tags(tmp_path):
    dataset = TestTagged().opened(tmp_path)
    assert dataset.truth_kind == "tags"
    assert [sample.value.item() for sample in dataset] == [Words(("Anna", "Maria", "in", "Rome")), Words(("#",))]
    assert tags(tmp_path / "a.conll") == [["B-PER", "I-PER", "O", "B-LOC"], ["O"]]
    assert tags(f"{tmp_path / 'a.conll'}?tag=2") == [["B-NP", "I-NP", "B-PP", "B-NP"], ["B-NP"]]
    assert not dataset.notes


@pytest.mark.parametrize(
    ("given", "scheme"),
    [
        (["I-PER", "I-PER", "O", "I-LOC", "B-LOC"], "IOB1"),
        (["B-PER", "E-PER", "O", "S-LOC", "S-LOC"], "BIOES"),
        (["B-PER", "L-PER", "O", "U-LOC", "U-LOC"], "BILOU"),
    ],
)
def test_other_schemes_become_bio_and_this_is_said(tmp_path, given, scheme):
    (tmp_path / "a.conll").write_text("".join(f"word {tag}\n" for tag in given))
    assert tags(tmp_path / "a.conll") == [["B-PER", "I-PER", "O", "B-LOC", "B-LOC"]]
    assert open_dataset(tmp_path / "a.conll").notes == (f"its tags are {scheme}, which were converted to BIO",)
    assert tags(f"{tmp_path / 'a.conll'}?scheme={scheme}") == tags(tmp_path / "a.conll")


def test_entities_that_are_ranges_of_characters(tmp_path):
    tokens = [[0, 4, "Anna"], [5, 8, "von"], [9, 13, "Rome"], [13, 14, "."]]
    nested = [[9, 13, "LOC"], [0, 13, "PER"]]
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": 1, "tokens": tokens, "entities": nested}) + "\n")
    assert tags(f"tagged:{tmp_path / 'a.jsonl'}") == [["B-PER", "I-PER", "I-PER", "O"]]
    listed = {"text": "Anna von Rome.", "spans": [{"start": 9, "end": 13, "label": "LOC"}]}
    (tmp_path / "b.jsonl").write_text(json.dumps(listed) + "\n")
    dataset = open_dataset(f"tagged:{tmp_path / 'b.jsonl'}")
    assert dataset.read(0).value.item().parts == ("Anna", "von", "Rome", ".")
    assert dataset.truth(0)["tags"].tolist() == ["O", "O", "B-LOC", "O"]
    assert "were split into words" in dataset.notes[0]
    (tmp_path / "c.jsonl").write_text(json.dumps({"tokens": ["Anna", "!"], "tags": ["B-PER", "O"]}) + "\n")
    assert tags(f"tagged:{tmp_path / 'c.jsonl'}") == [["B-PER", "O"]]


@pytest.mark.parametrize(
    ("name", "content", "options", "sentence"),
    [
        ("a.conll", "word\n", "", "line 1 has the tag 'word', which is neither O"),
        ("a.conll", "word O\n", "?tag=5", "line 1 has 2 columns, not one for the word and one for the tag"),
        ("a.conll", "word O\n", "?tag=last", "columns of a CoNLL file are numbered"),
        ("a.conll", "word E-X\n", "?scheme=BIO", "has the tag 'E-X', which BIO does not have"),
        ("a.conll", "word O\n", "?scheme=IOB9", "no scheme 'IOB9'"),
        ("a.conll", "\n\n", "", "is empty"),
        ("a.jsonl", '{"tokens": ["a"], "tags": ["O", "O"]}\n', "", "has 1 words but 2 tags"),
        ("a.jsonl", '{"tokens": ["a"], "entities": [[0, 1, "X"]]}\n', "", "its words have no places"),
        ("a.jsonl", '{"text": "a", "entities": [[1, 0, "X"]]}\n', "", r"where \[begin, end, word or type\]"),
        ("a.jsonl", '{"text": "a"}\n', "", "no list of tags or entities"),
        ("a.jsonl", '{"tags": ["O"]}\n', "", "has no words"),
        ("a.jsonl", '{"tokens": ["a"], "tags": [3]}\n', "", "its words have no places"),
    ],
)
def test_what_are_no_tagged_words_is_one_sentence(tmp_path, name, content, options, sentence):
    (tmp_path / name).write_text(content)
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(f"tagged:{tmp_path / name}{options}")


# --- questions


def squad(**change):
    asked = [
        {"id": "q1", "question": "Who?", "answers": [{"text": "Anna", "answer_start": 0}, {"text": "Anna M."}]},
        {"id": "q2", "question": "When?", "answers": [], "is_impossible": True, **change},
    ]
    return {"version": "v2.0", "data": [{"paragraphs": [{"context": "Anna M. sings.", "qas": asked}]}]}


class TestSquad(DatasetContract):
    def opened(self, tmp_path):
        (tmp_path / "dev.json").write_text(json.dumps(squad()))
        return open_dataset(f"squad:{tmp_path / 'dev.json'}")


def test_questions_have_answers_or_none(tmp_path):
    dataset = TestSquad().opened(tmp_path)
    assert [sample.id for sample in dataset] == ["q1", "q2"]
    assert dataset.read(0).value.item() == TextPair("Who?", "Anna M. sings.")
    assert [dataset.truth(place)["texts"].tolist() for place in (0, 1)] == [["Anna", "Anna M."], []]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "is not JSON"),
        ("[]", "not in SQuAD's form"),
        ('{"data": [{"paragraphs": [{"context": 1, "qas": []}]}]}', "has a context that is no text: '1'"),
        (json.dumps(squad(id="q1")), "Two samples of a have the same id"),
        (json.dumps(squad(is_impossible=False, answers=[{"text": "noon"}])), "'noon' to the question q2 is not in its"),
    ],
)
def test_what_is_no_squad_is_one_sentence(tmp_path, content, sentence):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DatasetError, match=sentence):
        open_dataset(f"squad:{tmp_path / 'a.json'}")
