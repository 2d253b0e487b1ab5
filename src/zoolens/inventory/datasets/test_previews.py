import io

import numpy as np
import pytest
from PIL import Image

from zoolens.inventory.datasets.previews import (
    BARS,
    LARGE_SIDE,
    LETTERS_OF_PAIR,
    PALETTE,
    SIDE,
    WORDS,
    Picture,
    described,
    overlay_png,
    picture_of,
)
from zoolens.inventory.datasets.sound.waveform import Waveform, to_record
from zoolens.inventory.datasets.text_dataset import TextPair, Words

RANDOM = np.random.default_rng(0)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_small_image_is_enlarged_by_whole_steps(channels):
    value = RANDOM.integers(0, 256, (28, 20, channels), np.uint8)
    picture = picture_of(value)
    factor = SIDE // 28
    drawn = pixels(picture.png)
    np.testing.assert_array_equal(drawn[::factor, ::factor], value[:, :, 0] if channels == 1 else value)
    assert picture.words == f"20 × 28, {'grey' if channels == 1 else 'colour'}"


def test_a_large_image_is_made_small():
    assert pixels(picture_of(np.zeros((500, 1000, 3), np.uint8)).png).shape == (LARGE_SIDE // 2, LARGE_SIDE, 3)
    assert pixels(picture_of(np.zeros((1, 5000, 1), np.uint8)).png).shape == (1, LARGE_SIDE)


@pytest.mark.parametrize("shape", [(3, 8, 8), (8, 8, 3)])
def test_numbers_in_the_shape_of_an_image_are_drawn_and_the_words_say_how(shape):
    value = np.zeros(shape, np.float32)
    value[1, 1, 1] = 2.0
    value[2, 2, 2] = -1.0
    picture = picture_of(value)
    assert "drawn from -1 (black) to 2 (white)" in picture.words
    drawn = pixels(picture.png)[:: SIDE // 8, :: SIDE // 8]
    assert drawn.shape == (8, 8, 3)
    assert (drawn.min(), drawn.max()) == (0, 255)


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((3, 8, 3), np.float32),  # which end are its channels?
        np.zeros((8, 8), np.float32),
        np.full((8, 8, 3), np.nan, np.float32),
        np.zeros((0, 8, 3), np.float32),
        np.zeros((8, 8, 4), np.uint8),
    ],
)
def test_what_is_no_image_is_not_drawn(value):
    assert picture_of(value).png is None


def test_what_is_no_image_is_described():
    assert described(np.array([5.1, 3.5], np.float32)) == "2 of float32: 5.1, 3.5"
    assert described(np.arange(20)) == "20 of int64: 0, 1, 2, 3, 4, 5, 6, 7, …"
    assert described(np.array(3)) == "1 of int64: 3"
    record = np.zeros(1, [("ids", np.int32, 2), ("mask", np.float32)])[0]
    assert described(np.asarray(record)) == "ids: 2 of int32: 0, 0; mask: 1 of float32: 0"


def test_a_text_is_shown_as_it_is_and_a_long_one_in_part():
    assert picture_of(np.array("<b>good</b>", object)) == Picture("<b>good</b>", whole="<b>good</b>")
    long = picture_of(np.array("x" * 5000, object))
    assert (long.words, len(long.whole)) == ("x" * 600 + "…", 5000)
    assert picture_of(np.array("x" * 16_001, object)).whole == ""
    lines = picture_of(np.array("one\r\ntwo \n\n three", object))
    assert (lines.words, lines.whole) == ("one two three", "one\r\ntwo \n\n three")


def test_words_pairs_and_sounds_are_shown_as_what_they_are():
    def text(value):
        made = np.empty((), object)
        made[()] = value
        return picture_of(made)

    words = text(Words(("a",) * (WORDS + 3)))
    assert (len(words.tokens), words.more_tokens, words.texts) == (WORDS, 3, ())
    pair = text(TextPair("who \n was\tit", "x" * (LETTERS_OF_PAIR + 1)))
    assert (pair.texts[0], len(pair.texts[1]), pair.tokens) == ("who was it", LETTERS_OF_PAIR, ())
    samples = np.zeros((1600, 2), np.float32)
    samples[800:, 1] = -0.5
    sound = picture_of(to_record(Waveform(samples, 16000)))
    assert (sound.words, sound.seconds, sound.png) == ("0.10 s at 16,000 Hz, 2 channels", 0.1, None)
    assert (len(sound.wave), sound.wave[0], sound.wave[-1]) == (BARS, 0.0, 0.5)
    assert picture_of(to_record(Waveform(samples[:0], 16000))).wave == ()


def test_a_map_has_a_pattern_beyond_the_colours():
    drawn = pixels(overlay_png(np.full((8, 8), len(PALETTE) + 1)))
    assert {tuple(colour) for colour in drawn[:, :, :3].reshape(-1, 3)} == {PALETTE[1]}
    assert len(np.unique(drawn[:, :, 3])) == 2  # stripes
    assert len(np.unique(pixels(overlay_png(np.ones((8, 8), int)))[:, :, 3])) == 1
