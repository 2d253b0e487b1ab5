"""Keyword spotting and voice activity with real models: the figures must be those measured elsewhere."""

import csv
import json

import numpy as np
import pytest

from zoolens.conftest import ASSETS
from zoolens.inventory.datasets.sound.decoding import decode_sound
from zoolens.inventory.datasets.sound.waveform import at_length, mono
from zoolens.inventory.preprocess.sound.resampling import resample

AUDIO = ASSETS / "tasks" / "audio"
RATE = 16000
CHUNK = 512  # samples that the voice-activity model takes at once
CONTEXT = 64  # samples of the chunk before, which it takes as well

pytestmark = [
    pytest.mark.assets,
    pytest.mark.slow,
    pytest.mark.skipif(not AUDIO.is_dir(), reason="the reference assets (ZOOLENS_ASSETS) are not here"),
]


def measured(file):
    entries = json.loads((ASSETS / "tasks" / "MANIFEST.json").read_text())["entries"]
    return next(entry for entry in entries if entry["file"] == file)["measured"]


@pytest.mark.parametrize("name", ["kws_ref_model.tflite", "kws_ref_model_float32.tflite"])
def test_accuracy_of_keyword_spotting_is_the_known_one(name):
    """The features are those that its makers stored, as the recordings are not here: this holds the model and its
    quantisation. The features themselves are held to tf.signal in test_features.py."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    model = litert.Interpreter(str(AUDIO / "models" / name), num_threads=1)
    model.allocate_tensors()
    source, target = model.get_input_details()[0], model.get_output_details()[0]
    folder = AUDIO / "data" / "kws01"
    (table,) = folder.glob("*.csv")
    with table.open(newline="") as stream:
        rows = list(csv.reader(stream))
    right = 0
    for file, _, label in rows:
        stored = np.frombuffer((folder / file).read_bytes(), np.int8).reshape(1, 49, 10, 1)
        dequantised = (stored.astype(np.float32) - 83) * np.float32(0.5847029)
        model.set_tensor(source["index"], stored if source["dtype"] == np.int8 else dequantised)
        model.invoke()
        right += int(model.get_tensor(target["index"]).argmax()) == int(label)
    known = measured(f"audio/models/{name}")
    assert len(rows) == known["n"]
    # other kernels may decide a close call differently
    assert 100 * right / len(rows) == pytest.approx(known["top1"], abs=0.2)


class TestVoiceActivity:
    """A recurrent model: its state and the end of each chunk are carried to the next."""

    @pytest.fixture(scope="class")
    def session(self):
        onnxruntime = pytest.importorskip("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(str(AUDIO / "models" / "silero_vad_16k_op15.onnx"), options)

    def test_frames_of_a_conversation(self, session):
        speech = probabilities(session, load(AUDIO / "data" / "vad" / "sample.wav"))
        centres = (np.arange(len(speech)) + 0.5) * CHUNK / RATE
        truth = np.zeros(len(speech), bool)
        for line in (AUDIO / "data" / "vad" / "sample.rttm").read_text().splitlines():
            begin, length = map(float, line.split()[3:5])
            truth |= (centres >= begin) & (centres < begin + length)
        known = measured("audio/models/silero_vad_16k_op15.onnx")
        assert 100 * np.mean((speech >= 0.5) == truth) == pytest.approx(known["frame_accuracy"], abs=0.11)
        # how frames at the edge of a turn were labelled is not recorded; here it is the centre that counts
        assert area_under_curve(speech[truth], speech[~truth]) == pytest.approx(known["frame_auc"], abs=0.002)

    def test_clips(self, session):
        """Half a second of silence comes first: with a fresh state 114 of the 120 short words are found, and how clips
        were padded for the known figures is not recorded."""
        vad = AUDIO / "data" / "vad"
        silence = RATE // 2
        words = [np.pad(load(path), (silence, 0)) for path in sorted((vad / "speech").glob("*.wav"))]
        noises = [load(path) for path in sorted((vad / "noise").glob("*.wav"))]
        words_found = np.array([probabilities(session, samples).max() for samples in words])
        false_alarms = np.array([probabilities(session, samples).max() for samples in noises])
        known = measured("audio/models/silero_vad_16k_op15.onnx")
        assert f"{(words_found >= 0.5).sum()}/{len(words)}" == known["speech_clips_found"]
        assert f"{(false_alarms >= 0.5).sum()}/{len(noises)}" == known["noise_clips_false_alarm"]
        assert area_under_curve(words_found, false_alarms) == pytest.approx(known["clip_auc"], abs=0.01)


def load(path):
    sound = decode_sound(path.read_bytes(), path.name)
    return resample(mono(sound), sound.rate, RATE, "scipy")


def probabilities(session, samples):
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(CONTEXT, np.float32)
    found = []
    for begin in range(0, len(samples), CHUNK):
        chunk = at_length(samples[begin : begin + CHUNK], CHUNK)
        given = {"input": np.concatenate([context, chunk])[np.newaxis], "state": state, "sr": np.array(RATE, np.int64)}
        probability, state = session.run(None, given)
        found.append(float(probability[0, 0]))
        context = chunk[-CONTEXT:]
    return np.array(found)


def area_under_curve(positives, negatives):
    differences = positives[:, np.newaxis] - negatives
    return np.mean(differences > 0) + 0.5 * np.mean(differences == 0)
