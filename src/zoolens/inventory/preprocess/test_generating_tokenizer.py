"""Prompts and texts of models that write: nothing is cut, and characters that several tokens share come whole."""

import json

import pytest

from zoolens.base.errors import ManifestError
from zoolens.inventory.catalog.gguf_draft import draft_gguf
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer, GrowingText
from zoolens.testing import language_models
from zoolens.testing.text_models import write_tokenizer

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """Of single bytes, with AB as a token; ids 62 and 63 are <s> and </s>."""
    folder = tmp_path_factory.mktemp("tokens")
    draft_gguf(language_models.gguf(folder).path())
    made = GeneratingTokenizer(Tokenizer(max_length=4, vocabulary=64, padding="none"), folder / "tiny.tokenizer.json")
    yield made
    made.close()


def test_a_prompt_is_cut_nowhere_and_written_again(tokenizer):
    text = "AB BA: 12\nAB" * 5
    ids = tokenizer.prompt(text, special=True)
    assert len(ids) == 10 * 5
    assert tokenizer.texts([ids, ids[:2], []]) == [text, "AB ", ""]
    assert tokenizer.pieces([*ids[:2], 62, 60]) == [b"AB", b" ", b"<s>", b"\n"]
    grown = GrowingText(tokenizer)
    assert "".join([*map(grown.add, ids), grown.end()]) == text


def byte_tokenizer(path):
    """All 256 bytes, as GPT-2 writes them."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.save(str(path))
    return path


def metaspace_tokenizer(path):
    """Words with their blanks, and bytes for what is no word, as Llama's first tokenizers have them."""
    words = [
        "<unk>",
        *(f"<0x{code:02X}>" for code in range(256)),
        "\N{LOWER ONE EIGHTH BLOCK}a",
        "\N{LOWER ONE EIGHTH BLOCK}b",
        "c",
    ]
    model = tokenizers.models.BPE(
        {word: place for place, word in enumerate(words)}, [], unk_token="<unk>", byte_fallback=True
    )
    made = tokenizers.Tokenizer(model)
    parts = [
        tokenizers.decoders.Replace("\N{LOWER ONE EIGHTH BLOCK}", " "),
        tokenizers.decoders.ByteFallback(),
        tokenizers.decoders.Fuse(),
        tokenizers.decoders.Strip(" ", 1, 0),
    ]
    made.decoder = tokenizers.decoders.Sequence(parts)
    made.save(str(path))
    return path


@pytest.mark.parametrize("write", [byte_tokenizer, metaspace_tokenizer])
def test_characters_of_several_tokens_come_whole(tmp_path, write):
    path = write(tmp_path / "tokenizer.json")
    size = len(json.loads(path.read_text())["model"]["vocab"])
    made = GeneratingTokenizer(Tokenizer(max_length=9, vocabulary=size, padding="none"), path)
    ids = json.loads(path.read_text())["model"]["vocab"]
    text = "é😀x" if write is byte_tokenizer else "\N{LOWER ONE EIGHTH BLOCK}a\N{LOWER ONE EIGHTH BLOCK}bc"
    if write is byte_tokenizer:
        numbers = made.prompt(text, special=True)
        assert len(numbers) == 2 + 4 + 1
        assert b"".join(made.pieces(numbers)) == text.encode()
    else:
        numbers = [
            ids["\N{LOWER ONE EIGHTH BLOCK}a"],
            ids["\N{LOWER ONE EIGHTH BLOCK}b"],
            ids["c"],
            *(ids[f"<0x{code:02X}>"] for code in "é".encode()),
        ]
        assert made.pieces(numbers[:2]) == [b" a", b" b"]
        assert made.pieces(numbers[2:]) == [b"c", b"\xc3", b"\xa9"]
    grown = GrowingText(made)
    told = [grown.add(number) for number in numbers]
    if write is byte_tokenizer:
        assert told == ["", "é", "", "", "", "😀", "x"]
    else:
        assert told == ["a", " b", "c", "", "é"]
    assert grown.end() == ""
    cut = GrowingText(made)
    assert [cut.add(number) for number in numbers[-2:-1]] == [""] if write is metaspace_tokenizer else True
    made.close()


def test_an_answer_goes_on_with_the_text_before_it(tmp_path):
    path = metaspace_tokenizer(tmp_path / "tokenizer.json")
    ids = json.loads(path.read_text())["model"]["vocab"]
    made = GeneratingTokenizer(Tokenizer(max_length=9, vocabulary=len(ids), padding="none"), path)
    word, half, rest = ids["\N{LOWER ONE EIGHTH BLOCK}a"], ids["<0xC3>"], ids["<0xA9>"]
    for before, told in (([], "a"), ([word], " a"), ([ids["c"]] * 20, " a"), ([word, half], "a")):
        grown = GrowingText(made, before)
        assert grown.add(word) == told
        assert grown.add(word) == " a"
    cut = GrowingText(made, [word, half])
    assert [cut.add(rest), cut.add(word)] == ["", "\N{REPLACEMENT CHARACTER} a"]
    made.close()


def test_half_a_character_at_the_end_is_told(tmp_path):
    made = GeneratingTokenizer(
        Tokenizer(max_length=9, vocabulary=256, padding="none"), byte_tokenizer(tmp_path / "tokenizer.json")
    )
    cut = GrowingText(made)
    numbers = made.prompt("a😀", special=True)
    assert [cut.add(number) for number in numbers[:-1]] == ["a", "", "", ""]
    assert cut.end() == "\N{REPLACEMENT CHARACTER}"
    made.close()


def test_special_tokens_are_added_where_asked(tmp_path):
    made = GeneratingTokenizer(
        Tokenizer(max_length=4, vocabulary=7, padding="none"), write_tokenizer(tmp_path / "tokenizer.json")
    )
    assert made.prompt("good film", special=True) == [2, 4, 6, 3]
    assert made.prompt("good film good bad film", special=False) == [4, 6, 4, 5, 6]
    made.close()


def test_a_tokenizer_of_words_writes_nothing(tmp_path):
    (tmp_path / "words.json").write_text('["a", "b"]')
    declared = Tokenizer(max_length=4, vocabulary=2, padding="none", words={"unknown_id": 0})
    made = GeneratingTokenizer(declared, tmp_path / "words.json")
    with pytest.raises(ManifestError, match="does not make texts of tokens"):
        made.texts([[0]])
    made.close()
