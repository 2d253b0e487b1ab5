from __future__ import annotations

from dataclasses import replace

import pytest

from zoolens.base.errors import ManifestError, UnknownName
from zoolens.findings.audit.architectures import architecture
from zoolens.findings.audit.papers import paper, papers
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.audit.papers.paper_schema import read_paper
from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.ir.model import checked

DEMANDED = [
    "alexnet", "vgg16", "vgg19", "googlenet", "resnet50", "resnet101", "resnet152", "resnet50_v2", "resnet101_v2",
    "resnet152_v2", "densenet121", "squeezenet1_0", "squeezenet1_1", "mobilenet_v1_1.0", "mobilenet_v2_1.0",
    "inception_v3",
]  # fmt: skip
CAUSES = {value for name, value in vars(diff_causes).items() if name.isupper() and isinstance(value, str)}

# (multiply-accumulates, parameters), counted by others or printed in the paper
COUNTED = {
    "vgg16": (15_470_264_320, 138_357_544),
    "vgg19": (19_632_062_464, 143_667_240),
    "densenet121": (2_834_161_664, 7_978_856),
    "squeezenet1_0": (818_924_576, 1_248_424),
    "squeezenet1_1": (349_151_936, 1_235_496),
    "resnet18": (1_814_073_344, 11_689_512),
    "resnet50": (3_857_973_248, 25_557_032),
    "resnet50_v2": (4_089_184_256, 25_549_352),
    "mobilenet_v1_1.0": (568_740_352, 4_231_976),
    "mobilenet_v2_1.0": (300_774_272, 3_504_872),
    "inception_v3": (5_713_216_096, 23_834_568),
    "xception": (8_357_403_496, 22_855_952),
    "alexnet": (724_406_816, 60_965_224),
}


def test_the_papers_that_the_audit_needs_are_there():
    assert set(DEMANDED) <= set(papers())


@pytest.mark.parametrize("name", sorted(papers()))
def test_every_specification_is_complete_and_a_network(name):
    one = paper(name)
    assert one.citation.title
    assert one.citation.link
    assert one.taken_from
    assert one.states
    assert {cause.partition(": ")[0] for cause in one.silent} <= CAUSES
    assert set(one.settled) <= CAUSES
    assert name == "resnet8" or architecture(name) is not None
    graph = compile_paper(one)
    assert checked(graph).nodes[-1].op == "softmax"
    total = cost(graph)
    for stated in one.numbers:
        ours = {"parameters": total.parameters, "macs": total.macs}[stated.what]
        assert ours == pytest.approx(stated.value, rel=0.15), stated.words


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_counts_are_those_that_others_counted(name):
    total = cost(compile_paper(paper(name)))
    assert (total.macs, total.parameters) == COUNTED[name]


def test_stride_placement_decides_whether_resnet_50_has_the_papers_flops():
    one = paper("resnet50")
    blocks = {**one.blocks, "unit": [{**one.blocks["unit"][0], "residual": MOVED_STRIDE}]}
    moved = cost(compile_paper(replace(one, blocks=blocks)))
    assert moved.macs == 4_089_184_256
    assert one.stated("macs").value == 3.8e9


MOVED_STRIDE = ["conv $width 1", "conv $width 3 stride=$stride", "conv $out 1 act=none"]


def test_size_width_and_classes_can_be_chosen():
    small = compile_paper(paper("mobilenet_v2_1.0"), size=96, width=0.35, classes=10)
    assert small.inputs[0].shape == (1, 3, 96, 96)
    assert small.nodes[-1].shape == (1, 10)
    widths = [node.shape[1] for node in small if node.op == "conv"]
    assert widths[0] == 16
    assert widths[-1] == 1280
    assert small.name == "MobileNet v2, width 0.35"


def test_mistakes_in_a_specification_are_named():
    good = paper("vgg16")
    with pytest.raises(ManifestError, match="unknown block 'loop'"):
        compile_paper(replace(good, layers=({"loop": 3},)))
    with pytest.raises(ManifestError, match=r"does not say what \$depth is"):
        compile_paper(replace(good, layers=("conv $depth 3",)))
    with pytest.raises(ManifestError, match="unknown key 'colour'"):
        read_paper("x", {"colour": 1})
    with pytest.raises(ManifestError, match="incomplete"):
        read_paper("x", {"name": "X"})


def test_an_architecture_without_a_paper_is_an_unknown_name():
    with pytest.raises(UnknownName):
        paper("resnet51")
