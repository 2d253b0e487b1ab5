"""Which decoders are worth a trial, and a whole examination in which one of them is the answer."""

import json
import sys

import numpy as np
import pytest
from PIL import Image

from zoolens.base.store.store import open_store
from zoolens.findings.audit.doctor import decoder_axes
from zoolens.findings.audit.doctor.decoder_axes import decoder_axis
from zoolens.findings.audit.doctor.diagnose import doctor
from zoolens.findings.audit.doctor.diagnosis import Status
from zoolens.findings.audit.doctor.variants import DECLARED, Axis, NotSwept
from zoolens.inventory.datasets.arrays import ArrayDataset
from zoolens.inventory.datasets.decoders.decoder import is_installed, load_decoder
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.files import dump_manifest, parse_manifest, write_manifest
from zoolens.inventory.manifests.schema import Manifest

CLASSES = 3
IMAGES = 120

pytestmark = pytest.mark.skipif(not is_installed("opencv"), reason="opencv is not installed")


def manifest(**changes):
    asset = {"format": "fake", "files": [{"location": "fake.json"}]}
    described = {"shape": [None, 3, 16, 16], **changes}
    output = {"scores": "probabilities"}
    return Manifest.model_validate({"name": "some", "inputs": [described], "outputs": [output], "assets": [asset]})


@pytest.fixture
def noise(tmp_path):
    def saved(kind):
        pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        (tmp_path / "0").mkdir()
        Image.fromarray(pixels).save(tmp_path / "0" / f"a.{kind}")
        return open_dataset(tmp_path)

    return saved


def axes_of(found):
    return [one for one in found if isinstance(one, Axis)]


def reasons_of(found):
    return {one.factor: one.reason for one in found if isinstance(one, NotSwept)}


def test_what_gives_the_same_pixels_or_is_not_there_is_not_tried(noise, monkeypatch):
    monkeypatch.setattr(decoder_axes, "is_installed", lambda name: name != "tensorflow")
    found = decoder_axis(manifest(), noise("png"))
    assert not axes_of(found)
    assert "the very pixels of pillow" in reasons_of(found)["decoder opencv"]
    assert reasons_of(found)["decoder tensorflow"] == "it is not installed."


@pytest.mark.skipif(not is_installed("tensorflow"), reason="tensorflow is not installed")
def test_what_gives_other_pixels_is_tried(noise):
    (axis,) = axes_of(decoder_axis(manifest(), noise("jpg")))
    choice = next(one for one in axis.choices if one.name == "tensorflow")
    varied = DECLARED.choosing(choice).apply(manifest())
    assert varied.inputs[0].decoder == "tensorflow"
    assert parse_manifest(dump_manifest(varied)) == varied


def test_a_declared_decoder_that_is_missing_leaves_the_others_to_be_tried(noise, monkeypatch):
    load_decoder.cache_clear()
    monkeypatch.setitem(sys.modules, "cv2", None)
    (axis,) = axes_of(decoder_axis(manifest(decoder="opencv"), noise("png")))
    assert axis.declared == "opencv"
    assert "pillow" in [choice.name for choice in axis.choices]


def test_pixels_and_arrays_have_no_decoder():
    dataset = ArrayDataset(np.zeros((4, 16, 16, 3), np.uint8), np.arange(4), name="pixels")
    (found,) = decoder_axis(manifest(), dataset)
    assert (found.factor, "decoded already" in found.reason) == ("decoder", True)
    (found,) = decoder_axis(manifest(modality="array", shape=[None, 4], layout="NC"), dataset)
    assert "an array" in found.reason


@pytest.mark.slow
def test_a_model_of_turned_pictures_needs_the_decoder_that_turns_them(tmp_path):
    """The model's answer is the first pixel: turned as the EXIF data say that is the label, unturned it is noise."""
    (tmp_path / "fake.json").write_text(
        json.dumps({"classes": CLASSES, "input": [3, 16, 16], "behaviour": "label_leak"})
    )
    write_manifest(manifest(), tmp_path / "some.yaml")
    exif = Image.Exif()
    exif[0x0112] = 6  # what lies at the bottom left belongs to the top left
    random = np.random.default_rng(0)
    for index in range(IMAGES):
        pixels = np.full((16, 16, 3), random.integers(CLASSES), np.uint8)
        pixels[8:] = index % CLASSES
        path = tmp_path / "data" / str(index % CLASSES) / f"{index}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path, quality=100, subsampling=0, exif=exif)
    with open_store(tmp_path / "store.sqlite") as store:
        found = doctor(tmp_path / "some.yaml", tmp_path / "data", store=store)
    assert found.status is Status.IMPROVABLE, found.sentence
    assert [(one.factor, one.declared, one.correct) for one in found.faults] == [("decoder", "pillow", "opencv")]
    assert found.confirmation.after == 1.0
    assert found.corrected.inputs[0].decoder == "opencv"
