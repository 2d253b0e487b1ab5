from __future__ import annotations

import pytest

from zoolens.inventory.manifests.locations import locate
from zoolens.inventory.manifests.schema import AssetFile
from zoolens.inventory.zoos.onnx import OnnxZoo
from zoolens.inventory.zoos.zoo import Weights


@pytest.fixture(scope="module")
def entries():
    return {entry.manifest.name: entry for entry in OnnxZoo().entries()}


def test_the_hub_is_listed_with_addresses_and_digests(entries):
    hub = [entry for name, entry in entries.items() if not name.startswith("light/")]
    assert len(hub) == 184
    files = [file for entry in hub for asset in entry.manifest.assets for file in asset.files]
    assert all(
        file.location.startswith("https://media.githubusercontent.com/media/onnx/models/main/") for file in files
    )
    assert all(len(file.sha256) == 64 and file.bytes for file in files)


def test_a_classifier(entries):
    manifest = entries["resnet50-v1-12-int8"].manifest
    assert manifest.task == "classification"
    assert manifest.element_type == "int8"
    assert manifest.inputs[0].shape == (None, 3, 224, 224)
    assert [step.op for step in manifest.inputs[0].preprocess] == ["resize", "center_crop", "normalize"]
    assert manifest.claimed("top1") == pytest.approx(0.7477)


def test_the_mislabelled_squeezenet_shows_in_its_size(entries):
    manifest = entries["squeezenet1.0-9"].manifest
    assert manifest.claimed("file_size") == 4_952_222
    assert manifest.outputs[0].scores == "probabilities"


def test_caffe_exports_declare_no_normalisation_and_say_so(entries):
    manifest = entries["bvlcalexnet-12"].manifest
    assert manifest.inputs[0].preprocess == ()
    assert "preprocessing" in manifest.description


def test_other_tasks_are_listed_as_such(entries):
    assert entries["bertsquad-10"].manifest.task == "other"
    assert len(entries["bertsquad-10"].manifest.inputs) == 4


def test_channels_last_is_seen(entries):
    assert entries["efficientnet-lite4-11"].manifest.inputs[0].layout == "NHWC"


def test_light_graphs_are_structure_only_but_their_file_is_known(entries):
    pytest.importorskip("onnx")
    entry = entries["light/resnet50"]
    assert entry.weights is Weights.ABSENT
    assert entry.manifest.assets == ()
    assert locate(AssetFile(location=entry.manifest.attributes["graph"]), None).is_file()
    assert sum(name.startswith("light/") for name in entries) == 9


def test_light_graphs_carry_the_figure_of_their_own_readme_row_and_no_other(entries):
    pytest.importorskip("onnx")
    claimed = {name: entry.manifest.claimed("top1") for name, entry in entries.items() if name.startswith("light/")}
    assert claimed["light/squeezenet"] == pytest.approx(0.5685)
    assert claimed["light/densenet121"] == pytest.approx(0.6096)
    assert claimed["light/resnet50"] is None  # the README gives a figure for the MXNet export, not for this one
