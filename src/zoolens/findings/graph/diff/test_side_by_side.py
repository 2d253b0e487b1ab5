from dataclasses import replace

import pytest

from zoolens.findings.graph.diff.conftest import Sketch, densenet, resnet, resnet_v2
from zoolens.findings.graph.diff.picture_cards import State
from zoolens.findings.graph.diff.report import diff
from zoolens.findings.graph.diff.side_by_side import side_by_side


@pytest.fixture(scope="module")
def found():
    return diff(resnet(), resnet(strided="1x1", epsilon=1e-3), names=("torch", "Keras"))


def test_what_differs_is_said_of_parts_and_of_lines(found):
    stage = [part for part in side_by_side(found) if part.stage == "stage 3"]
    assert [(part.title_a, part.state) for part in stage] == [
        ("residual block 1", State.DIFFERS),
        ("residual blocks 2–6 ×5", State.CONSTANTS),
    ]
    strided, window = stage[0].lines[:2]
    assert (strided.state, window.state) == (State.DIFFERS, State.DIFFERS)
    assert "/2" in strided.b
    assert "/2" not in strided.a
    assert "/2" in window.a
    assert {found.differences[mark - 1].cause for mark in strided.marks} >= {"stride placement"}


def test_every_difference_that_has_a_place_marks_a_part(found):
    marked = {mark for part in side_by_side(found) for mark in part.marks}
    placed = {number for number, one in enumerate(found.differences, 1) if one.findings}
    assert marked == placed


def test_constants_of_layers_that_are_not_listed_by_themselves_are_marked_too():
    """A norm that stands alone is listed only where it differs, so no block with another epsilon looks the same."""
    graph = resnet_v2()
    other = [node.with_attributes(epsilon=1e-3) if node.op == "batch_norm" else node for node in graph]
    found = diff(graph, replace(graph, nodes=tuple(other)))
    assert [one.cause for one in found.differences] == ["norm epsilon"]
    residual = [part for part in side_by_side(found) if "residual" in part.title_a]
    assert {part.state for part in residual} == {State.CONSTANTS}


def test_a_network_beside_itself_is_the_same_everywhere():
    parts = side_by_side(diff(resnet(), resnet()))
    assert {part.state for part in parts} == {State.SAME}
    assert {line.state for part in parts for line in part.lines} == {State.SAME}


def test_blocks_that_one_side_lacks():
    parts = side_by_side(diff(densenet((3, 4)), densenet((3, 12))))
    assert [(part.title_a, part.title_b) for part in parts if part.state is State.ONLY_B] == [
        ("", "dense blocks 4–11 ×8")
    ]


def test_lines_that_do_not_fit_are_counted(found):
    whole, shortened = side_by_side(found), side_by_side(found, most=10)
    assert sum(len(part.lines) for part in shortened) <= 10
    assert [len(part.lines) for part in whole] == [len(part.lines) + part.left_out for part in shortened]


def test_blocks_whose_layers_read_differently_are_said_to_do_so():
    equal = [part for part in side_by_side(diff(resnet(), resnet())) if "×" in part.title_a]
    assert [part.first_only for part in equal] == [False] * len(equal)
    growing = [part for part in side_by_side(diff(widening(), widening())) if "×" in part.title_a]
    assert [part.first_only for part in growing] == [True]


def widening():
    """Residual blocks of one stage that differ in the width of what they do inside."""
    net = Sketch("widening", 16)
    net.conv(8)
    for width in (8, 16, 24):
        entry = net.last
        net.conv(width)
        net.add("add", net.conv(8, act=None), entry)
    net.head()
    return net.finish()


def test_each_side_has_its_own_words_for_its_blocks():
    parts = side_by_side(diff(resnet((2, 2)), densenet((3, 4))))
    titles = {(part.title_a.rpartition(" block")[0], part.title_b.rpartition(" block")[0]) for part in parts}
    assert all("dense" not in ours and "residual" not in theirs for ours, theirs in titles)
    assert any("residual" in ours for ours, _ in titles)
    assert any("dense" in theirs for _, theirs in titles)
