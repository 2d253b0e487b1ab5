from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.segments.segment import Common, Segment
from zoolens.findings.graph.segments.splicing import check_segment
from zoolens.findings.graph.structures.weighted_graph import weighted_graph
from zoolens.findings.twins.pieces import Piece, pieces_of
from zoolens.findings.twins.search import attempts, dropping_order


def whole(graph: Graph) -> Segment:
    names = tuple(node.name for node in graph.nodes if node.op != "input")
    return Segment(graph.inputs[0].name, graph.outputs[0], names)


def same(a, b, kind="same structure"):
    return [Common(whole(a), whole(b), kind)]


def test_a_network_falls_into_its_layers():
    a, b = weighted_graph("demo:lenet-wide"), weighted_graph("demo:lenet-wide-int8")
    pieces = pieces_of(a, b, same(a, b))
    assert [piece.common.a.nodes[-1] for piece in pieces] == ["maxpool_0", "flatten_0", "relu_2", "logits"]
    assert sum(piece.macs for piece in pieces) == 1_116_416
    assert all(piece.kind == "near weights" and 0 < piece.distance < 0.01 for piece in pieces)


def test_a_block_with_a_shortcut_stays_whole():
    graph = weighted_graph("demo:resnet-tiny")
    pieces = pieces_of(graph, graph, same(graph, graph))
    for piece in pieces:
        check_segment(graph, piece.common.a)
    assert sum("add" in {graph.by_name[name].op for name in piece.common.a.nodes} for piece in pieces) == 2
    assert len(pieces) == 6
    assert {piece.kind for piece in pieces} == {"equal weights"}


def test_what_only_has_the_same_ends_is_not_cut():
    a, b = weighted_graph("demo:lenet-deep"), weighted_graph("demo:lenet-torch")
    (piece,) = pieces_of(a, b, same(a, b, "same interface"))
    assert len(piece.common.a) > len(piece.common.b)
    assert piece.donor_parameters == 44_426


def test_of_overlapping_segments_the_first_counts():
    graph = weighted_graph("demo:mlp-small")
    last = Segment(graph.nodes[-2].name, graph.nodes[-1].name, (graph.nodes[-1].name,))
    commons = [Common(last, last, "equal weights", 0.0), *same(graph, graph)]
    assert [piece.common.a for piece in pieces_of(graph, graph, commons)] == [last]


def test_distances_are_those_of_the_changed_layer():
    a = weighted_graph("demo:mlp-small")
    key = a.nodes[-1].parameter("kernel").key
    b = replace(a, weights={**a.weights, key: 1.5 * a.weights[key]})
    *others, last = pieces_of(a, b, same(a, b))
    assert {piece.kind for piece in others} == {"equal weights"}
    bias = np.linalg.norm(a.weights[a.nodes[-1].parameter("bias").key])
    size = np.linalg.norm(a.weights[key])
    assert last.distance == pytest.approx(0.5 * size / np.hypot(size, bias), rel=1e-5)
    assert last.kind == "same structure"


def test_weights_that_are_not_numbers_are_not_near():
    a = weighted_graph("demo:mlp-small")
    key = a.nodes[-1].parameter("kernel").key
    b = replace(a, weights={**a.weights, key: np.full_like(a.weights[key], np.nan)})
    *others, last = pieces_of(a, b, same(a, b))
    assert last.kind == "same structure"
    assert dropping_order([*others, last])[0] == last


# --- the order in which pieces are dropped


def piece(name, kind, distance, macs):
    segment = Segment("x", name, (name,))
    return Piece(Common(segment, segment, kind, distance), macs, 1, macs, 1)


PIECES = [
    piece("equal", "equal weights", 0.0, 5),
    piece("near, dear", "near weights", 0.05, 9),
    piece("near, cheap", "near weights", 0.05, 1),
    piece("far", "same structure", 1.4, 9),
    piece("interface", "same interface", None, 99),
]


def test_the_most_harmful_is_dropped_first_and_the_cheapest_among_equals():
    names = [one.common.a.exit for one in dropping_order(PIECES)]
    assert names == ["interface", "far", "near, cheap", "near, dear", "equal"]


def test_dropping_ends_with_the_first_that_is_good():
    tried = list(attempts(PIECES, len, lambda count: count <= 3))
    assert tried == [5, 4, 3]


def test_pieces_that_change_nothing_are_not_dropped_one_by_one():
    equal = [piece(name, "equal weights", 0.0, 5) for name in "abc"]
    assert list(attempts([*equal, PIECES[3]], len, lambda _: False)) == [4, 3]


def test_dropping_ends_when_nothing_is_left():
    tried = list(attempts(PIECES, lambda kept: [one.common.a.exit for one in kept], lambda _: False))
    assert [len(kept) for kept in tried] == [5, 4, 3, 2, 1]
    assert tried[-1] == ["equal"]
    assert tried[1] == ["equal", "near, dear", "near, cheap", "far"]  # in order of computation
