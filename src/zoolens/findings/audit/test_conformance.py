from __future__ import annotations

from dataclasses import asdict, replace
from importlib import util
from pathlib import Path

import pytest

from zoolens.findings.audit.conformance import departures
from zoolens.findings.audit.papers import paper
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.importers.importer import Request
from zoolens.findings.graph.passes.canonical import canonical

pytestmark = pytest.mark.usefixtures("trusted_models")


def light(name):
    spec = util.find_spec("onnx")
    if spec is None or spec.origin is None:
        pytest.skip("the onnx package, which ships these graphs, is not installed")
    from zoolens.findings.graph.importers.onnx import ONNX

    path = Path(spec.origin).parent / f"backend/test/data/light/light_{name}.onnx"
    return canonical(ONNX.load(Request(str(path))))


@pytest.fixture(scope="module")
def torchvision():
    pytest.importorskip("torch")
    from zoolens.findings.graph.importers.torch import TORCHVISION

    return lambda name: canonical(TORCHVISION.load(Request(name)))


def said(found):
    return {one.cause: one.text for one in found}


@pytest.mark.parametrize("name", ["vgg16", "resnet50", "resnet50_v2", "googlenet", "densenet121"])
def test_a_paper_does_not_depart_from_itself(name):
    assert departures(name, compile_paper(paper(name), classes=10)) == []


def test_torchvision_alexnet_is_the_one_tower_network_without_normalisation(torchvision):
    found = departures("alexnet", torchvision("alexnet"), name="torchvision")
    texts = [one.text for one in found]
    assert "conv 1 of stage 1: 64 kernels in torchvision instead of 96 in the paper" in texts
    assert any("no groups in torchvision, 2 groups in the paper" in text for text in texts)
    assert any("no local response normalisation in torchvision" in text for text in texts)


def test_torchvision_resnet_50_has_its_stride_elsewhere_and_the_flops_settle_it(torchvision):
    [found] = departures("resnet50", torchvision("resnet50"), name="torchvision")
    assert found.cause == diff_causes.STRIDE_PLACEMENT
    assert "on the 1×1 in the paper, on the 3×3 in torchvision" in found.text
    assert found.macs == 4_089_184_256 - 3_857_973_248
    assert "3.8×10⁹" in found.settled


def test_caffes_alexnet_departs_in_the_constant_of_its_normalisation_only():
    [found] = departures("alexnet", light("bvlc_alexnet"), name="onnx")
    assert found.cause == diff_causes.LRN  # Caffe's k is 1, the paper's 2; what its alpha means the paper leaves open
    assert found.text == "lrn 1 of stages 1–2: lrn bias 1 in onnx instead of 2 in the paper"


def test_the_onnx_squeezenet_is_a_1_1():
    graph = light("squeezenet")
    assert departures("squeezenet1_1", graph) == []
    assert {diff_causes.KERNEL, diff_causes.WIDTH} <= said(departures("squeezenet1_0", graph)).keys()


def test_pre_activation_may_move_a_stride_within_a_block_but_not_to_another():
    one = paper("resnet50_v2")
    within = {
        **one.blocks,
        "inner": ["conv $width 1 stride=$stride", "conv $width 3", "conv $out 1 act=none norm=none"],
    }
    assert departures("resnet50_v2", compile_paper(replace(one, blocks=within))) == []


def test_norms_the_paper_does_not_have_are_a_departure_and_folded_ones_are_not():
    normed = compile_paper(replace(paper("vgg16"), defaults={"act": "relu", "norm": "batch"}))
    [found] = departures("vgg16", normed, name="other")
    assert found.text == "batch norm at 13 places in other, none in the paper"
    folded = compile_paper(replace(paper("resnet18"), defaults={"act": "relu", "bias": "yes"}))
    assert departures("resnet18", folded) == []


def test_departures_are_data():
    graph = compile_paper(paper("vgg19"))
    first = asdict(departures("vgg16", graph, name="it")[0])
    assert first["architecture"] == "vgg16"
    assert first["cause"] == diff_causes.DEPTH
    assert first["macs"] > 0
