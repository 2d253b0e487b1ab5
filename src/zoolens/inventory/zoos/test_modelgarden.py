"""The three zoos that are listed from our own tables: gluon, slim and official."""

from __future__ import annotations

import sys

import pytest

from zoolens.inventory.zoos.gluon import GluonZoo
from zoolens.inventory.zoos.official import OfficialZoo
from zoolens.inventory.zoos.slim import SlimZoo
from zoolens.inventory.zoos.zoo import Weights

ZOOS = (GluonZoo, SlimZoo, OfficialZoo)


def listed(zoo):
    return {entry.manifest.name: entry.manifest for entry in zoo().entries()}


@pytest.mark.parametrize("zoo", ZOOS)
def test_every_entry_is_structure_only_and_says_who_builds_it(zoo):
    before = set(sys.modules)
    for entry in zoo().entries():
        attributes = entry.manifest.attributes
        assert entry.weights is Weights.ABSENT
        assert attributes["architecture"] == entry.manifest.name
        assert attributes.get("library") == (None if attributes.get("claims_only") else zoo.name)
        height, width = (entry.manifest.inputs[0].shape[entry.manifest.inputs[0].layout.index(axis)] for axis in "HW")
        assert height == width >= 128
    assert not {"mxnet", "tf_slim", "official", "tensorflow"} & (set(sys.modules) - before)


@pytest.mark.parametrize("zoo", ZOOS)
def test_a_search_keeps_what_matches(zoo):
    names = [entry.manifest.name for entry in zoo().entries("ResNet")]
    assert names
    assert all("resnet" in name for name in names)


def test_gluon_lists_all_of_mxnet_and_claims_nothing():
    gluon = listed(GluonZoo)
    assert len(gluon) == 34
    assert gluon["inceptionv3"].inputs[0].shape == (None, 3, 299, 299)
    assert not any(manifest.claims for manifest in gluon.values())


def test_slim_resnet_v2_is_evaluated_at_299_with_inception_preprocessing():
    slim = listed(SlimZoo)
    v1, v2 = slim["resnet_v1_50"], slim["resnet_v2_50"]
    assert v1.inputs[0].shape == (None, 224, 224, 3)
    assert v2.inputs[0].shape == (None, 299, 299, 3)
    assert [step.op for step in v1.inputs[0].preprocess] == ["resize", "center_crop", "normalize"]
    assert [step.op for step in v2.inputs[0].preprocess] == ["center_crop", "resize", "normalize"]
    assert v2.claimed("top1") == pytest.approx(0.756)
    assert (v1.attributes["num_classes"], v2.attributes["num_classes"]) == (1000, 1001)


def test_slim_networks_outside_the_package_are_claims_only():
    slim = listed(SlimZoo)
    assert slim["inception_v4"].claimed("top1") == pytest.approx(0.802)
    assert "library" not in slim["inception_v4"].attributes
    assert "tf_slim" in slim["inception_v4"].description


def test_official_resnets_carry_their_claims_and_their_backbone():
    official = listed(OfficialZoo)
    assert [official[f"resnet_{depth}"].claimed("top1") for depth in (50, 101, 152)] == [0.771, 0.783, 0.787]
    assert official["resnet_101"].attributes["arguments"]["backbone"] == {"type": "resnet", "model_id": 101}
    assert official["efficientnet_b7"].inputs[0].shape == (None, 600, 600, 3)
    assert official["efficientnet_b7"].claims == ()
