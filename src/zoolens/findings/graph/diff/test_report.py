import json

import pytest

from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch, alexnet, densenet, mobilenet, resnet, resnet_v2, squeezenet
from zoolens.findings.graph.diff.report import diff

NAMES = ("torchvision", "Keras")


def said(found):
    return {one.cause: one.text for one in found.differences}


def test_a_network_is_the_same_as_itself():
    for graph in (resnet(), resnet_v2(), alexnet(), squeezenet(), mobilenet(), densenet()):
        found = diff(graph, graph)
        assert found.same
        assert found.verdict == "the same network"


def test_stride_in_the_3x3_or_in_the_1x1():
    found = diff(resnet(), resnet(strided="1x1", bias=True, epsilon=1.001e-5, softmax=True), names=NAMES)
    assert said(found) == {
        diff_causes.STRIDE_PLACEMENT: "conv 2 of blocks 1 of stages 2–4: stride 2 is on the 3×3 in torchvision, "
        "on the 1×1 in Keras",
        diff_causes.BIAS: "6,640 extra conv biases in Keras (53 layers; a norm follows each, so they add nothing)",
        diff_causes.EPSILON: "BN epsilon 1.001e-5 in Keras vs 1e-5 in torchvision (53 norms)",
        diff_causes.OUTPUT: "a final softmax in Keras, raw scores in torchvision",
    }
    assert found.verdict == "different networks: stride placement (100 % of the cost gap)"
    assert found.differences[0].cause == diff_causes.STRIDE_PLACEMENT


def test_stride_in_the_last_block_with_max_pools_on_the_shortcuts():
    found = said(diff(resnet_v2(), resnet_v2(pooled_shortcuts=True), names=("gluon", "Keras")))
    assert found == {
        diff_causes.STRIDE_PLACEMENT: "stride 2 is on the 3×3 (conv 2 of blocks 1 of stages 2–4) in gluon, "
        "on the 3×3 (conv 2 of the last blocks of stages 1–3) in Keras",
        diff_causes.POOLING: "the last blocks of stages 1–3: max-pool on the shortcut in Keras, none in gluon",
    }


def test_kernels_groups_and_local_response_normalisation():
    found = diff(alexnet((64, 192, 384, 256, 256), lrn=False, groups=1), alexnet(), names=("torchvision", "onnx"))
    texts = [one.text for one in found.differences]
    assert "conv 1 of stage 1: 96 kernels in onnx instead of 64 in torchvision" in texts
    assert "no local response normalisation in torchvision (2 in onnx)" in texts
    assert any("2 groups in onnx, no groups in torchvision" in text for text in texts)


def test_pools_that_moved_are_one_difference_not_two():
    found = said(diff(squeezenet("1.0"), squeezenet("1.1")))
    assert set(found) == {diff_causes.STRIDE_PLACEMENT, diff_causes.KERNEL, diff_causes.WIDTH}
    assert "after block 3 of stage 1 and block 4 of stage 2" in found[diff_causes.STRIDE_PLACEMENT]


def test_a_table_has_a_row_for_each_cause_proved_or_not():
    pytest.importorskip("pandas")

    def network(width, *, opaque):
        net = Sketch(size=16)
        net.conv(width)
        net.conv(8)
        if opaque:
            net.add("unknown", source_op="vendor:Swirl")
        else:
            net.add("sigmoid")
        net.head()
        return net.finish()

    counted = diff(network(8, opaque=False), network(16, opaque=False))
    table = counted.frame()
    assert list(table["macs"]) == [one.macs for one in counted.differences]
    assert table["proved"].all()
    bound = diff(network(8, opaque=False), network(16, opaque=True))
    table = bound.frame()
    assert bound.unproved
    assert list(table["proved"]) == [True] * len(bound.differences) + [False] * len(bound.unproved)
    assert table[["macs", "parameters", "share_of_macs_gap"]].isna().all(axis=None)


def test_constants_alone_make_no_other_network():
    found = diff(mobilenet(), mobilenet(epsilon=1e-3, side="bottom right"))
    assert not found.same
    assert found.same_cost
    assert found.verdict == "the same network up to constants that do not change cost (epsilon, padding side)"
    assert "padding 1 at bottom and right only in b, padding 1 on every side in a" in said(found)[diff_causes.PADDING]


def test_a_final_softmax_is_said_but_makes_no_other_network():
    assert diff(resnet(), resnet(softmax=True)).verdict == "the same network up to the final activation"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (resnet((3, 4, 23, 3)), "stage 3: 17 more residual blocks in b"),
        (resnet(size=299), "input 299×299 in b instead of 224×224 in a"),
        (resnet(width=32), "53 convs of the stem and all blocks of stages 1–4: 2 × as many kernels in b"),
        (resnet_v2(), "norms and activations come before the convolutions in b (pre-activation), after them in a"),
    ],
)
def test_one_cause_is_one_difference(other, text):
    found = diff(resnet(), other)
    assert len(found.differences) == 1
    assert found.differences[0].text.startswith(text)


def test_more_layers_in_a_dense_block():
    found = diff(densenet((3, 4)), densenet((3, 6)))
    assert [one.text for one in found.differences] == ["stage 2: 2 more dense blocks in b"]


def test_other_classes_are_no_other_width():
    assert set(said(diff(alexnet(), alexnet(classes=1001)))) == {diff_causes.CLASSES}


def test_branches_are_matched_by_likeness_not_by_order():
    def network(kernels):
        net = Sketch()
        net.conv(8)
        net.pool()
        entry = net.last
        net.concat(*(net.conv(8, k, of=entry) for k in kernels))
        net.head()
        return net.finish()

    assert diff(network((1, 3, 5)), network((5, 1, 3))).same
    found = diff(network((1, 3, 5)), network((3, 1)))
    assert {one.cause for one in found.differences} == {diff_causes.DEPTH}
    assert "5×5 conv" in found.differences[0].text


def test_norms_are_left_out_where_one_side_has_none_and_that_is_said():
    found = diff(resnet(), resnet(norm=False, bias=True), names=("zoo", "file"))
    assert found.same
    assert found.norm_blind == "file"
    assert found.verdict.startswith("the same network; norms aside, for file has none")


def test_json_has_every_difference_with_its_places():
    document = json.loads(json.dumps(diff(resnet(), resnet(strided="1x1")).as_data()))
    (one,) = document["differences"]
    assert one["macs"] == document["macs"][1] - document["macs"][0]
    assert one["share_of_macs_gap"] == 1
    assert {place["layer"] for place in one["places"]} == {"conv 1", "conv 2"}
    assert {place["stage"] for place in one["places"]} == {"stage 2", "stage 3", "stage 4"}
    assert len(document["alignment"]) == len(resnet())
