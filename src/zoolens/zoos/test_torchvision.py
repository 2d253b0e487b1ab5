from __future__ import annotations

from importlib.util import find_spec

import pytest

from zoolens.manifests.schema import CenterCrop, Normalize, Resize
from zoolens.zoos.base import Weights
from zoolens.zoos.torchvision import TorchvisionZoo

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
