"""Voice activity: frames against times, sounds against labels, and the contract of tasks."""

import numpy as np
import pytest

from zoolens.base.errors import ManifestError, ModelError
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.schema import Input, Output
from zoolens.inventory.preprocess.sound_inputs import SoundPlace
from zoolens.inventory.runtimes.runtime import TensorSpec
from zoolens.inventory.tasks.output_setup import OutputSetup
from zoolens.inventory.tasks.task import TRUTH_KNOWN, Answers
from zoolens.inventory.tasks.voice_activity import Frames, VoiceActivity
from zoolens.testing.task_contract import N, TaskContract

TASK = VoiceActivity()
WINDOWS = {"length": 512, "context": 64, "join": "frames"}


def truth(intervals, *, timed=True):
    return Truth("activity", {"intervals": np.array(intervals, float).reshape(-1, 2), "timed": np.array([timed])})


def answers(frames, truths):
    known = np.ones(len(truths), np.int8)
    return Answers("out", TASK.name, TASK.keep(frames, None), None, {**TASK.keep_truth(truths), TRUTH_KNOWN: known})


class TestContract(TaskContract):
    task_class = VoiceActivity

    def values(self, seed):
        rng = np.random.default_rng(seed)
        return [Frames(rng.random(5 + place).astype(np.float32), 0.016, 0.032, 9.0, 0.5) for place in range(N)]

    def truths(self):
        return [truth([[0, 0.1]] if place % 2 else []) for place in range(N - 1)] + [None]


def test_frames_are_judged_by_the_moment_at_their_centre():
    # Half a second of silence was put before the sound: the first frame lies in it.
    frames = Frames(np.array([0.9, 0.2, 0.6, 0.7], np.float32), -0.25, 0.5, 1.4, 0.5)
    judged = TASK.judgement(answers([frames], [truth([[0.5, 1.3]])]))
    assert [metric.name for metric in judged.metrics] == ["frame_auc", "frame_accuracy", "frame_f1"]
    # Centres 0.25 (silent), 0.75 and 1.25 (spoken): all right.
    np.testing.assert_array_equal(judged.aggregate(np.ones((1, 1), np.int64)), [[1, 1, 1]])
    wrong = TASK.judgement(answers([frames], [truth([[0, 0.5]])]))
    np.testing.assert_array_equal(wrong.aggregate(np.ones((1, 1), np.int64)), [[0, 0, 0]])


def test_weights_count_as_repeated_sounds():
    rng = np.random.default_rng(0)
    frames = [Frames(rng.random(9).astype(np.float32), 0.05, 0.1, 0.9, 0.5) for _ in range(4)]
    truths = [truth([[0.2 * place, 0.5]]) for place in range(4)]
    judged = TASK.judgement(answers(frames, truths))
    weights = np.array([[2, 0, 1, 3]])
    repeated = np.repeat(np.arange(4), weights[0])
    again = TASK.judgement(answers([frames[place] for place in repeated], [truths[place] for place in repeated]))
    assert np.allclose(judged.aggregate(weights), again.aggregate(np.ones((1, 6), np.int64)))


def test_sounds_without_times_are_judged_as_a_whole():
    frames = [Frames(np.array([0.1, top], np.float32), 0.05, 0.1, 0.2, 0.5) for top in (0.9, 0.4, 0.6, 0.2)]
    truths = [truth([[0, np.inf]] if spoken else [], timed=False) for spoken in (True, True, False, False)]
    kept = answers(frames, truths)
    judged = TASK.judgement(kept)
    assert [metric.name for metric in judged.metrics] == ["clip_auc", "clips_found", "false_alarms"]
    np.testing.assert_allclose(judged.aggregate(np.ones((1, 4), np.int64)), [[0.75, 0.5, 0.5]])
    assert "not when" in judged.notes[0]
    assert TASK.scores(kept, np.full(4, -1)).tolist() == [1, 0, 0, 1]


def test_two_models_with_frames_of_different_lengths_are_compared_by_moments():
    fine = Frames(np.array([0.9, 0.9, 0.1, 0.1], np.float32), 0.05, 0.1, 0.4, 0.5)
    coarse = Frames(np.array([0.8, 0.8], np.float32), 0.1, 0.2, 0.4, 0.5)
    a, b = (answers([frames], [truth([])]) for frames in (fine, coarse))
    assert TASK.agreement(a, b).tolist() == TASK.agreement(b, a).tolist() == [0.5]
    assert TASK.show(a, 0) == "speech in 50 % of frames: 0.00 to 0.20 s"


def setup(output, **sound):
    declared = {"rate": 16000, "windows": WINDOWS, **sound}
    spec = Input(modality="sound", shape=(1, 576), sound=declared)
    tensors = {"probability": TensorSpec("output", (None, 1), "float32")}
    return OutputSetup(Output(task="voice-activity", **output), (spec,), tensors)


def test_answers_are_read_with_their_moments():
    read = TASK.reader(setup({"scores": "probabilities", "postprocess": [{"op": "threshold", "above": 0.3}]}))
    (frames,) = read({"probability": np.array([[0.2, 0.4]], np.float32)}, [SoundPlace(-0.5, 1.0)])
    assert frames.active.tolist() == [False, True]
    np.testing.assert_allclose(frames.centres, [-0.484, -0.452])
    with pytest.raises(ModelError, match=r"declares probabilities, but the model answered 1\.5"):
        read({"probability": np.array([[1.5]], np.float32)}, [SoundPlace(0, 1)])
    with pytest.raises(ModelError, match="NaN or infinity"):
        read({"probability": np.array([[np.nan]], np.float32)}, [SoundPlace(0, 1)])
    with pytest.raises(ModelError, match="2 numbers for each frame"):
        read({"probability": np.zeros((1, 3, 2), np.float32)}, [SoundPlace(0, 1)])


def test_probabilities_that_were_taken_for_logits_are_noticed():
    read = TASK.reader(setup({"scores": "logits"}))
    kept = answers(read({"probability": np.array([[0.0, 1.0]], np.float32)}, [SoundPlace(0, 1)]), [truth([])])
    assert "are they probabilities?" in TASK.judgement(kept).notes[0]


def test_a_sound_that_is_not_cut_into_frames_is_refused():
    with pytest.raises(ManifestError, match="does not cut sounds into frames"):
        TASK.reader(setup({}, windows=None))


def test_a_sound_without_a_frame_is_judged_as_a_whole():
    nothing = Frames(np.zeros(0, np.float32), 0.05, 0.1, 1 / 16_000, 0.5)
    silent, spoken = TASK.scores(answers([nothing] * 2, [truth([]), truth([[0, 1]])]), np.full(2, -1))
    assert (silent, spoken) == (1, 0)
