"""What exporters do to a network is no difference: norms folded where they can be, values computed once and stored."""

from dataclasses import replace
from typing import Any

import numpy as np

from zoolens.base.verdicts import Coverage, Tally, judged
from zoolens.findings.graph.diff import diff_causes
from zoolens.findings.graph.diff.conftest import Sketch, densenet, mobilenet, resnet, resnet_v2
from zoolens.findings.graph.diff.diff_findings import Difference
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.diff.verdict import verdict
from zoolens.findings.graph.ir.model import Graph, Node, Parameter, nested_tuples
from zoolens.findings.graph.passes.folded_norms import folded_norms

NAMES = ("source", "export")
FOLDED = "the same network; norms are folded into the layers of export"


def scaled_and_shifted(graph: Graph, names=lambda node: True) -> Graph:
    """Norms as Keras exports them: a scale and a shift beside the layer."""

    def changed(node: Node) -> Node:
        if node.get("norm") != "batch" or not names(node):
            return node
        kept = tuple(one for one in node.parameters if one.role in ("kernel", "bias", "norm_scale", "norm_shift"))
        return replace(node, parameters=kept).with_attributes(norm="affine", epsilon=None)

    return replace(graph, nodes=tuple(changed(node) for node in graph.nodes))


def test_only_norms_behind_a_convolution_can_be_folded():
    found = diff(densenet(), folded_norms(densenet(), {"conv"}), names=NAMES)
    assert (found.same, found.verdict, found.folded) == (True, FOLDED, "export")
    assert found.as_data()["folded_norms"] == "export"


def test_norms_as_scales_and_shifts_beside_folded_ones():
    depthwise = scaled_and_shifted(mobilenet(), lambda node: node.get("groups") > 1)
    folded = folded_norms(mobilenet(), {"conv"})
    nodes = tuple(one if one.get("norm") == "affine" else folded.by_name[one.name] for one in depthwise.nodes)
    found = diff(mobilenet(), replace(depthwise, nodes=nodes), names=NAMES)
    assert (found.same, found.verdict) == (True, FOLDED)


def test_a_norm_that_is_missing_is_still_missed():
    """Only where one side has no norm behind any layer of a kind is folding what happened."""
    name = next(node.name for node in resnet() if node.op == "conv" and node.get("stride") == (1, 1))

    def bare(node: Node) -> Node:
        return replace(node, parameters=node.parameters[:1]).with_attributes(norm=None, epsilon=None)

    one_less = replace(resnet(), nodes=tuple(bare(node) if node.name == name else node for node in resnet()))
    found = diff(resnet(), one_less, names=NAMES)
    assert (found.folded, [one.cause for one in found.differences]) == ("", [diff_causes.NORM])
    assert not diff(resnet(), resnet_v2()).folded


def test_a_value_of_weights_alone_may_be_stored():
    def with_bias(*, stored: bool) -> Graph:
        net = Sketch(size=8)
        entry = net.conv(6, 3)
        shape = (1, 6, 8, 8)
        if stored:
            bias = net.build.add("parameter", [], shape, parameters=[Parameter("value", shape, "")])
        else:
            table = net.build.add("parameter", [], (9, 6), parameters=[Parameter("value", (9, 6), "")])
            places = net.build.add("constant", [], (64,), parameters=[Parameter("value", (64,), "")])
            rows = net.build.add("gather", [table, places], (64, 6), axis=0)
            turned = net.build.add("transpose", [rows], (6, 64), perm=(1, 0))
            bias = net.build.add("reshape", [turned], shape)
        net.add("add", entry, bias)
        net.head()
        return net.finish()

    found = diff(with_bias(stored=False), with_bias(stored=True), names=NAMES)
    assert found.verdict == "the same network; export stores what the other computes from weights alone"
    assert found.as_data()["stored_values"] == "export"


def test_a_mask_on_one_side_is_no_arrangement_of_values():
    found = diff(attending(), attending(mask="hides 9 of 4,096 places"), names=NAMES)
    assert [one.cause for one in found.differences] == [diff_causes.OPERATOR]


def attending(**mask: Any) -> Graph:
    net = Sketch(size=8)
    entry = net.conv(6, 3)
    value = net.build.add("reshape", [entry], (1, 1, 64, 6))
    numbers = [] if "value" in mask else [Parameter("value", (64, 64), "")]
    masks = [net.build.add("constant", [], (64, 64), parameters=numbers, **mask)] if mask else []
    seen = net.add("attention", *[value] * 3, *masks, shape=(1, 1, 64, 6), heads=1)
    net.add("add", entry, net.build.add("reshape", [seen], (1, 6, 8, 8)))
    net.head()
    return net.finish()


def test_numbers_that_are_shown_are_compared_with_masks_in_words():
    later = np.triu(np.ones((64, 64)), 1) * -1e9
    for shown, same in ((later, True), (later.T, False), (np.ones((64, 64)), False)):
        found = diff(attending(mask="causal"), attending(value=nested_tuples(shown.tolist())), names=NAMES)
        assert (found.same, found.same_cost) == (same, same)


def test_inputs_that_nothing_uses_are_no_difference():
    graph = resnet()
    idle = replace(graph, nodes=(Node("idle", "input", (), (1, 3)), *graph.nodes))
    assert diff(graph, idle).same


def test_a_verdict_always_names_what_differs():
    both = [Difference(diff_causes.PADDING, (), macs=5), Difference(diff_causes.PADDING, (), macs=-5)]
    different = judged(Coverage((Tally("layers", 2, 2),)), different=True)
    words = verdict(both, 0, decision=different, same_cost=False)
    assert words == "different networks: padding"
