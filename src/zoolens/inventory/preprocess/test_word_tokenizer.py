"""Whole words as tokens: patterns, vocabulary files, and what is refused."""

import json

import pytest

from zoolens.base.errors import DatasetError, ManifestError
from zoolens.inventory.datasets.text_dataset import TextPair, Words
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.tokenizer_client import OpenTokenizer
from zoolens.inventory.preprocess.word_shapes import RULES
from zoolens.inventory.preprocess.word_tokenizer import TEXT, WORDS, WordEncoder

DECLARED = {
    "pattern": r"[^\w']+", "matches": "separators", "lower_case": True, "key": None, "unknown_id": 2, "start_id": 1,
    "shapes": None,
}  # fmt: skip
LINES = b"<PAD> 0\n<START> 1\n<UNKNOWN> 2\ngood 3\nit's 4\n"


def encoded(text, content=LINES, longest=8, cut="right", form=TEXT, **changes):
    encoder = WordEncoder(content, {**DECLARED, **changes}, longest, cut)
    return encoder.encode(form, [text] if isinstance(text, str) else text)


def test_words_between_separators():
    """As TensorFlow Lite's RegexTokenizer splits: nothing stands before a separator that begins a text."""
    found = encoded("...Good, it's BAD")
    assert found.ids == [1, 3, 4, 2]
    assert (found.unknown, found.cut) == (1, False)
    assert [found.begins[1], found.ends[1]] == [3, 7]
    assert found.words == [-1, 0, 1, 2]


def test_words_that_match():
    found = encoded("good-it's?", pattern=r"[a-z']+|[?-]", matches="words", start_id=None)
    assert found.ids == [3, 2, 4, 2]


def test_long_texts_are_cut_on_the_declared_side():
    assert encoded("good good bad", longest=3).ids == [1, 3, 3]
    left = encoded("good good bad", longest=3, cut="left")
    assert (left.ids, left.cut) == ([1, 3, 2], True)
    assert len(encoded("good " * 20, longest=3, cut="refuse").ids) == 21


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (LINES, None),
        (b"<PAD>\n<START>\n<UNKNOWN>\ngood\nit's\n\n", None),
        (json.dumps(["<PAD>", "<START>", "<UNKNOWN>", "good", "it's"]).encode(), None),
        (json.dumps({"good": 3, "it's": 4}).encode(), None),
        (json.dumps({"words": {"good": 3, "it's": 4}, "other": 1}).encode(), "words"),
    ],
)
def test_the_same_vocabulary_in_five_forms(content, key):
    assert encoded("good it's new", content, key=key).ids == [1, 3, 4, 2]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b'{"a": -1}', b'{"a": true}', b"[" * 100_000])
def test_what_is_no_vocabulary_is_refused(content):
    with pytest.raises(ManifestError, match="The vocabulary is neither JSON"):
        encoded("good", content)


def test_words_of_the_data_are_taken_as_they_are():
    found = encoded(["It's", "not good"], form=WORDS, pattern=None)
    assert found.ids == [1, 4, 2]
    with pytest.raises(ManifestError, match="declares no pattern"):
        encoded("a text", pattern=None)
    with pytest.raises(ManifestError, match="is not a regular expression"):
        encoded("a text", pattern="(")


def test_shapes_of_words():
    shape = RULES["slovnet"]
    words = ["Анна", "анна", "АННА", "Я", "Анна-Мария", "iPhone", "Rome", "1889", "«", "...", "№5", "§"]
    assert [shape(word) for word in words] == [
        "RU_Xx", "RU_xx", "RU_XX", "RU_X", "RU_Xx-Xx", "EN_OTHER", "EN_Xx", "NUM", "PUNCT_«", "PUNCT_OTHER",
        "PUNCT_OTHER", "OTHER",
    ]  # fmt: skip


def opened(tmp_path, **declared):
    (tmp_path / "vocabulary.txt").write_bytes(LINES)
    words = {"pattern": r"\S+", "unknown_id": 2}
    tokenizer = Tokenizer(**{"max_length": 4, "vocabulary": 5, "pad_id": 0, "words": words, **declared})
    return OpenTokenizer(tokenizer, tmp_path / "vocabulary.txt")


def test_words_are_split_in_a_process_of_their_own(tmp_path):
    tokenizer = opened(tmp_path)
    try:
        tokens = tokenizer.encode(["good new", "good"], places=True)
        assert tokens.ids.tolist() == [[3, 2, 0, 0], [3, 0, 0, 0]]
        assert tokens.unknown.tolist() == [1, 0]
        assert tokens.places[0].begins.tolist() == [0, 5]
        assert tokenizer.encode([Words(("good", "it's"))]).ids.tolist() == [[3, 4, 0, 0]]
        assert tokenizer.show("good new") == ["good", "new (unknown)"]
        with pytest.raises(ManifestError, match="takes one text, not a pair"):
            tokenizer.encode([TextPair("a", "b")])
        with pytest.raises(DatasetError, match="half of a character"):
            tokenizer.encode(["\ud800"])
    finally:
        tokenizer.close()


def test_a_vocabulary_of_another_model_and_padding_without_a_number_are_refused(tmp_path):
    tokenizer = opened(tmp_path, vocabulary=4)
    try:
        with pytest.raises(ManifestError, match="id 4, but the model knows the ids 0 to 3 only"):
            tokenizer.encode(["it's"])
    finally:
        tokenizer.close()
    with pytest.raises(ManifestError, match="does not say which id stands for padding"):
        opened(tmp_path, pad_id=None)


def test_declarations_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="belong together"):
        Tokenizer(max_length=4, vocabulary=5, tensors={"input_ids": "a", "shape_ids": "b"})
    with pytest.raises(ValueError, match="takes one text, not a pair"):
        Tokenizer(max_length=4, vocabulary=5, words={"unknown_id": 0}, pair="only_second")
