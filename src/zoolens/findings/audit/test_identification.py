from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import zoolens
from zoolens.base.errors import ZoolensError
from zoolens.base.store.records import DatasetRecord, ModelRecord, RunKind, StackRecord, fingerprint
from zoolens.base.store.store import open_store
from zoolens.base.verdicts import Outcome
from zoolens.findings.audit.identification import identify, stored
from zoolens.findings.audit.identification_page import identification_page
from zoolens.findings.audit.papers import paper, papers
from zoolens.findings.audit.papers.compile import compile_paper
from zoolens.findings.audit.wording import article
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph, Node, Parameter
from zoolens.findings.graph.ir.serialisation import pack
from zoolens.findings.graph.signatures.known_networks import PAPER, KnownNetwork, shipped
from zoolens.findings.graph.signatures.nearest_networks import Padding, compare_padding
from zoolens.findings.graph.signatures.signatures import signature
from zoolens.findings.graph.structures.structure import KIND, STAGE
from zoolens.findings.graph.structures.structure_sources import RUNTIME

pytestmark = pytest.mark.usefixtures("trusted_models")


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
    assert found.contradiction.startswith("squeezenet1.0.onnx is a SqueezeNet 1.1: it")
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


def tiny(width=20):
    build = GraphBuilder("tiny")
    value = build.add("input", [], (1, 1, 28, 28))
    kernel = [Parameter("kernel", (width, 1, 5, 5))]
    value = build.add("conv", [value], (1, width, 24, 24), kernel=(5, 5), parameters=kernel)
    value = build.add("flatten", [value], (1, width * 576))
    value = build.add("dense", [value], (1, 10), parameters=[Parameter("kernel", (10, width * 576))])
    return build.finish([value])


@pytest.mark.parametrize(
    "name",
    [
        "resnet50.onnx",
        "MobileNetV2_final.tflite",
        "vgg16",
        "vgg19_bn",
        "resnet8.tflite",
        "swin_t",
        "efficientnet_lite0",
    ],
)
def test_a_known_name_on_a_network_that_is_like_nothing_is_contradicted(name):
    found = identify(tiny(), name, names=[name])
    assert "nothing near; the nearest is" in found.sentence
    assert not found.architecture
    assert found.contradiction.startswith(f"{name} is not ")
    assert "the nearest network known is" in found.contradiction


def test_a_network_that_is_like_nothing_may_have_any_name_that_is_not_known():
    assert not identify(tiny(), "tiny.onnx", names=["tiny.onnx"]).contradiction


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("resnet18", "resnet18-f37072fd.onnx"),
        ("vgg16", "vgg16_bn.tflite"),
        ("densenet121", "my_DenseNet-121_v7"),
        ("mobilenet_v2_1.0", "mobilenet_v2_1.0_224_quant"),
        ("googlenet", "inception_v1"),
        ("resnet50_v2", "resnet50-v2-7"),
    ],
)
def test_right_names_pass_however_they_are_written(name, called):
    assert not identify(compile_paper(paper(name), classes=7), called, names=[called]).contradiction


def detector(name):
    """The network of a paper without its classifier, and as many convolutions of other kinds after it."""
    whole = compile_paper(paper(name))
    last = max(place for place, node in enumerate(whole.nodes) if node.op == "conv")
    nodes = list(whole.nodes[: last + 1])
    for width in range(300, 390):
        before = nodes[-1]
        shape = (1, width, *before.shape[2:])
        kernel = Parameter("kernel", (width, before.shape[1], 3, 3))
        nodes.append(Node(f"extra{width}", "conv", (before.name,), shape, {"kernel": (3, 3)}, (kernel,)))
    return Graph("detector", tuple(nodes), (nodes[-1].name,))


def test_a_detector_called_after_its_backbone_is_not_judged():
    whole = detector("mobilenet_v1_1.0")
    for name in ("ssd_mobilenet_v1_1.0.tflite", "mobilenet_v1_1.0.tflite"):
        found = identify(whole, name, names=[name])
        assert found.sentence.endswith("It has the layers of a MobileNet v1 in it.")
        assert found.verdict.outcome is Outcome.NOT_KNOWN
    assert identify(whole, "resnet50.tflite", names=["resnet50.tflite"]).contradiction


def test_what_only_the_store_knows_is_called_as_its_zoo_calls_it():
    graph = tiny(3)
    found = identify(graph, "it", further=[KnownNetwork("odd_net", "timm", signature(graph))])
    assert found.sentence == "it is an odd_net: its structure equals timm:odd_net."


def test_a_generator_of_something_else_is_refused_with_a_sentence():
    with pytest.raises(ZoolensError, match="an iterable of KnownNetwork; it holds 'resnet18', of type str"):
        zoolens.identify(tiny(3), "it", further=(name for name in ["resnet18"]))


def test_files_that_the_user_looked_at_before_are_no_evidence(tmp_path):
    """Otherwise an impostor that was looked at once would vouch for its copies."""
    with open_store(tmp_path / "store.sqlite") as store:
        for ref in ("file:resnet50.onnx@1", "folder:resnet50@1", "timm:odd_net@1"):
            model = ModelRecord(fingerprint([ref]), ref, "onnx", {})
            stack = StackRecord(fingerprint(["onnx"]), f"{RUNTIME}onnx", {}, {})
            run = store.begin_run(
                model, DatasetRecord(fingerprint(["structure"]), "structure", 0), stack, kind=RunKind.STRUCTURE
            )
            store.add_part(run.id, KIND, 0, pa.table({KIND: pa.array([pack(tiny())], pa.binary())}))
            store.finish_stage(run.id, STAGE)
        assert [one.ref for one in stored(store)] == ["timm:odd_net"]


def padded(pads):
    build = GraphBuilder("net")
    value = build.add("input", [], (1, 3, 16, 16))
    kernel = build.parameter("kernel", (5, 3, 3, 3), "w")
    window = {"kernel": (3, 3), "stride": (2, 2), "pads": pads}
    value = build.add("conv", [value], (1, 5, 8, 8), parameters=[kernel], **window)
    value = build.add("global_avg_pool", [value], (1, 5))
    value = build.add("dense", [value], (1, 10), parameters=[build.parameter("kernel", (10, 5), "v")])
    return build.finish([value])


@pytest.mark.parametrize(
    ("pads", "said"),
    [
        ((1, 1, 0, 0), "its structure equals timm:net"),
        ((1, 1, 1, 1), "its structure equals timm:net"),  # no window reaches the last row and column
        ((0, 0, 1, 1), "it has the layers of timm:net with other padding"),
    ],
)
def test_structures_are_equal_only_where_padding_is(pads, said):
    found = identify(padded(pads), "it", further=[KnownNetwork("net", "timm", signature(padded((1, 1, 0, 0))))])
    assert found.sentence == f"it is a net: {said}."
    assert found.exact


def test_padding_at_another_image_size_is_not_compared():
    own = signature(padded((1, 1, 1, 1)))
    elsewhere = KnownNetwork("net", "timm", replace(own, size=(32, 32)))
    assert compare_padding(own, elsewhere) is Padding.UNKNOWN
    assert compare_padding(own, KnownNetwork("net", PAPER, own)) is Padding.UNKNOWN


def test_an_empty_store_knows_nothing(tmp_path):
    with open_store(tmp_path / "empty.sqlite") as store:
        assert list(stored(store)) == []


def test_articles():
    assert (article("AlexNet"), article("ResNet-50")) == ("an AlexNet", "a ResNet-50")


def test_a_frame_has_a_row_for_each_network():
    pytest.importorskip("pandas")
    found = identify(compile_paper(paper("squeezenet1_1")), "it", names=["squeezenet1_0"])
    table = found.frame()
    assert table["network"].tolist() == [match.ref for match in found.matches]
    assert table["exact"][0]
    assert table["differences"][0] == ""


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("squeezenet1_1", "good", "it is"),
        ("squeezenet1_0", "", "it"),
        ("", "", "it is a SqueezeNet 1.1: its structure equals"),
    ],
)
def test_a_page_says_what_the_network_is_and_whether_its_name_is_right(name, kind, said):
    found = identify(compile_paper(paper("squeezenet1_1")), "it", names=[name])
    page = identification_page(found)
    assert page.verdict.startswith(said)
    assert page.verdict_kind == kind
    assert page.judged == found.verdict
    assert page.lead == (found.sentence if found.judgement else "")
    ((_, table),) = page.sections[0].tables
    assert table.rows[0][1:] == ("100 %", "the same layers; its padding at this image size is not known")
