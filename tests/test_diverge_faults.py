"""Damaged copies of real models: `diverge` names the damaged layer and proves it; re-exports raise no alarm.

The figures in docs/diverge.md come from here: `pytest -m slow tests/test_diverge_faults.py -s`.
"""

from dataclasses import dataclass

import pytest

from zoolens.base.engine.sandbox import trusting
from zoolens.findings.divergence.diverging import diverge_jobs
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.findings.measure.jobs import RunOptions, plan_jobs
from zoolens.findings.twins.provenance import write_twin
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.testing.damaged_onnx import KINDS, damaged_copies, reexports, with_file

pytestmark = [pytest.mark.slow, pytest.mark.assets]
RUNTIME = "onnxruntime"
CIFAR = "cifar10:{assets}/data/cifar10/test_batch_first2000.bin.gz"
IMAGENET = "imagefolder:{assets}/data/imagenet_val"
# Model, data, and seeds: each seed damages other layers. Only the last two have norms of their own.
MODELS = [
    ("demo:resnet-tiny", "demo", (0, 1)),
    ("demo:mobile-tiny", "demo", (0, 1)),
    ("demo:lenet-wide", "demo", (0, 1)),
    ("demo:lenet-deep", "demo", (0,)),
    ("demo:mlp-wide", "demo", (0,)),
    ("cifar10/samplenet_onnx", CIFAR, (0,)),
    ("cifar10/samplenet_caffe", CIFAR, (0,)),
    ("cifar10/pretrainedResnet_large_float", CIFAR, (0,)),
    ("imagenet/tflitesupport_mobilenet_v1_0.25_224_float", IMAGENET, (0,)),
    ("imagenet/squeezenet_v1.1_caffe", IMAGENET, (0,)),
    ("imagenet/mobilenet_v2_torch", IMAGENET, (0,)),
    ("imagenet/tf_efficientnet_lite0_torch", IMAGENET, (0,)),
]
NORMED = {"imagenet/mobilenet_v2_torch": (1, 2, 3), "imagenet/tf_efficientnet_lite0_torch": (1, 2)}  # further epsilons
EPSILON = {"epsilon changed": KINDS["epsilon changed"]}
LIMIT = 12  # inputs: a damaged channel may be dead on some
LEAST_COPIES, LEAST_REEXPORTS, NAMED = 40, 20, 0.95


@dataclass
class Tally:
    copies: int = 0
    named: int = 0
    proved: int = 0
    reexports: int = 0
    alarms: int = 0


@pytest.fixture(scope="module")
def tally():
    return Tally()


def job(entry):
    jobs, skipped = plan_jobs([entry], RunOptions(runtimes=(RUNTIME,)))
    assert jobs, skipped
    return jobs[0]


def as_onnx(name, zoo, folder):
    """The model as an ONNX file: its own, or the graph of another format written as one."""
    entry = find(name if ":" in name else str(zoo / f"{name}.yaml"))
    if any(asset.format == "onnx" for asset in entry.manifest.assets):
        return entry
    return find(str(write_twin(weighted_graph(entry), entry, entry, (), folder).manifest))


@pytest.mark.parametrize(("name", "data", "seeds"), MODELS, ids=[name for name, _, _ in MODELS])
def test_one_model(home, assets, tmp_path, tally, request, name, data, seeds):
    zoo = request.config.rootpath / "tests" / "reference_zoo"
    with trusting(True):
        entry = as_onnx(name, zoo, tmp_path)
        with_data = open_dataset(data.format(assets=assets), limit=LIMIT)
        copies = [damage for seed in seeds for damage in damaged_copies(entry, tmp_path, seed=seed)]
        copies += [damage for seed in NORMED.get(name, ()) for damage in damaged_copies(entry, tmp_path, EPSILON, seed)]
        for damage in copies:
            found = diverge_jobs(job(entry), job(damage.entry), with_data, examined=1)
            layers = [cause.layer or "" for cause in found.causes]
            sources = [label_tensor(found, cause) for cause in found.causes]
            right = len(layers) == 1 and damage.tensor in (layers[0], sources[0])
            tally.copies += 1
            tally.named += right
            tally.proved += right and found.causes[0].proved
            said = [(cause.kind.value, cause.label, cause.proved) for cause in found.causes]
            print(f"{name} | {damage.kind} | {damage.tensor} | {'named' if right else 'MISSED'} | {said}")
        for kind, other in reexports(entry, tmp_path):
            found = diverge_jobs(job(entry), job(other), with_data, examined=1)
            tally.reexports += 1
            tally.alarms += found.differs
            print(f"{name} | {kind} | {'ALARM' if found.differs else 'no alarm'} | {[c.words for c in found.causes]}")


def label_tensor(found, cause):
    return (cause.label or "").rpartition(" (")[0]


def test_the_study_as_a_whole(tally):
    print(tally)
    assert tally.copies >= LEAST_COPIES
    assert tally.reexports >= LEAST_REEXPORTS
    assert tally.named >= NAMED * tally.copies
    assert tally.alarms == 0


def test_a_file_can_stand_in_for_another(tmp_path):
    entry = find("demo:lenet-torch")
    assert with_file(entry, tmp_path / "x.onnx").manifest.assets[0].format == "onnx"
