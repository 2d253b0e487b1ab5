from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.structures.structure_sources import source_of
from zoolens.inventory.manifests.schema_steps import CenterCrop, Normalize, Resize
from zoolens.inventory.zoos.listing import task_of
from zoolens.inventory.zoos.torchvision import TorchvisionZoo
from zoolens.inventory.zoos.zoo import Weights

pytestmark = pytest.mark.skipif(find_spec("torchvision") is None, reason="torchvision is not installed")


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_HOME", str(tmp_path_factory.mktemp("torch")))
        patch.setenv("ZOOLENS_HOME", str(tmp_path_factory.mktemp("home")))
        yield {entry.manifest.name: entry for entry in TorchvisionZoo().entries()}


def test_every_set_of_weights_is_an_entry(entries):
    assert len(entries) >= 115
    assert {entry.weights for entry in entries.values()} == {Weights.REMOTE}


def test_preprocessing_is_that_of_the_weights(entries):
    steps = entries["resnet50/IMAGENET1K_V2"].manifest.inputs[0].preprocess
    assert steps[0] == Resize(op="resize", size=232, method="bilinear", library="torchvision", antialias=True)
    assert steps[1] == CenterCrop(op="center_crop", size=(224, 224))
    assert steps[2] == Normalize(op="normalize", scale=1 / 255, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    assert entries["resnet50/IMAGENET1K_V1"].manifest.inputs[0].preprocess[0].size == 256
    assert entries["vit_b_16/IMAGENET1K_SWAG_E2E_V1"].manifest.inputs[0].preprocess[0].method == "bicubic"


def test_files_carry_their_digest_and_network(entries):
    asset = entries["resnet50/IMAGENET1K_V1"].manifest.assets[0]
    assert asset.files[0].location == "https://download.pytorch.org/models/resnet50-0676ba61.pth"
    assert asset.files[0].sha256 == "0676ba61"
    assert asset.architecture.name == "resnet50"
    without = [e.manifest.name for e in entries.values() if e.manifest.assets[0].files[0].sha256 is None]
    assert without == []


def test_claims_are_the_published_ones(entries):
    manifest = entries["resnet50/IMAGENET1K_V1"].manifest
    assert manifest.claimed("top1") == pytest.approx(0.7613)
    assert manifest.claimed("top5") == pytest.approx(0.92862)
    assert manifest.claimed("params") == 25557032
    assert manifest.claimed("flops") == pytest.approx(4.089e9)
    assert manifest.claims[0].source.startswith("torchvision ")
    assert manifest.outputs[0].labels[0] == "tench"
    assert len(manifest.outputs[0].labels) == 1000


def test_the_default_weights_answer_to_the_bare_name(entries):
    aliases = [e.manifest.name for e in entries.values() if "resnet50" in e.manifest.attributes.get("aliases", ())]
    assert aliases == ["resnet50/IMAGENET1K_V2"]


def test_weights_without_a_classifier_make_no_claims_about_accuracy(entries):
    manifest = entries["vgg16/IMAGENET1K_FEATURES"].manifest
    assert manifest.task == "other"
    assert manifest.claimed("top1") is None


def test_detectors_and_segmenters_are_listed_with_their_own_figures(entries):
    found = {name: entry.manifest for name, entry in entries.items() if "task" in entry.manifest.attributes}
    assert {manifest.attributes["task"] for manifest in found.values()} == {"detection", "segmentation"}
    assert len(found) >= 18
    detector = found["fasterrcnn_resnet50_fpn/COCO_V1"]
    assert (detector.task, detector.claimed("box_map"), detector.claimed("params")) == ("other", 0.37, 41755286)
    assert detector.claims[0].dataset == "COCO-val2017"
    segmenter = found["deeplabv3_resnet50/COCO_WITH_VOC_LABELS_V1"]
    assert segmenter.claimed("miou") == pytest.approx(0.664)
    assert segmenter.inputs[0].preprocess[0].size == 520
    assert (segmenter.task, segmenter.outputs[0].name, segmenter.outputs[0].labels[:2]) == (
        "segmentation", "out", ("__background__", "aeroplane")
    )  # fmt: skip
    assert (task_of(detector), task_of(segmenter)) == ("detection", "segmentation")
    assert segmenter.assets[0].architecture.arguments == {"weights_backbone": None, "aux_loss": True}


def test_the_structure_of_a_segmenter_is_read_and_that_of_a_detector_is_refused_in_a_sentence(entries):
    segmenter = source_of(entries["lraspp_mobilenet_v3_large/COCO_WITH_VOC_LABELS_V1"])
    graph = segmenter.importer.load(replace(segmenter.request, size=(64, 64)))
    assert graph.parameters == 3_221_538
    detector = source_of(entries["ssdlite320_mobilenet_v3_large/COCO_V1"])
    with pytest.raises(ModelError, match="is a detector"):
        detector.importer.load(detector.request)
