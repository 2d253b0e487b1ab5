"""Sounds become inputs as a manifest declares: rate, channels, length, windows, features, and the state of a model."""

import numpy as np
import pytest
from pydantic import ValidationError

from zoolens.base.errors import DatasetError, ManifestError, ModelError
from zoolens.inventory.datasets.sound.waveform import Waveform, to_record
from zoolens.inventory.manifests.schema import Input, Manifest
from zoolens.inventory.manifests.schema_sound import SoundLength, SoundWindows
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.preprocess.sound.features import (
    LIBROSA_MFCC,
    MLPERF_TINY_KEYWORDS,
    TORCHAUDIO_MFCC,
    features,
)
from zoolens.inventory.preprocess.sound.resampling import resample
from zoolens.inventory.preprocess.sound_feeds import SoundFeeds
from zoolens.inventory.preprocess.sound_inputs import SoundPlace, at_declared_length, cut_windows
from zoolens.inventory.runtimes.runtime import Effective, Session, TensorSpec

RATE = 16000
NOISE = np.random.default_rng(0).normal(0, 0.1, RATE).astype(np.float32)


def sound(samples=NOISE, rate=RATE):
    samples = np.asarray(samples, np.float32)
    return to_record(Waveform(samples[:, np.newaxis] if samples.ndim == 1 else samples, rate))


def prepare(shape, steps=(), tensor=None, **declared):
    spec = Input(modality="sound", shape=shape, preprocess=steps, sound={"rate": RATE, **declared})
    return build_prepare(spec, tensor or TensorSpec("input", shape, "float32"))


def test_another_rate_is_refused_unless_the_manifest_says_how_to_resample():
    low = sound(NOISE[:800], 8000)
    with pytest.raises(DatasetError, match="has 8,000 samples a second, but the model takes 16,000"):
        prepare((1, 1600))(low)
    made = prepare((1, 1600), resample="scipy")(low)
    np.testing.assert_array_equal(made, resample(NOISE[:800], 8000, RATE, "scipy"))


def test_channels_are_mixed_as_declared():
    stereo = np.stack([NOISE[:8], -NOISE[:8] / 2], axis=1)
    np.testing.assert_allclose(prepare((1, 8))(sound(stereo)), NOISE[:8] / 4, rtol=1e-6)
    np.testing.assert_array_equal(prepare((1, 8), mix="first")(sound(stereo)), NOISE[:8])


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"samples": 3}, [1, 2, 3]),
        ({"samples": 3, "crop": "middle"}, [2, 3, 4]),
        ({"samples": 3, "crop": "end"}, [3, 4, 5]),
        ({"samples": 3, "crop": "none"}, [1, 2, 3, 4, 5]),
        ({"samples": 7}, [1, 2, 3, 4, 5, 0, 0]),
        ({"samples": 7, "pad": "front"}, [0, 0, 1, 2, 3, 4, 5]),
        ({"samples": 8, "pad": "both"}, [0, 1, 2, 3, 4, 5, 0, 0]),
    ],
)
def test_sounds_are_cut_and_filled_up(declared, expected):
    length = SoundLength(**declared)
    assert at_declared_length(np.arange(1.0, 6, dtype=np.float32), length).tolist() == expected


def test_where_an_input_begins_in_its_file_is_known():
    fives = sound(np.zeros(5, np.float32), 8000)  # ten samples at 16,000 Hz
    windows = {"length": 4, "join": "frames"}
    place = prepare((1, 4), resample="scipy", lead_in=0.5, windows=windows).memo(fives)
    assert place == SoundPlace(-0.5, 5 / 8000)
    length = {"samples": 12, "pad": "front"}
    assert prepare((1, 12), resample="scipy", length=length).memo(fives).begin == -2 / RATE
    assert prepare((1, 7), resample="scipy", length={"samples": 7, "crop": "end"}).memo(fives).begin == 3 / RATE


def test_windows_overlap_and_have_context():
    samples = np.arange(1.0, 8, dtype=np.float32)
    assert cut_windows(samples, SoundWindows(length=4, hop=2, join="mean")).tolist() == [
        [1, 2, 3, 4],
        [3, 4, 5, 6],
        [5, 6, 7, 0],
    ]
    assert len(cut_windows(samples, SoundWindows(length=4, hop=2, join="mean", rest="drop"))) == 2
    framed = cut_windows(samples, SoundWindows(length=3, context=2, join="frames"))
    assert framed.tolist() == [[0, 0, 1, 2, 3], [2, 3, 4, 5, 6], [5, 6, 7, 0, 0]]
    assert cut_windows(samples[:2], SoundWindows(length=4, join="mean")).tolist() == [[1, 2, 0, 0]]
    with pytest.raises(DatasetError, match="has 7 windows, more than the 5 that the manifest allows"):
        cut_windows(samples, SoundWindows(length=1, join="frames", most=5))


@pytest.mark.parametrize(
    ("step", "chain"),
    [
        ({"op": "mfcc", "semantics": "librosa"}, LIBROSA_MFCC),
        ({"op": "mfcc", "semantics": "torchaudio"}, TORCHAUDIO_MFCC),
        ({"op": "mfcc", "semantics": "mlperf-tiny"}, MLPERF_TINY_KEYWORDS),
        (
            {"op": "mfcc", "semantics": "tf.signal", "window_length": 480, "hop": 320, "bands": 40, "low": 20,
             "high": 4000, "coefficients": 10},
            MLPERF_TINY_KEYWORDS,
        ),
    ],
)  # fmt: skip
def test_steps_are_the_chains_of_the_libraries_they_name(step, chain):
    expected = features(NOISE, RATE, chain)
    np.testing.assert_array_equal(prepare((1, *expected.shape), [step])(sound()), expected)
    turned = prepare((1, 1, *expected.T.shape), [{**step, "first": "features"}])(sound())
    np.testing.assert_array_equal(turned[0], expected.T)


def test_keyword_features_of_mlperf_tiny_fit_its_quantised_input():
    steps = [{"op": "waveform", "scale": "maximum"}, {"op": "mfcc", "semantics": "mlperf-tiny"}]
    tensor = TensorSpec("input", (1, 49, 10, 1), "int8", 0.5847029, 83)
    made = prepare((1, 49, 10, 1), steps, tensor, length={"samples": RATE})(sound(NOISE[:9000]))
    assert (made.shape, made.dtype) == ((49, 10, 1), np.int8)
    padded = np.pad(NOISE[:9000] / NOISE[:9000].max(), (0, RATE - 9000))
    real = features(padded, RATE, MLPERF_TINY_KEYWORDS) / 0.5847029 + 83
    np.testing.assert_array_equal(made[:, :, 0], np.clip(np.rint(real), -128, 127))


def test_numbers_of_a_step_replace_those_of_its_library():
    step = {"op": "log_mel", "semantics": "torchaudio", "bands": 64, "log": "natural", "offset": 1e-6, "hop": 160}
    assert prepare((1, 101, 64), [step])(sound()).shape == (101, 64)
    standard = prepare((1, 101, 64), [step, {"op": "standardize", "over": "frames"}])(sound())
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(standard.std(axis=0), 1, atol=1e-3)


def test_what_cannot_be_prepared_gets_a_sentence():
    with pytest.raises(DatasetError, match="an array without a sample rate"):
        prepare((1, 4))(NOISE[:4])
    with pytest.raises(DatasetError, match="a text, but the model takes sounds"):
        prepare((1, 4))(np.array("words", object))
    with pytest.raises(DatasetError, match="but the input takes 4"):
        prepare((1, 4))(sound(NOISE[:5]))
    with pytest.raises(ManifestError, match="50 coefficients cannot be taken from 40"):
        prepare((1, 9, 50), [{"op": "mfcc", "semantics": "mlperf-tiny", "coefficients": 50}])
    twice = [{"op": "mfcc", "semantics": "librosa"}, {"op": "waveform", "scale": "int16"}]
    with pytest.raises(ManifestError, match="a step before it made features"):
        prepare((1, 1, 1), twice)(sound())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sound": None}, "belong together"),
        ({"preprocess": [{"op": "center_crop", "fraction": 0.5}]}, "center_crop is a step for images"),
        ({"modality": "array", "sound": None, "preprocess": [{"op": "waveform", "scale": "unit"}]}, "step for sounds"),
        ({"sound": {"rate": RATE, "carry": {"state": {"output": "next"}}}}, "say how the sound is cut"),
        ({"sound": {"rate": RATE, "length": {"samples": 4, "crop": "none"}}}, "leaves sounds of different lengths"),
        ({"preprocess": [{"op": "log_mel", "semantics": "tf.signal", "hop": 1}]}, "tf.signal has no defaults"),
        ({"shape": [1, 1 << 25]}, "outside 1 to 16,777,216"),
    ],
)
def test_wrong_declarations_are_refused(change, sentence):
    with pytest.raises(ValidationError, match=sentence):
        Input(**{"modality": "sound", "shape": (1, 4), "sound": {"rate": RATE}, **change})


def test_a_sound_fills_all_inputs():
    inputs = [{"modality": "sound", "shape": [1, 4], "sound": {"rate": RATE}}, {"modality": "array", "shape": [1]}]
    with pytest.raises(ValidationError, match="name the others under sound"):
        Manifest(name="two", inputs=inputs, outputs=[{}])


# --- the loop over windows


class Counter(Session):
    """Answers the sum of a window and of all windows before it, times a constant."""

    def __init__(self, *, free=True):
        self.inputs = (
            TensorSpec("input", (None if free else 1, 3), "float32"),
            TensorSpec("state", (1, None), "float32"),
            TensorSpec("times", (), "int64"),
        )
        self.outputs = (TensorSpec("sum", (None, 1), "float32"), TensorSpec("next", (1, 1), "float32"))
        self.calls = 0

    def predict(self, feeds):
        self.calls += 1
        assert feeds["times"].dtype == np.int64
        total = feeds["input"].sum(axis=1, keepdims=True) + feeds.get("state", 0)
        return {"sum": total * feeds["times"], "next": total[-1:, :1]}

    def effective(self):
        return Effective("none")


STATE = {"state": {"output": "next", "shape": [1, 1]}}


def feeds(join, *, session=None, **changes):
    declared = {
        "rate": RATE,
        "windows": {"length": 3, "join": join},
        "carry": STATE,
        "constants": {"times": 2},
        **changes,
    }
    spec = Input(modality="sound", shape=(1, 3), sound=declared)
    session = session or Counter()
    return SoundFeeds(spec.sound, session.inputs[0], session.inputs, session.outputs)


def test_the_state_of_a_window_is_fed_with_the_next_and_begins_anew_with_each_sound():
    session, windows = Counter(), np.ones((1, 3, 3), np.float32)
    for _ in range(2):
        assert feeds("frames").answered(session, windows)["sum"].tolist() == [[6, 12, 18]]
    assert session.calls == 6
    assert feeds("mean").answered(session, windows)["sum"].tolist() == [[12]]
    assert {name: value.tolist() for name, value in feeds("frames").first(windows).items()} == {
        "input": [[1, 1, 1]],
        "times": 2,
        "state": [[0]],
    }


def test_windows_of_a_model_without_state_are_run_together():
    session = Counter()
    session.inputs, session.outputs = session.inputs[::2], session.outputs[:1]
    made = feeds("frames", carry={}, session=session).answered(session, np.ones((1, 40, 3), np.float32))
    assert made["sum"].tolist() == [[6] * 40]
    assert session.calls == 2


def test_inputs_that_nothing_fills_and_states_that_do_not_fit_get_a_sentence():
    with pytest.raises(ManifestError, match="nothing in the manifest fills 'times'"):
        feeds("frames", constants={})
    with pytest.raises(ManifestError, match="fills the input 'other'"):
        feeds("frames", constants={"times": 1, "other": 1})
    with pytest.raises(ManifestError, match="carries the output 'more'"):
        feeds("frames", carry={"state": {"output": "more"}})
    with pytest.raises(ManifestError, match="leaves dimensions of the state state free"):
        feeds("frames", carry={"state": {"output": "next"}})
    with pytest.raises(ManifestError, match=r"takes int64, which 2\.5 is not"):
        feeds("frames", constants={"times": 2.5})
    wide = feeds("frames", carry={"state": {"output": "next", "shape": [1, 2]}})
    with pytest.raises(ModelError, match=r"The output next has shape 1×1, but the input state"):
        wide.answered(Counter(), np.ones((1, 2, 3), np.float32))


class Whole(Counter):
    """Its state comes out in whole numbers."""

    def predict(self, feeds):
        answer = super().predict(feeds)
        return {**answer, "next": answer["next"].astype(np.int64)}


def test_a_state_of_another_type_is_refused():
    with pytest.raises(ModelError, match=r"The output next is int64, but the input state, .* is float32"):
        feeds("frames").answered(Whole(), np.ones((1, 2, 3), np.float32))


class Growing(Counter):
    """Its state has no end, and its answers are finite all the same."""

    def predict(self, feeds):
        answer = super().predict(feeds)
        with np.errstate(over="ignore"):
            return {"sum": np.ones_like(answer["sum"]), "next": (feeds["state"] + np.float32(1)) * np.float32(1e20)}


def test_a_state_that_grows_without_end_is_refused():
    with pytest.raises(ModelError, match="The state next holds NaN or infinity, so that no later answer"):
        feeds("frames").answered(Growing(), np.ones((1, 5, 3), np.float32))
