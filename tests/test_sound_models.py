"""Models that take sounds are evaluated from a manifest, without a line of code."""

import json
import wave

import numpy as np
import pytest
import yaml

from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.findings.measure.evaluate import evaluate
from zoolens.findings.measure.run_data import judged_figure

pytestmark = pytest.mark.usefixtures("trusted_models")

TASKS = ASSETS / "tasks"
AUDIO = TASKS / "audio"
needs_assets = pytest.mark.skipif(not AUDIO.is_dir(), reason="the reference assets (ZOOLENS_ASSETS) are not here")
WORDS = ["Down", "Go", "Left", "No", "Off", "On", "Right", "Stop", "Up", "Yes", "Silence", "Unknown"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with open_store(str(tmp_path / "store.db")) as opened:
        yield opened


def write_manifest(folder, **content):
    path = folder / "model.yaml"
    path.write_text(yaml.safe_dump({"zoolens": 1, "name": "model", **content}))
    return str(path)


def asset(format_, path):
    return [{"format": format_, "files": [{"location": f"file://{path}"}]}]


def measured(outcome, store):
    assert outcome.errors == ()
    return {known.metric: known.value for known in store.observations(outcome.run.id)}


def known(file):
    entries = json.loads((TASKS / "MANIFEST.json").read_text())["entries"]
    return next(entry for entry in entries if entry["file"] == f"audio/models/{file}")["measured"]


@needs_assets
@pytest.mark.assets
@pytest.mark.parametrize(("file", "kind"), [("kws_ref_model", "int8"), ("kws_ref_model_float32", "float32")])
def test_keywords_are_spotted_as_often_as_measured_elsewhere(tmp_path, store, file, kind):
    pytest.importorskip("ai_edge_litert")
    path = write_manifest(
        tmp_path,
        inputs=[{"modality": "array", "shape": [1, 49, 10, 1], "dtype": kind, "preprocess": [
            {"op": "normalize", "scale": 0.5847029, "mean": [83 * 0.5847029]}]}],
        outputs=[{"scores": "probabilities", "labels": WORDS}],
        assets=asset("tflite", AUDIO / "models" / f"{file}.tflite"),
    )  # fmt: skip
    data = f"raw:{AUDIO / 'data' / 'kws01'}?shape=49x10x1&dtype=int8&labels=y_labels.csv&label=2"
    (outcome,) = evaluate([path], data, runtimes=["litert"], batches=(), cold=False, store=store)
    assert 100 * measured(outcome, store)["top1"] == pytest.approx(known(f"{file}.tflite")["top1"], abs=0.2)


def vad(folder, **sound):
    declared = {
        "rate": 16000,
        "resample": "scipy",
        "windows": {"length": 512, "context": 64, "join": "frames"},
        "carry": {"state": {"output": "stateN", "shape": [2, 1, 128]}},
        "constants": {"sr": 16000},
        **sound,
    }
    return write_manifest(
        folder,
        inputs=[{"name": "input", "modality": "sound", "shape": [1, 576], "sound": declared}],
        outputs=[{"name": "output", "task": "voice-activity", "scores": "probabilities"}],
        assets=asset("onnx", AUDIO / "models" / "silero_vad_16k_op15.onnx"),
    )


@needs_assets
@pytest.mark.assets
def test_frames_of_a_conversation_are_judged_by_its_turns(tmp_path, store):
    pytest.importorskip("onnxruntime")
    data = f"sounds:{AUDIO / 'data' / 'vad' / 'sample.wav'}?rttm=beside"
    (outcome,) = evaluate([vad(tmp_path)], data, runtimes=["onnxruntime"], batches=(1,), cold=False, store=store)
    found, expected = measured(outcome, store), known("silero_vad_16k_op15.onnx")
    assert 100 * found["frame_accuracy"] == pytest.approx(expected["frame_accuracy"], abs=0.11)
    # How frames at the edge of a turn were labelled is not recorded; here it is the centre that counts.
    assert found["frame_auc"] == pytest.approx(expected["frame_auc"], abs=0.002)
    # A call is one window.
    assert found["latency_p50"] > 0


@needs_assets
@pytest.mark.assets
@pytest.mark.slow
def test_sounds_with_and_without_speech_are_told_apart(tmp_path, store):
    """With silence in front of sounds shorter than a second: a fresh state misses 6 of the 120 short words. Half a
    second before every sound (lead_in) finds all words too, with a third false alarm."""
    pytest.importorskip("onnxruntime")
    path = vad(tmp_path, length={"samples": 16000, "pad": "front", "crop": "none"})
    data = f"sounds:{AUDIO / 'data' / 'vad'}?active=speech"
    (outcome,) = evaluate([path], data, runtimes=["onnxruntime"], batches=(), cold=False, store=store)
    found, expected = measured(outcome, store), known("silero_vad_16k_op15.onnx")
    assert f"{round(120 * found['clips_found'])}/120" == expected["speech_clips_found"]
    assert f"{round(20 * found['false_alarms'])}/20" == expected["noise_clips_false_alarm"]
    assert found["clip_auc"] == pytest.approx(expected["clip_auc"], abs=0.01)
    # The main metric is one of frames, which sounds without times do not have: the mean score is shown.
    assert judged_figure(outcome.run, store.observations(outcome.run.id)).startswith("score 98.6 %")


# --- small models made here


def write_words(folder):
    """A tone of 100 Hz in one class, of 2,000 Hz in the other, of different lengths and rates."""
    for number in range(6):
        low, rate = number % 2 == 0, 8000 if number < 3 else 16000
        moments = np.arange(rate // 2 + 100 * number) / rate
        samples = np.sin(2 * np.pi * (100 if low else 2000) * moments) * 20000
        path = folder / "tones" / ("low" if low else "high") / f"{number}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, rate, 0, "NONE", ""))
            file.writeframes(samples.astype("<i2").tobytes())
    return folder / "tones"


def write_mean_difference(folder):
    """Logits from the mean of squared differences of neighbours: small for low tones."""
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    kernel = np.array([[[1, -1]]], np.float32)
    nodes = [
        helper.make_node("Unsqueeze", ["samples", "axis"], ["row"]),
        helper.make_node("Conv", ["row", "kernel"], ["difference"]),
        helper.make_node("Mul", ["difference", "difference"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["mean"], axes=[2], keepdims=0),
        helper.make_node("Sub", ["mean", "limit"], ["high"]),
        helper.make_node("Neg", ["high"], ["low"]),
        helper.make_node("Concat", ["high", "low"], ["scores"], axis=1),
    ]
    made = {"kernel": kernel, "axis": np.array([1]), "limit": np.array([[0.05]], np.float32)}
    graph = helper.make_graph(
        nodes,
        "tones",
        [helper.make_tensor_value_info("samples", onnx.TensorProto.FLOAT, [None, 4000])],
        [helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, [None, 2])],
        [numpy_helper.from_array(value, name) for name, value in made.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "tones.onnx")
    return folder / "tones.onnx"


@pytest.mark.parametrize(
    "cut", [{"length": {"samples": 4000}}, {"windows": {"length": 4000, "hop": 2000, "join": "mean"}}]
)
def test_a_classifier_of_sounds_is_judged_on_a_folder(tmp_path, store, cut):
    pytest.importorskip("onnxruntime")
    sound = {"rate": 16000, "resample": "scipy", **cut}
    path = write_manifest(
        tmp_path,
        inputs=[{"modality": "sound", "shape": [None, 4000], "sound": sound}],
        outputs=[{"labels": ["high", "low"]}],
        assets=asset("onnx", write_mean_difference(tmp_path)),
    )
    data = str(write_words(tmp_path))
    (outcome,) = evaluate([path], data, runtimes=["onnxruntime"], batches=(), cold=False, store=store)
    assert measured(outcome, store)["top1"] == 1
    assert any("3 of 6 sounds looked at" in warning for warning in outcome.notes)


def test_a_model_that_takes_no_sounds_says_so(tmp_path, store):
    pytest.importorskip("onnxruntime")
    path = write_manifest(
        tmp_path,
        inputs=[{"modality": "array", "shape": [None, 4000]}],
        outputs=[{}],
        assets=asset("onnx", write_mean_difference(tmp_path)),
    )
    data = str(write_words(tmp_path))
    (outcome,) = evaluate([path], data, runtimes=["onnxruntime"], batches=(), cold=False, store=store)
    assert "The samples are sounds, but" in outcome.errors[0]
