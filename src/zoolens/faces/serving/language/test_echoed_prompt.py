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
