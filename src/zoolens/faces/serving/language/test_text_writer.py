"""What is shown of a text while it is written: stops never are, and tokens come with the text that they make."""

import numpy as np
import pytest

from zoolens.faces.serving.contracts.language import GenerationRequest, Sampling
from zoolens.faces.serving.language.text_writer import Room, TextWriter
from zoolens.inventory.catalog.gguf_draft import draft_gguf
from zoolens.inventory.manifests.tokenizer import Tokenizer
from zoolens.inventory.preprocess.generating_tokenizer import GeneratingTokenizer
from zoolens.testing import language_models

pytest.importorskip("tokenizers")

END = 63


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    draft_gguf(language_models.gguf(folder).path())
    made = GeneratingTokenizer(Tokenizer(max_length=4, vocabulary=64, padding="none"), folder / "tiny.tokenizer.json")
    yield made
    made.close()


@pytest.fixture
def written(tokenizer):
    def write(text, *, stops=(), most=100, top=None, ended=False):
        """Parts of a model that writes exactly this."""
        request = GenerationRequest("m", "x", sampling=Sampling(temperature=0), stops=stops, top=top)
        writer = TextWriter(request, tokenizer, Room(3, most, frozenset({END})))
        parts = []
        for number in [*tokenizer.prompt(text, special=False), *([END] if ended else [])]:
            scores = np.full(64, -9.0)
            scores[number] = -0.5
            parts.append(writer.add(scores))
            if parts[-1].end:
                break
        return parts

    return write


def texts(parts):
    return [part.text for part in parts]


def test_each_token_is_shown_at_once_and_the_last_one_says_why(written):
    parts = written("1234", most=4)
    assert texts(parts) == ["1", "2", "3", "4"]
    assert [part.end for part in parts] == ["", "", "", "length"]
    assert (parts[-1].prompt_tokens, parts[-1].written_tokens) == (3, 4)
    parts = written("12", ended=True)
    assert (texts(parts), parts[-1].end, parts[-1].written_tokens) == (["1", "2", ""], "stop", 3)


@pytest.mark.parametrize(
    ("text", "stops", "shown", "end"),
    [
        ("12AB34", ("AB",), ["1", "2", ""], "stop"),
        ("1234561", ("345",), ["1", "2", "", "", ""], "stop"),
        ("1234361", ("345",), ["1", "2", "", "", "34", "36", "1"], ""),
        ("1121123", ("1123", "5"), ["", "", "", "112", "", "", ""], "stop"),
        ("12", ("1", "12"), [""], "stop"),
        ("5AB", ("B",), ["5", "A"], "stop"),
    ],
)
def test_stops_are_never_shown(written, text, stops, shown, end):
    parts = written(text, stops=stops)
    assert (texts(parts), parts[-1].end) == (shown, end)


def test_what_is_kept_back_comes_at_the_end(written):
    assert texts(written("1234", stops=("345",), most=4)) == ["1", "2", "", "34"]
    parts = written("12", stops=("23",), ended=True)
    assert (texts(parts), parts[-1].end) == (["1", "", "2"], "stop")


def test_tokens_come_with_their_text(written):
    parts = written("12AB3", stops=("B3",), top=2)
    assert [[token.chosen.piece for token in part.tokens] for part in parts] == [[b"1"], [b"2"], [b"AB"], []]
    assert [token.start for part in parts for token in part.tokens] == [0, 1, 2]
    (first,) = parts[0].tokens
    assert first.chosen.logarithm == -0.5
    assert [one.logarithm for one in first.likely] == [-0.5, -9.0]
    assert written("12", top=0)[0].tokens[0].likely == ()
    assert not any(part.tokens for part in written("12"))
