from __future__ import annotations

from dataclasses import replace

import pytest

from zoolens.audit.identification import article, identify, stored
from zoolens.audit.papers import paper, papers
from zoolens.audit.papers.compile import compile_paper
from zoolens.graph.building import GraphBuilder
from zoolens.graph.known import PAPER, Known, shipped
from zoolens.graph.model import Parameter
from zoolens.graph.signatures import signature
from zoolens.store.store import open_store


@pytest.mark.parametrize("name", ["squeezenet1_0", "mobilenet_v2_1.0", "resnet8", "alexnet"])
def test_the_shipped_table_is_made_from_todays_papers(name):
    """Otherwise run scripts/make_signatures.py again."""
    entry = next(one for one in shipped() if one.zoo == PAPER and one.architecture == name)
    assert entry.signature == signature(compile_paper(paper(name)))


def test_the_shipped_table_has_every_paper_and_several_zoos():
    assert set(papers()) <= {one.architecture for one in shipped() if one.zoo == PAPER}
    assert {"torchvision", "keras", "timm", "onnx"} <= {one.zoo for one in shipped()}


def test_a_wrong_name_is_contradicted_with_the_reason():
    graph = compile_paper(paper("squeezenet1_1"), classes=10)
    found = identify(graph, "squeezenet1.0.onnx", names=["squeezenet1.0.onnx"])
    assert found.architecture == "squeezenet1_1"
    assert found.claimed == "squeezenet1_0"
    assert found.exact
    assert found.contradiction.startswith("squeezenet1.0.onnx is a SqueezeNet 1.1: its structure equals ")
    assert "torchvision:squeezenet1_1" in found.contradiction
    assert "a SqueezeNet 1.0 has conv 7×7/2 3→96 instead of conv 3×3/2 3→64" in found.contradiction


@pytest.mark.parametrize("name", ["squeezenet1_1", "network", "", "squeezenet v1.1"])
def test_a_right_name_or_none_is_not_contradicted(name):
    found = identify(compile_paper(paper("squeezenet1_1")), "it", names=[name])
    assert not found.contradiction
    assert found.name == "SqueezeNet 1.1"


def test_a_zoo_that_mislabels_does_not_make_the_label_right():
    """onnx:light/squeezenet is listed as a SqueezeNet 1.0 and equals 1.1: the paper decides."""
    mislabelled = [one for one in shipped() if one.ref == "onnx:light/squeezenet"]
    assert mislabelled[0].architecture == "squeezenet1_0"
    found = identify(compile_paper(paper("squeezenet1_1")), "it", names=["squeezenet1_0"])
    assert found.architecture == "squeezenet1_1"
    assert found.contradiction


def test_depth_and_pre_activation_that_a_name_denies_are_contradicted():
    deeper = identify(compile_paper(paper("resnet34")), "it", names=["resnet18.onnx"])
    assert deeper.architecture == "resnet34"
    assert "is a ResNet-34" in deeper.contradiction
    v2 = identify(compile_paper(paper("resnet50_v2")), "it", names=["resnet50-v1"])
    assert v2.architecture == "resnet50_v2"
    assert v2.contradiction


def test_widths_have_names_and_a_wrong_width_is_contradicted():
    graph = compile_paper(paper("mobilenet_v2_1.0"), width=0.35)
    right = identify(graph, "it", names=["mobilenet_v2_0.35_128"])
    assert right.name == "MobileNet v2, width 0.35"
    assert right.exact
    assert not right.contradiction
    assert not identify(graph, "it", names=["mobilenet_v2"]).contradiction
    wrong = identify(graph, "it", names=["mobilenet_v2_1.0"])
    assert wrong.contradiction.startswith("it is a MobileNet v2, width 0.35: ")


def test_norms_do_not_make_a_name_wrong():
    """With norms folded, a VGG-16 with batch norm is a VGG-16: neither name can be refuted."""
    graph = compile_paper(replace(paper("vgg16"), defaults={"act": "relu", "norm": "batch"}))
    assert not identify(graph, "it", names=["vgg16_bn"]).contradiction
    assert not identify(graph, "it", names=["vgg16"]).contradiction


def test_an_unknown_network_is_near_nothing_and_no_name_is_refuted():
    build = GraphBuilder("tiny")
    value = build.add("input", [], (1, 1, 28, 28))
    kernel = [Parameter("kernel", (20, 1, 5, 5))]
    value = build.add("conv", [value], (1, 20, 24, 24), kernel=(5, 5), parameters=kernel)
    value = build.add("flatten", [value], (1, 11520))
    value = build.add("dense", [value], (1, 10), parameters=[Parameter("kernel", (10, 11520))])
    found = identify(build.finish([value]), "tiny", names=["resnet50"])
    assert "nothing near; the nearest is" in found.sentence
    assert not found.architecture
    assert not found.contradiction


def test_what_only_the_users_store_knows_is_called_as_it_is_there():
    build = GraphBuilder("mine")
    value = build.add("input", [], (1, 1, 28, 28))
    value = build.add("dense", [value], (1, 1, 28, 10), parameters=[Parameter("kernel", (10, 28))])
    graph = build.finish([value])
    found = identify(graph, "it", further=[Known("mine", "folder", signature(graph))])
    assert found.sentence == "it is a mine: its structure equals folder:mine."


def test_an_empty_store_knows_nothing(tmp_path):
    with open_store(tmp_path / "empty.sqlite") as store:
        assert list(stored(store)) == []


def test_articles():
    assert (article("AlexNet"), article("ResNet-50")) == ("an AlexNet", "a ResNet-50")


def test_a_file_of_the_users_is_no_architecture():
    build = GraphBuilder("odd")
    value = build.add("input", [], (1, 3, 8, 8))
    kernel = build.parameter("kernel", (5, 3, 3, 3), "w")
    conv = build.add("conv", [value], (1, 5, 8, 8), kernel=(3, 3), stride=(1, 1), pads=(1,) * 4, parameters=[kernel])
    odd = build.finish([conv])
    found = identify(odd, "it", further=[Known("earlier.onnx", "file", signature(odd))])
    assert found.sentence == "it: its structure equals file:earlier.onnx."
