"""Which combinations are run, which are not and why, and what identifies the stack they run in."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.base.progress import Silent
from zoolens.base.store.store import open_store
from zoolens.findings.measure.containers import dockerfile, requirements_lock, write_stack
from zoolens.findings.measure.job_runner import run_job
from zoolens.findings.measure.jobs import RunOptions, plan_jobs
from zoolens.findings.measure.lock import installed_packages, resolve_stack
from zoolens.findings.measure.plan import EvaluationPlan
from zoolens.inventory.datasets.decoders.decoder import load_decoder
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.schema import Framework, Input, Manifest
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import Options
from zoolens.inventory.zoos.zoo import Entry, Weights


@pytest.fixture
def entry(tmp_path):
    (tmp_path / "m.json").write_text('{"classes": 3, "input": [4]}')
    manifest = Manifest.model_validate(
        {
            "name": "m",
            "inputs": [{"modality": "array", "shape": [None, 4], "layout": "NC"}],
            "outputs": [{}],
            "assets": [{"format": "fake", "files": [{"location": "m.json"}]}],
        }
    )
    return Entry("file", manifest, Weights.PRESENT, tmp_path)


def changed(entry, **fields):
    return replace(entry, manifest=entry.manifest.model_copy(update=fields))


def test_every_runtime_that_can_run_it_is_chosen(entry):
    jobs, skipped = plan_jobs([entry], RunOptions())
    assert [job.runtime.name for job in jobs] == ["fake"]
    assert not skipped


def test_a_runtime_asked_for_that_cannot_run_it_is_named(entry):
    jobs, skipped = plan_jobs([entry], RunOptions(runtimes=("fake", "onnxruntime")))
    assert [job.runtime.name for job in jobs] == ["fake"]
    assert skipped[0].reason == "onnxruntime does not run fake"


def test_structure_only_is_never_run(entry):
    jobs, (skipped,) = plan_jobs([changed(entry, assets=())], RunOptions())
    assert not jobs
    assert "structure only" in skipped.reason
    assert "random" in skipped.reason


def test_the_manifests_own_requirements_count(entry):
    jobs, (skipped,) = plan_jobs([changed(entry, requires="cores>=100000")], RunOptions())
    assert not jobs
    assert "cores" in skipped.reason


def test_the_manifests_framework_version_counts_in_that_framework_only(entry, monkeypatch):
    monkeypatch.setattr(Fake, "distributions", ("numpy",))
    old = changed(entry, framework=Framework(name="numpy", version="<1"))
    jobs, (skipped,) = plan_jobs([old], RunOptions(runtimes=("fake",)))
    assert not jobs
    assert "asks for numpy<1 but" in skipped.reason
    other = changed(entry, framework=Framework(name="torch", version="<1"))
    assert len(plan_jobs([other], RunOptions(runtimes=("fake",)))[0]) == 1


def test_a_fragile_runtime_gets_a_process_of_its_own(entry, monkeypatch):
    assert not plan_jobs([entry], RunOptions())[0][0].isolate
    monkeypatch.setattr(Fake, "fragile", "it is made of glass")
    assert plan_jobs([entry], RunOptions())[0][0].isolate


def test_an_unknown_runtime_is_an_error_for_each_model(entry):
    _, (skipped,) = plan_jobs([entry], RunOptions(runtimes=("fakee",)))
    assert "Did you mean fake" in skipped.reason


def test_a_broken_plugin_does_not_stop_the_others(entry, monkeypatch):
    load = plugins.load

    def sometimes(group, name):
        if name == "torch":
            raise ZoolensError("broken")
        return load(group, name)

    monkeypatch.setattr(plugins, "load", sometimes)
    jobs, _ = plan_jobs([entry], RunOptions())
    assert [job.runtime.name for job in jobs] == ["fake"]


def test_options_and_versions_are_identity_and_unrelated_packages_are_not(monkeypatch):
    plain = resolve_stack(Fake(), Options(), None)
    assert resolve_stack(Fake(), Options(), None).fingerprint == plain.fingerprint
    assert resolve_stack(Fake(), Options(precision="float32"), None).fingerprint != plain.fingerprint
    packages = {**installed_packages(), "unrelated": "1.0"}
    monkeypatch.setattr("zoolens.findings.measure.lock.installed_packages", lambda: packages)
    assert resolve_stack(Fake(), Options(), None).fingerprint == plain.fingerprint
    packages["numpy"] = "0.0.1"
    assert resolve_stack(Fake(), Options(), None).fingerprint != plain.fingerprint


def test_the_decoder_is_identity_where_it_is_not_pillow(monkeypatch):
    packages = {"numpy": "2", "pillow": "12", "opencv-python": "4.10", "tensorflow": "2.18"}
    monkeypatch.setattr("zoolens.findings.measure.lock.installed_packages", lambda: packages)
    plain = resolve_stack(Fake(), Options(), None)
    assert resolve_stack(Fake(), Options(), None, decoder="pillow").fingerprint == plain.fingerprint
    assert "decoder" not in plain.identity
    assert resolve_stack(Fake(), Options(), None, decoder="opencv").identity["decoder"] == {"opencv-python": "4.10"}


@pytest.fixture
def upright(entry):
    """A model of 64×48 images, and files that are 48×64 until they are turned as their EXIF data say."""
    (entry.folder / "m.json").write_text('{"classes": 3, "input": [3, 64, 48]}')
    exif = Image.Exif()
    exif[0x0112] = 6
    for label in range(3):
        (entry.folder / "data" / str(label)).mkdir(parents=True)
        pixels = np.full((48, 64, 3), 80 * label, np.uint8)
        Image.fromarray(pixels).save(entry.folder / "data" / str(label) / "a.jpg", exif=exif)

    def outcome(decoder):
        spec = Input(shape=(None, 3, 64, 48), decoder=decoder)
        (job,), _ = plan_jobs([changed(entry, inputs=(spec,))], RunOptions())
        plan = EvaluationPlan(models=[], data=str(entry.folder / "data"), batches=(), cold=False)
        with open_store(entry.folder / "store.sqlite") as store:
            return run_job(job, plan, open_dataset(plan.data), store, Silent())

    return outcome


def test_images_are_decoded_as_the_manifest_says(upright):
    pytest.importorskip("cv2")
    outcome = upright("opencv")
    assert not outcome.errors
    assert f"opencv-python-headless=={installed_packages()['opencv-python-headless']}" in requirements_lock(outcome.run)
    assert "48×64" in upright("pillow").errors[0]


def test_a_decoder_that_is_not_installed_is_an_error_before_the_run(upright, monkeypatch):
    load_decoder.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    outcome = upright("opencv")
    assert outcome.run is None
    assert "zoolens[opencv]" in outcome.errors[0]


def test_installed_packages_are_those_that_metadata_knows():
    from importlib.metadata import version

    found = installed_packages()
    assert found["numpy"] == version("numpy")
    assert found["pyarrow"] == version("pyarrow")


def test_the_exported_stack_pins_what_was_installed(entry):
    np.savez(entry.folder / "data.npz", x=np.random.default_rng(0).normal(size=(30, 4)), y=np.arange(30) % 3)
    store = open_store(entry.folder / "store.sqlite")
    (job,), _ = plan_jobs([entry], RunOptions())
    plan = EvaluationPlan(models=[], data=str(entry.folder / "data.npz"), batches=(), cold=False)
    outcome = run_job(job, plan, open_dataset(plan.data), store, Silent())
    assert not outcome.errors
    lock = requirements_lock(outcome.run)
    assert f"numpy=={np.__version__}\n" in lock
    assert "zoolens==" not in lock
    text = dockerfile(outcome.run)
    assert f'CMD ["reproduce", "{outcome.run.id}"]' in text
    assert "FROM python:3." in text


def test_the_exported_stack_of_an_environment_has_its_own_versions(entry):
    """As `--env onnxruntime==1.20.1` would record it; nothing is installed for it."""
    np.savez(entry.folder / "data.npz", x=np.random.default_rng(0).normal(size=(30, 4)), y=np.arange(30) % 3)
    store = open_store(entry.folder / "store.sqlite")
    (job,), _ = plan_jobs([entry], RunOptions())
    plan = EvaluationPlan(models=[], data=str(entry.folder / "data.npz"), batches=(), cold=False)
    run = run_job(job, plan, open_dataset(plan.data), store, Silent()).run
    spec = ("onnxruntime==1.20.1",)
    packages = {"onnxruntime": "1.20.1", "numpy": "1.26.4", "mxnet": "1.9.1"}
    identity = {**run.stack.identity, "environment": list(spec), "packages": {"onnxruntime": "1.20.1", "numpy": "2"}}
    lock = {**run.stack.lock, "environment_packages": packages}
    inside = replace(run, stack=replace(run.stack, identity=identity, lock=lock))
    text = requirements_lock(inside)
    assert "onnxruntime==1.20.1\n" in text
    assert "mxnet==1.9.1\n" in text
    assert "numpy==1.26.4\n" in text
    assert f"numpy=={np.__version__}\n" not in text
    names = {path.name: path.read_text() for path in write_stack(inside, entry.folder / "out")}
    assert f"numpy=={np.__version__}\n" in names["zoolens-requirements.lock"]
    assert "RUN pip install --no-cache-dir --no-deps -r zoolens-requirements.lock" in names["Dockerfile"]
    assert "ENV PIP_CONSTRAINT=/work/requirements.lock" in names["Dockerfile"]
    assert f'CMD ["reproduce", "{run.id}", "--yes"]' in names["Dockerfile"]
