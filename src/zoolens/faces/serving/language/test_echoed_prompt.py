"""A prompt as the beginning of its own answer: each token begins where the text says."""

import numpy as np
import pytest

from zoolens.faces.serving.language.echoed_prompt import echoed
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer

tokenizers = pytest.importorskip("tokenizers")


@pytest.fixture
def bytewise(tmp_path):
    """A tokenizer of all 256 bytes."""
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: place for place, letter in enumerate(letters)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.save(str(tmp_path / "tokenizer.json"))
    opened = GeneratingTokenizer(Tokenizer(max_length=9, vocabulary=256, padding="none"), tmp_path / "tokenizer.json")
    yield opened
    opened.close()


def test_what_is_no_character_counts_where_tokens_begin(bytewise):
    """Bytes that are no UTF-8 are shown as a sign, behind which the next tokens begin."""
    first, *_ = bytewise.prompt("é", special=False)
    ids = [first, *bytewise.prompt("aé", special=False), first]
    part = echoed(ids, np.zeros((len(ids), 256), np.float32), 0, bytewise)
    assert part.text == "\N{REPLACEMENT CHARACTER}aé\N{REPLACEMENT CHARACTER}"
    assert [token.start for token in part.tokens] == [0, 0, 2, 2, 3]


def test_the_blank_at_the_beginning_is_left_out_as_in_a_text(tmp_path):
    blank = "\N{LOWER ONE EIGHTH BLOCK}"
    words = ["<unk>", f"{blank}a", f"{blank}b", "a", "<s>"]
    model = tokenizers.models.BPE({word: place for place, word in enumerate(words)}, [], unk_token="<unk>")
    made = tokenizers.Tokenizer(model)
    made.add_special_tokens(["<s>"])
    parts = [tokenizers.decoders.Replace(blank, " "), tokenizers.decoders.Fuse(), tokenizers.decoders.Strip(" ", 1, 0)]
    made.decoder = tokenizers.decoders.Sequence(parts)
    made.save(str(tmp_path / "tokenizer.json"))
    opened = GeneratingTokenizer(Tokenizer(max_length=9, vocabulary=5, padding="none"), tmp_path / "tokenizer.json")
    scores = np.zeros((4, 5), np.float32)
    part = echoed([1, 2, 1, 3], scores, 5, opened)
    assert part.text == echoed([1, 2, 1, 3], None, 0, opened).text == "a b aa"
    assert [token.start for token in part.tokens] == [0, 1, 3, 5]
    assert [likely.piece for likely in part.tokens[1].likely] == [b"<unk>", b" a", b" b", b"a", b"<s>"]
    part = echoed([4, 1, 2], scores, 0, opened)
    assert (part.text, [token.start for token in part.tokens]) == ("<s>a b", [0, 3, 4])
    opened.close()
