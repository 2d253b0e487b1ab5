"""Texts become the inputs of a model as the manifest declares, and what cannot become one is refused in words."""

import json

import numpy as np
import pytest

from zoolens.base.errors import DatasetError, ManifestError, ZoolensError
from zoolens.inventory.datasets import text_dataset
from zoolens.inventory.datasets.text_dataset import Prompt, Writing
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.manifests.schema_steps import Pool
from zoolens.inventory.preprocess.text import PrepareText
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.testing.text_models import MAX_LENGTH, VOCABULARY, write_tokenizer

pytest.importorskip("tokenizers")

PAD, UNK, CLS, SEP, GOOD, BAD, FILM = range(7)
INPUTS = tuple(TensorSpec(name, (None, None), "int64") for name in ("ids", "mask", "types"))
TENSORS = {"input_ids": "ids", "attention_mask": "mask", "token_type_ids": "types"}


def declared(**changes):
    tokenizer = {"max_length": MAX_LENGTH, "vocabulary": len(VOCABULARY), "tensors": TENSORS, **changes}
    return Input(modality="text", shape=(None, None), dtype="int64", tokenizer=tokenizer)


def texts(*words):
    values = np.empty(len(words), object)
    values[:] = words
    return values


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tokenizer(tmp_path_factory.mktemp("tokens") / "tokenizer.json")


@pytest.fixture
def prepare(path):
    made = []

    def make(inputs=INPUTS, file=path, **changes):
        made.append(PrepareText(declared(**changes), inputs, file))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_text_fills_all_inputs_and_is_filled_up(prepare):
    text = prepare()
    feeds = text.feeds(text.many(texts("Good FILM", "a bad, BAD film!")))
    assert feeds["ids"].tolist() == [
        [CLS, GOOD, FILM, SEP, PAD, PAD, PAD, PAD],
        [CLS, UNK, BAD, UNK, BAD, FILM, UNK, SEP],
    ]
    assert feeds["mask"].tolist() == [[1] * 4 + [0] * 4, [1] * 8]
    assert feeds["types"].sum() == 0
    assert [value.dtype for value in feeds.values()] == [np.int64] * 3
    assert text.many(texts("good " * 50))["ids"][0].tolist() == [CLS, *[GOOD] * 6, SEP]
    assert text.tokenizer.show("Good zebra") == ["[CLS]", "good", "[UNK]", "[SEP]"]
    assert text.tokenizer.size == len(VOCABULARY)
    alone = text.feeds(text(np.array("", object))[np.newaxis])  # an empty text is its special tokens
    assert (alone["ids"][0, :3].tolist(), alone["mask"].sum()) == ([CLS, SEP, PAD], 2)


@pytest.mark.parametrize("padding", ["max_length", "longest"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_a_prompt_is_continued_without_its_padding(prepare, padding, side):
    text = prepare(padding=padding, padding_side=side, special_tokens=False)
    record = text(np.array(Prompt("good bad film", Writing(3)), object))
    assert text.prompt_ids(record).tolist() == [GOOD, BAD, FILM]


def test_padding_goes_where_it_is_declared_and_no_further_than_the_longest(prepare):
    text = prepare(padding="longest", padding_side="left", special_tokens=False, truncation="left")
    records = text.many(texts("good", "bad film good"))
    assert text.feeds(records)["ids"].tolist() == [[PAD, PAD, GOOD], [BAD, FILM, GOOD]]
    assert text.feeds(records)["mask"].tolist() == [[0, 0, 1], [1, 1, 1]]
    answer = np.arange(6, dtype=np.float32).reshape(2, 3, 1)
    for method, expected in (("first", [2, 3]), ("last", [2, 5]), ("mean", [2, 4])):
        pooled = text.pooled(answer, records, Pool(op="pool", method=method), "out")
        assert pooled[:, 0].tolist() == expected
    with pytest.raises(ZoolensError, match=r"2×3×1: numbers for each token.*op: pool"):
        text.pooled(answer, records, None, "out")
    with pytest.raises(ZoolensError, match=r"shape 2×1, not one vector for each of 2×3 tokens"):
        text.pooled(np.zeros((2, 1), np.float32), records, Pool(op="pool"), "out")
    facts = text.facts(iter([texts("good " * 9, "bad"), texts("zebra good")]))
    assert (facts.texts, facts.cut, facts.tokens, facts.unknown) == (3, 1, MAX_LENGTH + 3, 1)
    with pytest.raises(DatasetError, match="has no tokens"):
        text.many(texts("good", ""))


def test_unigram_models_have_unknown_tokens_too(prepare, tmp_path):
    model = {"type": "Unigram", "unk_id": 1, "vocab": [["<pad>", 0.0], ["<unk>", 0.0], ["good", -1.0]]}
    content = {"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"}, "model": model}
    (tmp_path / "unigram.json").write_text(json.dumps(content))
    text = prepare(file=tmp_path / "unigram.json", vocabulary=3)
    assert text.facts(iter([texts("good zebra good")])).unknown == 1


def test_words_whose_tokens_would_lack_the_space_before_them_are_refused(prepare, tmp_path):
    """RobertaTokenizer of transformers 5.22.2 documents that words need add_prefix_space=True."""
    vocabulary = {token: number for number, token in enumerate(("<pad>", "a", "A", "Ġa", "ĠA", "Ġ"))}
    model = {"type": "BPE", "vocab": vocabulary, "merges": ["Ġ a", "Ġ A"]}
    words = text_dataset.Words(("a", "a"))
    for prefix, before, expected in (
        (True, [], [3, 3]),
        (False, [{"type": "WhitespaceSplit"}], [1, 1]),
        (False, [], 0),
    ):
        level = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": True}
        digits = {"type": "Digits", "individual_digits": True}
        content = {"version": "1.0", "added_tokens": [], "model": model,
                   "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*before, digits, level]}}  # fmt: skip
        (tmp_path / "bytes.json").write_text(json.dumps(content))
        text = prepare(file=tmp_path / "bytes.json", vocabulary=6)
        if expected:
            assert text.many(texts(words))["ids"][0, :2].tolist() == expected
            continue
        assert text.many(texts("a a"))["ids"][0, :2].tolist() == [1, 3]
        with pytest.raises(ManifestError, match=r"space before a word.*add_prefix_space: true"):
            text.many(texts(words))


@pytest.mark.slow
def test_a_cut_text_keeps_its_special_tokens_or_is_refused(prepare):
    long = "good " * 50 + "bad"
    assert prepare(truncation="left").many(texts(long))["ids"][0].tolist() == [CLS, *[GOOD] * 5, BAD, SEP]
    with pytest.raises(DatasetError, match="A text has 53 tokens, more than the 8 that the model takes"):
        prepare(truncation="refuse").many(texts(long))


def test_strange_texts_are_texts(prepare):
    text = prepare()
    strange = ["👩‍👩‍👧", "\u202etxet dab", "<script>alert(1)</script>", "good\0bad", "\ufeffgood", "ſ" * 999]
    assert len(text.many(texts(*strange))) == len(strange)
    with pytest.raises(DatasetError, match="A text has 10,485,760 bytes, more than the 1,048,576"):
        text.many(texts("x" * (10 << 20)))
    with pytest.raises(DatasetError, match="half of a character"):
        text.many(texts("\ud800"))
    with pytest.raises(DatasetError, match="The sample is 28×28×1 of uint8, but the model takes text"):
        text.many(np.zeros((1, 28, 28, 1), np.uint8))


def test_inputs_that_do_not_fit_the_tokenizer_are_refused(prepare, path):
    fixed = (TensorSpec("ids", (1, 256), "int32"),)
    for inputs, changes, sentence in (
        (INPUTS[:2], {}, "fills the input 'types' with tokens, but the model has ids, mask"),
        (INPUTS, {"tensors": {"input_ids": "ids"}}, "nothing in the manifest fills 'mask'"),
        (fixed, {"tensors": {}}, "takes exactly 256 tokens. Declare max_length: 256"),
        ((TensorSpec("ids", (None, None), "float16"),), {"tensors": {}}, "is float16; tokens are int64"),
        ((TensorSpec("ids", (None, None, 3), "int64"),), {"tensors": {}}, "tokens of texts are batch × tokens"),
        (INPUTS, {"vocabulary": 4}, "a token the id 4, but the model knows the ids 0 to 3 only"),
        (INPUTS, {"max_length": 2}, "adds 2 special tokens to each text, which leaves no room"),
    ):
        with pytest.raises(ManifestError, match=sentence.replace("(", r"\(")):
            prepare(inputs, **changes).many(texts("good"))


def test_files_that_are_no_tokenizer_are_one_sentence(prepare, tmp_path):
    deep, panics = tmp_path / "deep.json", tmp_path / "panics.json"
    deep.write_text('{"model": ' + "[" * 100_000)
    no_pad = write_tokenizer(tmp_path / "nopad.json", ("[UNK]", "[CLS]", "[SEP]", "good"))
    write_tokenizer(panics, normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA"})
    pickle = tmp_path / "tokenizer.pkl"
    pickle.write_bytes(b"\x80\x04.")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"version": "9.9", "model": {"type": "Unheard"}}))
    for file, sentence in (
        (pickle, "is not a tokenizer.json"),
        (deep, "The tokenizer cannot be read"),
        (panics, "The tokenizer cannot be read"),
        (other, "The tokenizer cannot be read"),
        (tmp_path / "absent.json", "cannot be read"),
        (no_pad, "does not say which id stands for padding"),
    ):
        with pytest.raises(ManifestError, match=sentence) as caught:
            prepare(file=file)
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_rule_that_never_ends_is_stopped_and_the_next_text_is_split(prepare, tmp_path, monkeypatch):
    monkeypatch.setattr("zoolens.inventory.preprocess.tokenizer_client._ENCODING", 1.0)
    rule = {"type": "Split", "pattern": {"Regex": "(x+x+)+y"}, "behavior": "Isolated", "invert": False}
    text = prepare(file=write_tokenizer(tmp_path / "slow.json", pre_tokenizer=rule))
    with pytest.raises(ZoolensError, match=r"takes longer than 1 s for a text|cannot split a text into tokens"):
        text.many(texts("x" * 40_000))
    assert text.many(texts("good"))["ids"][0, 1] == GOOD
