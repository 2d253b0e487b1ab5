from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoolens.findings.graph.ir.equality import structure_hash
from zoolens.findings.graph.ir.model import Graph, Node, Parameter, pruned
from zoolens.findings.graph.segments.common_segments import common_segments
from zoolens.findings.graph.segments.single_entry_exit import chains, homes, joined
from zoolens.findings.graph.segments.test_single_entry_exit import SHAPE, graphs, is_single, network, value


def plain(*ops, name="n", weights=None):
    """A chain of these operators; `weights` by place makes dense layers differ."""
    nodes, last = [], "x"
    for number, op in enumerate(ops):
        nodes.append(value(f"{name}{number}", op, last))
        last = nodes[-1].name
    graph = network(*nodes)
    return graph if weights is None else replace(graph, weights=tensors(graph, weights))


def tensors(graph, seeds):
    """Dense kernels; the same seed gives the same numbers."""
    layers = [node for node in graph.nodes if node.op == "dense"]
    return {
        node.parameters[0].key: np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
        for node, seed in zip(layers, seeds, strict=True)
    }


def exits(found):
    return [(one.kind, one.a.exit, one.b.exit, len(one.a)) for one in found]


def alone(graph, segment):
    """A segment as a network of its own."""
    start = Node(segment.entry, "input", (), graph.by_name[segment.entry].shape)
    return pruned(Graph("part", (start, *segment.of(graph)), (segment.exit,)))


def test_the_longest_run_comes_first_and_order_is_kept():
    a = plain("dense", "relu", "tanh", "dense", "sigmoid", "abs")
    b = plain("sigmoid", "abs", "dense", "relu", "tanh", "neg", "sigmoid", "abs", name="m")
    assert exits(common_segments(a, b)) == [("same structure", "n2", "m4", 3), ("same structure", "n5", "m7", 2)]
    crossed = plain("sigmoid", "abs", "dense", "relu", "tanh", name="m")
    assert exits(common_segments(a, crossed)) == [("same structure", "n2", "m4", 3)]


def test_equal_near_and_other_weights():
    ops = ["dense", "relu"] * 4
    a = plain(*ops, weights=(1, 2, 3, 4))
    b = plain(*ops, name="m", weights=(1, 2, 3, 9))
    b.weights["m4.kernel"][0, 0] *= 1.01
    found = common_segments(a, b)
    assert exits(found) == [
        ("equal weights", "n3", "m3", 4),
        ("near weights", "n5", "m5", 2),
        ("same structure", "n7", "m7", 2),
    ]
    assert found[0].distance == 0
    assert 0 < found[1].distance < 0.1 < found[2].distance


def test_the_distance_is_that_of_all_parameters():
    a, b = plain("dense", "relu", weights=(1,)), plain("dense", "relu", weights=(2,))
    [found] = common_segments(a, b)
    one, two = a.weights["n0.kernel"], b.weights["n0.kernel"]
    assert found.distance == pytest.approx(np.linalg.norm(one - two) / np.linalg.norm(one))


def test_equal_weights_are_found_where_structure_alone_would_pair_others():
    """B has one more block in front: structure alone would pair first with first."""
    a = plain(*["dense", "relu"] * 2, weights=(1, 2))
    b = plain(*["dense", "relu"] * 3, name="m", weights=(7, 1, 2))
    assert exits(common_segments(a, b)) == [("equal weights", "n3", "m5", 4)]


def test_weights_on_one_side_only_say_nothing():
    a, b = plain("dense", "relu", weights=(1,)), plain("dense", "relu", name="m")
    [found] = common_segments(a, b)
    assert (found.kind, found.distance) == ("same structure", None)


def block(last, name, inner=("dense", "relu", "dense"), join="add", shortcut=None):
    nodes = []
    start = last
    for number, op in enumerate(inner):
        nodes.append(value(f"{name}.{number}", op, last))
        last = nodes[-1].name
    side = start
    if shortcut:
        nodes.append(value(f"{name}.side", shortcut, start))
        side = nodes[-1].name
    return [*nodes, value(f"{name}.join", join, side, last), value(f"{name}.out", "relu", f"{name}.join")]


def test_inside_blocks_that_differ():
    a = network(*block("x", "a"))
    b = network(*block("x", "b", shortcut="tanh"))
    assert exits(common_segments(a, b)) == [("same structure", "a.2", "b.2", 3)]


def test_the_order_of_a_sum_does_not_matter_but_that_of_a_difference_does():
    a = network(*block("x", "a"))
    swapped = replace(a, nodes=tuple(replace(n, inputs=n.inputs[::-1]) if n.op == "add" else n for n in a.nodes))
    assert [len(one.a) for one in common_segments(a, swapped)] == [5]
    less = network(*block("x", "a", join="sub"))
    turned = replace(less, nodes=tuple(replace(n, inputs=n.inputs[::-1]) if n.op == "sub" else n for n in less.nodes))
    assert [len(one.a) for one in common_segments(less, turned)] == [3]


def wide(name, source, width):
    return Node(name, "dense", (source,), (1, width), {}, (Parameter("kernel", (width, 4), name),))


def test_more_blocks_between_the_same_shapes_are_the_same_interface():
    def staged(name, blocks):
        nodes = [wide(f"{name}.stem", "x", 8)]
        last = nodes[-1].name
        for number in range(blocks):
            nodes += block(last, f"{name}{number}", inner=("relu", "tanh"))
            last = nodes[-1].name
        nodes = [replace(node, shape=(1, 8)) for node in nodes]
        return network(*nodes, wide(f"{name}.head", last, 2))

    found = common_segments(staged("a", 1), staged("b", 3))
    assert [one.kind for one in found] == ["same structure", "same interface"]
    last = found[-1]
    assert (last.a.entry, last.a.exit, len(last.a)) == ("x", "a0.out", 5)
    assert (last.b.entry, last.b.exit, len(last.b)) == ("x", "b2.out", 13)


def test_the_whole_of_a_network_is_no_segment_by_its_interface_alone():
    assert common_segments(plain("dense", "relu"), plain("tanh", "abs")) == ()


def test_parameters_are_shared_by_segments_of_a_graph_with_itself():
    graph = network(*block("x", "a"), *block("a.out", "b"))
    [found] = common_segments(graph, graph)
    assert found.a == found.b
    assert len(found.a) == len(graph) - 1


@settings(max_examples=60, deadline=None)
@given(graphs(ops=("relu", "tanh", "dense")), graphs(ops=("relu", "tanh", "dense")), st.integers(1, 3))
def test_what_is_found_holds_and_the_largest_is_found(a, b, least):
    found = common_segments(a, b, least=least)
    runs = [one for one in found if one.kind != "same interface"]
    for one in found:
        assert is_single(a, one.a)
        assert is_single(b, one.b)
        assert min(len(one.a), len(one.b)) >= least
        assert (alone(a, one.a).by_name[one.a.exit].shape, SHAPE) == (SHAPE, b.by_name[one.b.exit].shape)
    for one in runs:
        assert structure_hash(alone(a, one.a)) == structure_hash(alone(b, one.b))
    for side in ("a", "b"):
        taken = [name for one in runs for name in getattr(one, side).nodes]
        assert len(taken) == len(set(taken))
    largest = max((len(one) for one in outer_runs_in_common(a, b) if len(one) >= least), default=0)
    assert max((len(one.a) for one in runs), default=0) >= largest
    assert common_segments(a, b, least=least) == found


def outer_runs_in_common(a, b):
    """Runs of A's outermost chains that some run of B's is equal to, by comparing all with all."""
    theirs = {structure_hash(alone(b, one)) for one in outer_runs(b)}
    return [one for one in outer_runs(a) if structure_hash(alone(a, one)) in theirs]


def outer_runs(graph):
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    for chain in homes(chains(graph)).get("", ()):
        steps = chain.steps
        yield from (joined(steps[i:j], place) for i in range(len(steps)) for j in range(i + 1, len(steps) + 1))


def tiled(a, b, least):
    """Longest common run first, then on either side of it, by comparing every place with every place."""
    best = (0, 0, 0, 0)
    for i in range(len(a)):
        for j in range(len(b)):
            length = 0
            while i + length < len(a) and j + length < len(b) and a[i + length] == b[j + length]:
                length += 1
            parameters = sum(a[i + k] == "dense" for k in range(length))
            best = max(best, (length, parameters, -i, -j), key=lambda one: (one[0] > 0, *one))
    length, _, i, j = best
    if length < least:
        return []
    i, j = -i, -j
    after = [(i + length + x, j + length + y, n) for x, y, n in tiled(a[i + length :], b[j + length :], least)]
    return [*tiled(a[:i], b[:j], least), (i, j, length), *after]


operators = st.lists(st.sampled_from(["relu", "tanh", "dense"]), min_size=1, max_size=10)


@settings(max_examples=60, deadline=None)
@given(operators, operators, st.integers(1, 3))
def test_chains_against_brute_force(a, b, least):
    found = [
        one for one in common_segments(plain(*a), plain(*b, name="m"), least=least) if one.kind != "same interface"
    ]
    expected: list[tuple[int, int, int]] = []
    for i, j, length in tiled(a, b, least):
        if expected and (expected[-1][0] + expected[-1][2], expected[-1][1] + expected[-1][2]) == (i, j):
            expected[-1] = (*expected[-1][:2], expected[-1][2] + length)
        else:
            expected.append((i, j, length))
    assert [(int(one.a.nodes[0][1:]), int(one.b.nodes[0][1:]), len(one.a)) for one in found] == expected


def test_a_thousand_nodes():
    nodes, last = [], "x"
    for number in range(200):
        nodes += block(last, f"b{number}", shortcut="tanh" if number % 7 else None)
        last = nodes[-1].name
    graph = network(*nodes)
    shorter = network(*nodes[: len(nodes) // 2])
    found = common_segments(graph, shorter)
    assert len(graph) > 1_000
    assert len(found[0].a) == len(shorter) - 1
