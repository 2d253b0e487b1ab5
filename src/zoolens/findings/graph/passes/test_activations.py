"""What naming activations costs on graphs that no designer drew."""

from __future__ import annotations

import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes import activations
from zoolens.findings.graph.passes.canonical import canonical


def chain(length, step):
    build = GraphBuilder("chain")
    last = build.add("input", [], (1, 3, 2, 2), axes="NCHW")
    for number in range(length):
        last = step(build, last, number)
    return build.finish([last])


def squared(build, x, number):
    return build.add("add", [build.add("mul", [x, x], (1, 3, 2, 2))], (1, 3, 2, 2), scalar=0.1 * number + 0.1)


def scaled(build, x, number):
    return build.add("add", [build.add("mul", [x], (1, 3, 2, 2), scalar=1.01)], (1, 3, 2, 2), scalar=0.1 * number + 0.1)


@pytest.fixture
def evaluations(monkeypatch):
    found = []
    value = activations._value
    monkeypatch.setattr(activations, "_value", lambda node, inputs: found.append(node.name) or value(node, inputs))
    return found


def test_a_long_chain_of_arithmetic_is_not_followed_anew_at_every_step(evaluations):
    graph = chain(200, squared)
    assert len(activations.name_activations(graph)) == len(graph)
    assert len(evaluations) < 20 * len(graph)


def test_straight_lines_are_not_evaluated_at_all(evaluations):
    activations.name_activations(chain(50, scaled))
    assert not evaluations


def test_what_follows_an_activation_that_got_its_name_is_seen_through_it():
    build = GraphBuilder("twice")
    shape = (1, 3, 2, 2)
    image = build.add("input", [], shape, axes="NCHW")
    floor = build.add("maximum", [image], shape, scalar=0.0)
    capped = build.add("minimum", [floor], shape, scalar=6.0)
    gate = build.add("mul", [build.add("sigmoid", [capped], shape), capped], shape)
    found = canonical(build.finish([gate]))
    assert [node.op for node in found] == ["input", "relu6", "silu"]
