"""FLAC, Ogg and MP3 through libsndfile. Skipped where soundfile is not installed."""

import io

import numpy as np
import pytest

from zoolens.base.errors import DatasetError
from zoolens.inventory.datasets.sound import waveform
from zoolens.inventory.datasets.sound.decoding import decode_sound
from zoolens.inventory.datasets.sound.wav import decode_wav

soundfile = pytest.importorskip("soundfile")
RATE = 16000
TONE = (0.5 * np.sin(np.arange(RATE) / 9)).astype(np.float32)


def encoded(kind, samples=TONE, **options):
    stream = io.BytesIO()
    soundfile.write(stream, samples, RATE, format=kind, **options)
    return stream.getvalue()


@pytest.mark.parametrize(("kind", "error"), [("FLAC", 2**-15), ("OGG", 0.05), ("MP3", 0.05)])
def test_kinds_are_decoded_to_the_same_sound(kind, error):
    sound = decode_sound(encoded(kind), "a")
    assert sound.rate == RATE
    assert sound.samples.shape == (RATE, 1)
    # the first and last samples of what is not lossless are smeared
    assert np.abs(sound.samples[2000:-2000, 0] - TONE[2000:-2000]).max() < error


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
@pytest.mark.parametrize("kind", ["WAV", "WAVEX"])
def test_our_reader_of_wav_agrees_with_libsndfile_in_every_bit(kind, subtype):
    content = encoded(kind, np.stack([TONE, -TONE / 3], axis=1), subtype=subtype)
    theirs, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    np.testing.assert_array_equal(decode_wav(content, "a").samples, theirs)


def decoded_length(content):
    try:
        return len(decode_sound(content, "a").samples)
    except DatasetError:
        return 0


@pytest.mark.parametrize("kind", ["FLAC", "OGG", "MP3"])
@pytest.mark.parametrize("share", [0.001, 0.3])
def test_truncated_files_are_shorter_or_refused(kind, share):
    content = encoded(kind)
    assert decoded_length(content[: int(share * len(content))]) < RATE


def test_a_length_that_a_header_claims_is_refused(monkeypatch):
    monkeypatch.setattr(waveform, "MAX_SAMPLES", 1000)
    with pytest.raises(DatasetError, match="has 16,000 samples, more than the 1,000"):
        decode_sound(encoded("FLAC"), "a")
