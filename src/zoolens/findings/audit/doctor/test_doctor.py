"""Whole examinations on the models and data that come with zoolens."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from zoolens.base.errors import DatasetError, GateFailed, ManifestError, ModelError
from zoolens.base.store.records import RunKind
from zoolens.base.store.store import open_store
from zoolens.faces.cli.doctor import command
from zoolens.faces.cli.runs import command as runs_command
from zoolens.findings.audit.doctor import diagnose
from zoolens.findings.audit.doctor.diagnose import doctor
from zoolens.findings.audit.doctor.diagnosis import Status
from zoolens.findings.audit.doctor.kept_samples import KeptSamples
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.datasets.dataset import UNLABELLED, DatasetView
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.datasets.truth import Truth
from zoolens.inventory.manifests.files import read_manifest, write_manifest
from zoolens.inventory.manifests.schema import Manifest
from zoolens.inventory.tasks.task import task_named
from zoolens.inventory.zoos.demo import MODELS_FOLDER

pytestmark = pytest.mark.usefixtures("trusted_models")

LIMIT = 200


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOOLENS_STORE", str(tmp_path / "store.sqlite"))
    with open_store() as opened:
        yield opened


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    """A home whose store has an examination of a demo model, and what the doctor found."""
    home = tmp_path_factory.mktemp("examined")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(home / "home"))
        with open_store(home / "store.sqlite") as opened:
            return home, examine(opened)


@pytest.fixture
def examined_store(examined, tmp_path, monkeypatch):
    """A copy of that store, of this test alone."""
    shutil.copytree(examined[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("ZOOLENS_HOME", str(tmp_path / "home"))
    with open_store(tmp_path / "store.sqlite") as opened:
        yield opened


def examine(store):
    return doctor("demo:lenet-torch", "demo", runtime="onnxruntime", limit=LIMIT, store=store)


@pytest.fixture
def damaged(tmp_path):
    """The manifest of a demo model with another normalisation and other outputs, its files named by absolute path."""

    def write(normalize=None, **output):
        data = read_manifest(MODELS_FOLDER / "lenet-torch.yaml").model_dump(mode="json", exclude_defaults=True)
        for asset in data["assets"]:
            for file in asset["files"]:
                file["location"] = f"file://{MODELS_FOLDER / file['location']}"
        data["inputs"][0]["preprocess"][0].update(normalize or {})
        data["outputs"][0].update(output)
        path = tmp_path / "damaged.yaml"
        write_manifest(Manifest.model_validate(data), path)
        return path

    return write


def test_trials_are_listed_only_where_they_are_asked_for(store):
    (asked,) = evaluate(
        ["demo:lenet-torch"], "demo", runtimes=["onnxruntime"], limit=LIMIT, seed=0, batches=(), cold=False, store=store
    )
    found = examine(store)
    assert [run.id for run in store.runs()] == [asked.run.id]  # the same content as the doctor's, and still the user's
    everything = store.runs(trials=True)
    assert len(everything) > len(found.trials)
    assert {run.kind for run in everything if run.id != asked.run.id} == {RunKind.TRIAL}
    assert store.run("last").id == asked.run.id
    assert store.run(next(one.run for one in found.trials[1:])).kind is RunKind.TRIAL  # by id it is found
    listed = CliRunner().invoke(runs_command, ["--json"])
    assert [one["purpose"] for one in json.loads(listed.stdout)] == ["evaluation"]
    shown = CliRunner().invoke(runs_command, ["--all"])
    assert "trial" in shown.output


def test_a_trial_that_is_evaluated_later_is_the_users(examined_store):
    assert examined_store.runs() == []
    top1("demo:lenet-torch", examined_store)
    assert [run.kind for run in examined_store.runs()] == [RunKind.EVALUATION]


def top1(model, store):
    (outcome,) = evaluate(
        [model], "demo", runtimes=["onnxruntime"], limit=LIMIT, seed=0, batches=(), cold=False, store=store
    )
    (found,) = store.observations(outcome.run.id, metric="top1")
    return found.value


def test_a_right_manifest_is_found_right_and_nothing_is_measured_twice(examined, examined_store):
    _, first = examined
    assert first.status is Status.RIGHT
    assert first.sentence.startswith("The manifest is right")
    assert first.corrected is None
    assert not first.faults
    assert {one.factor for one in first.not_swept} >= {"decoder", "layout", "colour order"}
    assert {one.factor for one in first.sensitivity} == {"scaling", "mean and deviation", "label offset"}
    runs = {run.id: dict(run.stages) for run in examined_store.runs(trials=True)}
    assert runs
    assert examine(examined_store) == first
    assert {run.id: dict(run.stages) for run in examined_store.runs(trials=True)} == runs


def test_variants_are_the_evaluations_that_eval_makes(examined, examined_store):
    _, found = examined
    (outcome,) = evaluate(
        ["demo:lenet-torch"], "demo", runtimes=["onnxruntime"], limit=LIMIT // 2, seed=0, batches=(), cold=False,
        store=examined_store,
    )  # fmt: skip
    assert outcome.run.id == found.trials[0].run
    assert not outcome.measured


@pytest.mark.slow
def test_two_faults_at_once_are_found_and_the_written_manifest_is_as_good_as_the_original(store, damaged, tmp_path):
    path = damaged({"scale": -1 / 255}, label_map={index: (index + 1) % 10 for index in range(10)})
    target = tmp_path / "elsewhere" / "fixed.yaml"
    target.parent.mkdir()
    arguments = [path, "--data", "demo", "-r", "onnxruntime", "--limit", LIMIT, "--write", target, "--json"]
    done = CliRunner().invoke(command, [str(one) for one in [*arguments, "--fail-on", "wrong"]])
    assert isinstance(done.exception, GateFailed)
    data = json.loads(done.stdout)
    assert data["status"] == "wrong"
    assert {fault["factor"] for fault in data["faults"]} == {"mean and deviation", "label order"}
    assert data["confirmation"]["fresh"]
    assert data["confirmation"]["p_value"] < 1e-9
    assert top1(target, store) >= top1("demo:lenet-torch", store) - 0.05
    before = target.read_text()
    again = CliRunner().invoke(command, [str(one) for one in arguments])
    assert isinstance(again.exception, ManifestError)
    assert target.read_text() == before


def test_a_manifest_that_cannot_run_is_made_to(store, damaged):
    found = doctor(damaged(scores="probabilities"), "demo", runtime="onnxruntime", limit=LIMIT, store=store)
    assert found.status is Status.WRONG
    assert [fault.correct for fault in found.faults] == ["logits"]
    assert "with scores logits instead of probabilities, top-1 rises from 0.0 %" in found.sentence
    assert "cannot be evaluated at all" in found.sentence


def test_few_images_are_judged_all_together(store, damaged):
    found = doctor(damaged({"scale": -1 / 255}), "demo", runtime="onnxruntime", limit=80, store=store)
    assert found.status is Status.WRONG
    assert not found.confirmation.fresh
    assert "adjusted for" in found.sentence


def test_too_few_images_are_said_to_be_too_few(store, damaged):
    path = damaged({"scale": -1 / 255})
    arguments = [path, "--data", "demo", "-r", "onnxruntime", "--limit", 3, "--screen", 10, "--fail-on", "improvable"]
    done = CliRunner().invoke(command, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    assert "Undecided: 3 images are too few" in done.stdout
    assert "The manifest is right" not in done.stdout
    found = doctor(path, "demo", runtime="onnxruntime", limit=3, screen=10, store=store)
    assert found.status is Status.UNDECIDED
    assert found.corrected is None


def test_the_report_names_verdict_and_fragment(store, damaged):
    arguments = [damaged({"scale": -1 / 255}), "--data", "demo", "-r", "onnxruntime", "--limit", LIMIT]
    done = CliRunner().invoke(command, [str(one) for one in arguments])
    assert done.exit_code == 0, done.output
    for words in ("Sensitivity of the model", "Not swept", "The manifest is wrong: with", "op: normalize", "p (Holm)"):
        assert words in done.stdout


# --- what the doctor does not see


def model_file(folder, **settings):
    (folder / "fake.json").write_text(json.dumps({"classes": 3, "input": [4], **settings}))


def described(folder, inputs, **more):
    path = folder / "some.yaml"
    asset = {"format": "fake", "files": [{"location": "fake.json"}]}
    write_manifest(
        Manifest.model_validate({"name": "some", "inputs": inputs, "outputs": [{}], "assets": [asset], **more}), path
    )
    return path


ARRAY = {"modality": "array", "shape": [None, 4], "layout": "NC"}


@pytest.fixture
def arrays(tmp_path):
    values = np.random.default_rng(0).random((60, 4), np.float32)
    np.savez(tmp_path / "data.npz", x=values, y=np.arange(60) % 3)
    return tmp_path / "data.npz"


class HardlyLabelled(DatasetView):
    """A dataset of which nobody labelled more than every tenth input."""

    def labels(self):
        labels = super().labels()
        return np.where(np.arange(len(labels)) % 10 == 0, labels, UNLABELLED)

    def read(self, index):
        return replace(super().read(index), label=int(self.labels()[index]))


def test_inputs_without_a_label_do_not_count(store, tmp_path, monkeypatch):
    """Of 300 inputs 30 have a label, all of which are answered rightly: that is no more than 30 inputs show."""
    values = np.zeros((300, 4), np.float32)
    values[:, 0] = np.arange(300) % 3
    np.savez(tmp_path / "data.npz", x=values, y=values[:, 0].astype(int))
    monkeypatch.setattr(diagnose, "open_dataset", lambda spec: HardlyLabelled(open_dataset(spec)))
    model_file(tmp_path, behaviour="label_leak")
    path = described(tmp_path, [ARRAY], outputs=[{"scores": "probabilities"}])
    found = doctor(path, tmp_path / "data.npz", store=store)
    assert found.status is Status.UNDECIDED, found.sentence
    assert {one.n for one in found.trials} == {30}
    assert "270 of the 300 inputs of data have no truth; they are left out." in found.notes


class CountedMasks(DatasetView):
    """Every third image has a mask, which is costly to decode."""

    def __init__(self, parent):
        super().__init__(parent)
        self.truth_kind, self.decoded = "mask", []

    def truth(self, index):
        self.decoded.append(index)
        return Truth("mask", {"mask": np.zeros((2, 2), np.uint8)}) if index % 3 == 0 else None


def test_masks_are_decoded_once_and_no_more_than_are_needed(arrays):
    masks = CountedMasks(open_dataset(arrays))
    kept, task = KeptSamples(masks), task_named("segmentation")
    judged, note = diagnose._with_truth(kept, task, 4, 0)
    looked_at = len(set(masks.decoded))
    assert len(judged) >= 4
    assert looked_at < len(masks)
    assert note.startswith(f"{looked_at - len(judged)} of the {looked_at} inputs of ")
    assert all(judged.truth(index) is not None for index in range(len(judged)))
    assert len(masks.decoded) == looked_at
    small = KeptSamples(masks, room=4)
    assert [small.truth(index) is None for index in (0, 0, 3, 3, 1, 1)] == [False] * 4 + [True] * 2
    assert masks.decoded[looked_at:] == [0, 3, 3, 1]


def test_an_array_is_only_scaled_and_shifted(store, tmp_path, arrays):
    model_file(tmp_path)
    found = doctor(described(tmp_path, [ARRAY]), arrays, store=store)
    assert found.status is Status.UNDECIDED  # its answers are noise, and few
    assert {one.factor for one in found.trials[1:]} <= {"scaling", "label offset", "scores"}
    assert any("an array" in one.reason for one in found.not_swept)


def test_code_several_inputs_and_one_class_are_refused(store, tmp_path, arrays):
    model_file(tmp_path)
    with pytest.raises(ManifestError, match="Python code of its own"):
        doctor(described(tmp_path, [ARRAY], code={"preprocess": "def preprocess(image): ..."}), arrays, store=store)
    with pytest.raises(ModelError, match="2 inputs"):
        doctor(described(tmp_path, [ARRAY, ARRAY]), arrays, store=store)
    with pytest.raises(ModelError, match="names 12 models"):
        doctor("demo:*", "demo", store=store)
    np.savez(tmp_path / "one.npz", x=np.zeros((9, 4), np.float32), y=np.zeros(9, np.int64))
    with pytest.raises(DatasetError, match="have the label 0"):
        doctor(described(tmp_path, [ARRAY]), tmp_path / "one.npz", store=store)
    np.savez(tmp_path / "unlabelled.npz", x=np.zeros((9, 4), np.float32))
    with pytest.raises(DatasetError):
        doctor(described(tmp_path, [ARRAY]), tmp_path / "unlabelled.npz", store=store)
    assert not store.runs()
