"""WAV files of strangers: each width is scaled as libsndfile does, and what lies about itself gets one sentence."""

import io
import struct
import tracemalloc
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.base.errors import DatasetError, ManifestError, MissingDependency
from zoolens.inventory.datasets.sound import waveform
from zoolens.inventory.datasets.sound.decoding import decode_sound
from zoolens.inventory.datasets.sound.wav import decode_wav

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
TAIL = bytes.fromhex("000000001000800000aa00389b71")


def chunk(kind, content, length=None):
    body = struct.pack("<4sI", kind, len(content) if length is None else length) + content
    return body + b"\0" * (len(content) % 2)


def header(tag=PCM, channels=1, rate=16000, bits=16, block=None, extra=b""):
    block = channels * bits // 8 if block is None else block
    return struct.pack("<HHIIHH", tag, channels, rate, rate * block % 2**32, block, bits) + extra


def wav(*chunks):
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def simple(samples, **options):
    return wav(chunk(b"fmt ", header(**options)), chunk(b"data", np.asarray(samples).tobytes()))


@pytest.mark.parametrize(
    ("numbers", "bits", "expected"),
    [
        (np.array([0, 128, 255], np.uint8), 8, [-1, 0, 127 / 128]),
        (np.array([-32768, 0, 1, 32767], "<i2"), 16, [-1, 0, 1 / 32768, 32767 / 32768]),
        (np.frombuffer(b"\0\0\x80\1\0\0\xff\xff\x7f", np.uint8), 24, [-1, 2**-23, 1 - 2**-23]),
        (np.array([-(2**31), 2**30, 256], "<i4"), 32, [-1, 0.5, 2**-23]),
    ],
)
def test_integers_are_divided_by_their_lowest_number(numbers, bits, expected):
    sound = decode_wav(simple(numbers, bits=bits), "a.wav")
    assert sound.samples.dtype == np.float32
    np.testing.assert_array_equal(sound.samples[:, 0], np.array(expected, np.float32))
    assert sound.rate == 16000


@pytest.mark.parametrize(("kind", "bits"), [("<f4", 32), ("<f8", 64)])
def test_floats_stay_as_they_are_beyond_one_too(kind, bits):
    sound = decode_wav(simple(np.array([0.25, -1.5], kind), tag=FLOAT, bits=bits), "a.wav")
    np.testing.assert_array_equal(sound.samples[:, 0], [0.25, -1.5])


def test_an_extensible_header_names_the_coding_inside():
    extra = struct.pack("<HHIH14s", 22, 20, 3, PCM, TAIL)
    sound = decode_wav(
        simple(np.array([0x40, 0, 0] * 2, np.uint8), tag=EXTENSIBLE, channels=2, bits=24, extra=extra), "a"
    )
    assert sound.samples.shape == (1, 2)
    np.testing.assert_array_equal(sound.samples[0], np.float32([64 / 2**23] * 2))


def test_channels_stay_apart_until_they_are_mixed():
    stereo = decode_wav(simple(np.array([[16384, 0], [-16384, 8192]], "<i2"), channels=2), "a.wav")
    np.testing.assert_array_equal(waveform.mono(stereo), [0.25, -0.125])
    np.testing.assert_array_equal(waveform.mono(stereo, "first"), [0.5, -0.5])
    assert stereo.seconds == 2 / 16000
    with pytest.raises(ManifestError, match="no way to mix channels named 'louder'"):
        waveform.mono(stereo, "louder")


def test_other_chunks_and_their_padding_are_passed_over():
    content = wav(chunk(b"LIST", b"odd"), chunk(b"fmt ", header()), chunk(b"fact", b"1234"), chunk(b"data", b"\0\x40"))
    np.testing.assert_array_equal(decode_wav(content, "a.wav").samples, [[0.5]])


def test_a_streamed_file_of_unknown_length_is_read_to_its_end():
    content = wav(chunk(b"fmt ", header()), chunk(b"data", b"\0\x40\0\x20", 0xFFFFFFFF))
    np.testing.assert_array_equal(decode_wav(content, "a.wav").samples[:, 0], [0.5, 0.25])


def test_what_pythons_own_writer_wrote():
    numbers = np.arange(-300, 300, dtype="<i2")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(numbers.tobytes())
    sound = decode_sound(stream.getvalue(), "a.wav")
    np.testing.assert_array_equal(sound.samples * 32768, numbers.reshape(-1, 2))
    assert sound.rate == 44100


FORMAT = chunk(b"fmt ", header())
REFUSED = {
    "empty": (b"", "a.wav is not a WAV file"),
    "cut header": (wav(FORMAT)[:16], "it has no format chunk"),
    "no data": (wav(FORMAT), "it ends before its samples"),
    "no format": (wav(chunk(b"data", b"\0\0")), "its samples begin before their format is given"),
    "no samples": (wav(FORMAT, chunk(b"data", b"")), "a.wav has no samples"),
    "truncated": (wav(FORMAT, chunk(b"data", b"\0\0", 4_000_000_000)), "claims 4,000,000,000 bytes and 2 are there"),
    "half a sample": (wav(FORMAT, chunk(b"data", b"\0\0\0")), "3 bytes of samples are no multiple of 2"),
    "short format": (wav(chunk(b"fmt ", b"\1\0")), "its format chunk has 2 bytes instead of 16 or more"),
    "channels": (simple(b"", channels=65535, block=2), "claims 65,535 channels; 1 to 64 are decoded"),
    "no channels": (simple(b"", channels=0), "claims 0 channels"),
    "no rate": (simple(b"", rate=0), "claims 0 samples a second"),
    "rate": (simple(b"", rate=2**32 - 1), "claims 4,294,967,295 samples a second"),
    "block": (simple(b"", block=7), "1 × 16 bits are 2 bytes, and its header says 7"),
    "bits": (simple(b"", bits=12), "has PCM of 12 bits; 8, 16, 24, 32 are read"),
    "half floats": (simple(b"", tag=FLOAT, bits=16), "has floats of 16 bits; 32, 64 are read"),
    "A-law": (simple(b"", tag=6, bits=8), "WAV file with A-law; PCM and floats are read"),
    "coding": (simple(b"", tag=999), "WAV file with coding 999"),
    "extensible": (simple(b"", tag=EXTENSIBLE), "its extensible format chunk is too short"),
    "sub-format": (simple(b"", tag=EXTENSIBLE, extra=bytes(24)), "unknown sub-format"),
    "valid bits": (
        simple(b"", tag=EXTENSIBLE, extra=struct.pack("<HHIH14s", 22, 40, 0, PCM, TAIL)),
        "40 of 16 bits of a sample are said to be valid",
    ),
    "NaN": (simple(np.array([0, np.nan], "<f4"), tag=FLOAT, bits=32), "samples that are NaN or infinite"),
    "too large": (simple(np.array([1e300]), tag=FLOAT, bits=64), "samples that are NaN or infinite"),
    "big-endian": (b"RIFX" + wav(FORMAT)[4:], "of the kind RIFX; only RIFF is read"),
    "chunks": (wav(*[chunk(b"junk", b"")] * 2000), "it has more than 1,000 chunks"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_lies_about_itself_is_refused_in_one_sentence(case):
    content, sentence = REFUSED[case]
    with pytest.raises(DatasetError) as caught:
        decode_wav(content, "a.wav")
    assert sentence in caught.value.message
    assert caught.value.message.endswith(".")
    assert caught.value.hint


def test_a_long_file_is_refused_before_it_is_decoded(monkeypatch):
    monkeypatch.setattr(waveform, "MAX_SAMPLES", 1000)
    content = simple(np.zeros(1_000_000, np.uint8), bits=8)
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match="has 1,000,000 samples, more than the 1,000 that are decoded"):
            decode_wav(content, "a.wav")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_damage_is_decoded_or_explained(data):
    content = bytearray(wav(chunk(b"LIST", b"odd"), FORMAT, chunk(b"data", bytes(range(40)))))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    try:
        sound = decode_wav(bytes(content[:cut]), "a.wav")
    except DatasetError:
        return
    assert sound.samples.ndim == 2
    assert np.isfinite(sound.samples).all()


def test_other_kinds_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    for content in (b"fLaC....", b"OggS....", b"ID3.....", b"\xff\xfb\x90\0"):
        with pytest.raises(MissingDependency, match=r"needs soundfile, which is not installed.*zoolens\[sound\]"):
            decode_sound(content, "a")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "a is empty"), (b"\x89PNG\r\n\x1a\n", r"not a sound of a known kind \(WAV, FLAC, OGG, MP3\)")],
)
def test_what_is_no_sound_is_refused(content, sentence):
    with pytest.raises(DatasetError, match=sentence):
        decode_sound(content, "a")


def test_scales_of_samples():
    samples = np.array([-0.75, 0.5], np.float32)
    assert waveform.scaled(samples, "unit") is samples
    np.testing.assert_array_equal(waveform.scaled(samples, "int16"), [-24576, 16384])
    # by the maximum and not by the largest magnitude, as MLPerf Tiny does
    np.testing.assert_array_equal(waveform.scaled(samples, "maximum"), [-1.5, 1])
    with pytest.raises(DatasetError, match="without a sample above zero"):
        waveform.scaled(np.zeros(3, np.float32), "maximum")
    with pytest.raises(ManifestError, match="no scale of samples named 'loud'"):
        waveform.scaled(samples, "loud")


def test_lengths_are_cut_or_followed_by_silence():
    samples = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(waveform.at_length(samples, 2), [1, 2])
    np.testing.assert_array_equal(waveform.at_length(samples, 5), [1, 2, 3, 0, 0])
