from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from inspect import getmodule, getsource

import pytest

from zoolens.findings.audit.architectures import architecture, architectures, members
from zoolens.inventory.zoos.gluon import GluonZoo
from zoolens.inventory.zoos.keras import KerasZoo
from zoolens.inventory.zoos.listing import listing
from zoolens.inventory.zoos.official import OfficialZoo
from zoolens.inventory.zoos.onnx import OnnxZoo
from zoolens.inventory.zoos.slim import SlimZoo


def everything(*zoos):
    return [entry for zoo in zoos for entry in zoo().entries()]


def skip_without(*packages):
    """Without importing them: Keras alone takes seconds."""
    for package in packages:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


def refs_of(zoo):
    return {f"{zoo}:{name}" for one in architectures() for name in one.members.get(zoo, ())}


@pytest.mark.parametrize("zoo", [GluonZoo, SlimZoo, OfficialZoo, OnnxZoo, KerasZoo])
def test_every_member_is_listed_by_its_zoo(zoo):
    skip_without(*{OnnxZoo: ("onnx",), KerasZoo: ("keras",)}.get(zoo, ()))
    listed = {entry.ref for entry in zoo().entries()}
    assert refs_of(zoo.name) <= listed


@pytest.mark.parametrize("zoo", ["torchvision", "timm"])
def test_every_member_is_listed_by_its_framework_zoo(zoo):
    skip_without("torch", "torchvision", zoo)
    listed = {entry.ref for entry in listing(zoo=zoo).entries}  # cached after the first time
    assert listed, "the zoo cannot be listed"
    assert refs_of(zoo) <= listed


TRANSFORMERS = {  # what the package itself says that a default configuration is
    "resnet50": "microsoft/resnet-50",
    "mobilenet_v1_1.0": "google/mobilenet_v1_1.0_224",
    "mobilenet_v2_1.0": "google/mobilenet_v2_1.0_224",
    "efficientnet_b7": "google/efficientnet-b7",
    "convnext_tiny": "facebook/convnext-tiny-224",
}


@pytest.mark.slow
def test_members_of_transformers_are_what_their_configurations_say():
    skip_without("transformers", "torch")
    from transformers import CONFIG_MAPPING

    found = {one.id: names for one in architectures() if (names := one.members.get("transformers"))}
    assert found.keys() == TRANSFORMERS.keys()
    for name, checkpoint in TRANSFORMERS.items():
        [kind] = found[name]
        module = getmodule(CONFIG_MAPPING[kind])
        assert checkpoint in getsource(module), kind
    assert refs_of("transformers") <= {entry.ref for entry in listing(zoo="transformers").entries}


def test_no_model_is_in_two_architectures_and_no_id_is_used_twice():
    refs = Counter(f"{zoo}:{name}" for one in architectures() for zoo, names in one.members.items() for name in names)
    assert [ref for ref, count in refs.items() if count > 1] == []
    ids = [one.id for one in architectures()]
    assert len(set(ids)) == len(ids)


def test_enough_architectures_are_shared():
    shared = [one for one in architectures() if len(one.zoos) >= 2]
    assert len(shared) >= 60
    assert len({zoo for one in shared for zoo in one.zoos}) == 8
    assert sum(one.study for one in architectures()) >= 30
    assert all(1990 < one.year < 2027 and one.paper and one.family for one in architectures())


def test_members_are_found_in_a_catalogue_in_the_order_of_the_table():
    found = members(everything(OfficialZoo, SlimZoo, GluonZoo))
    resnets = found["resnet50"]
    assert [member.ref for member in resnets] == ["gluon:resnet50_v1", "slim:resnet_v1_50", "official:resnet_50"]
    assert {member.rank for member in resnets} == {0}
    assert "convnext_tiny" not in found


def test_an_architecture_is_found_by_its_id_and_by_a_member():
    assert architecture("resnet50").name == "ResNet-50"
    assert architecture("slim:resnet_v1_50") is architecture("resnet50")
    assert architecture("slim:overfeat") is None


def test_the_mislabelled_squeezenet_stays_under_the_name_it_claims():
    assert architecture("onnx:squeezenet1.0-12").id == "squeezenet1_0"
    assert architecture("onnx:light/squeezenet").id == "squeezenet1_0"
