"""Real classifiers whose manifests were damaged on purpose: the fault is found and the accuracy comes back."""

from pathlib import Path

import numpy as np
import pytest

from zoolens.base.store.store import open_store
from zoolens.conftest import ASSETS
from zoolens.findings.audit.doctor.diagnose import doctor
from zoolens.findings.audit.doctor.diagnosis import Status
from zoolens.findings.audit.doctor.variants import with_input, with_output
from zoolens.findings.measure.evaluate import evaluate
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.files import read_manifest, write_manifest
from zoolens.inventory.manifests.schema_steps import Normalize
from zoolens.inventory.preprocess.resize import resize

REPO = Path(__file__).parents[5]
ZOO = REPO / "tests" / "reference_zoo"
LIMIT = 200
FEW = 120  # the fewest of which half are kept to confirm what was found
TOLERANCE = 0.03  # a mean that is nearly the same may answer a few images otherwise

pytestmark = [
    pytest.mark.usefixtures("trusted_models"),
    pytest.mark.assets,
    pytest.mark.skipif(not ASSETS.is_dir(), reason="the reference assets (ZOOLENS_ASSETS) are not here"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all faults: what was measured for one of them is not measured again for the next, as for a user."""
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOLENS_HOME", str(folder / "home"))
        patch.setenv("ZOOLENS_ASSETS", str(ASSETS))
        with open_store(folder / "store.sqlite") as opened:
            yield opened


def normalised(manifest, **changes):
    steps = manifest.inputs[0].preprocess
    return with_input(
        manifest, preprocess=tuple(s.model_copy(update=changes) if isinstance(s, Normalize) else s for s in steps)
    )


FAULTS = {
    "wrong mean": lambda manifest: normalised(manifest, mean=(0.0,), std=(20.0,)),
    "RGB for BGR": lambda manifest: with_input(manifest, color="RGB"),
    "wrong scale": lambda manifest: normalised(manifest, scale=1 / 255),
    "label offset": lambda manifest: with_output(manifest, label_map={index: index + 1 for index in range(10)}),
}


def top1(path, data, runtime, store, limit):
    (outcome,) = evaluate(
        [str(path)], data, runtimes=[runtime], limit=limit, seed=0, batches=(), cold=False, store=store
    )
    (found,) = store.observations(outcome.run.id, metric="top1")
    return found.value


def examine(name, damage, data, runtime, store, folder, limit=LIMIT):
    """The diagnosis of the damaged manifest; top-1 of the original, the damaged and the corrected one."""
    original, damaged, corrected = ZOO / f"{name}.yaml", folder / "damaged.yaml", folder / "corrected.yaml"
    write_manifest(damage(read_manifest(original)), damaged)
    found = doctor(damaged, data, runtime=runtime, limit=limit, store=store)
    assert found.corrected is not None, found.sentence
    write_manifest(found.corrected, corrected)
    return found, [top1(path, data, runtime, store, limit) for path in (original, damaged, corrected)]


@pytest.mark.slow  # the usual suite has two faults at once, in test_doctor.py
@pytest.mark.parametrize(
    ("faults", "factors"),
    [
        (["wrong mean"], {"mean and deviation"}),
        (["RGB for BGR"], {"colour order"}),
        (["wrong scale"], {"mean and deviation"}),
        (["label offset"], {"label offset"}),
        (["RGB for BGR", "wrong scale"], {"colour order", "mean and deviation"}),
        (["label offset", "wrong scale"], {"label offset", "mean and deviation"}),
    ],
    ids=lambda value: " + ".join(value) if isinstance(value, list) else "",
)
def test_a_damaged_manifest_is_restored(store, tmp_path, faults, factors):
    def damage(manifest):
        for fault in faults:
            manifest = FAULTS[fault](manifest)
        return manifest

    data = f"cifar10:{ASSETS}/data/cifar10/test_batch_first2000.bin.gz"
    found, (before, broken, after) = examine("cifar10/samplenet_onnx", damage, data, "onnxruntime", store, tmp_path)
    assert found.status is Status.WRONG
    assert {fault.factor.replace("scaling", "mean and deviation") for fault in found.faults} == factors
    assert broken < before - 0.05
    assert after >= before - TOLERANCE


@pytest.mark.slow
def test_a_missing_background_class_is_found_in_a_quantised_mobilenet(store, tmp_path):
    """1,001 outputs, the first of which nobody dropped."""
    wanted = open_dataset(f"{ASSETS}/data/imagenet_val", limit=FEW, seed=1)
    samples = [wanted.read(index) for index in range(len(wanted))]
    images = np.stack([resize(sample.value, (128, 128), "bicubic", "pil") for sample in samples])
    np.savez(tmp_path / "images.npz", x=images, y=wanted.labels())
    found, (before, broken, after) = examine(
        "imagenet/coral_mobilenet_v1_0.25_128_quant", lambda manifest: with_output(manifest, postprocess=()),
        str(tmp_path / "images.npz"), "litert", store, tmp_path, FEW,
    )  # fmt: skip
    assert [fault.correct for fault in found.faults] == ["the first output dropped"]
    assert broken < 0.1
    assert after == before
