from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph
from zoolens.findings.graph.onnx_writer.conftest import fed, session
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.conftest import Sketch
from zoolens.findings.graph.passes.proof import random_inputs
from zoolens.findings.graph.passes.test_random_graphs import ENDS, STEPS
from zoolens.findings.graph.reference.interpreter import run
from zoolens.findings.graph.segments.segment import Segment
from zoolens.findings.graph.segments.splicing import SPLICED, check_segment, splice, splice_all
from zoolens.findings.graph.structures.weighted_graph import weighted_graph


def segments(graph):
    """Every segment that starts and ends somewhere, as far as they have one value at each end."""
    names = [node.name for node in graph.nodes if node.op != "input"]
    for start in range(len(names)):
        for stop in range(start, len(names)):
            nodes = tuple(names[start : stop + 1])
            entries = {name for one in nodes for name in graph.by_name[one].inputs if name not in nodes}
            moving = [name for name in entries if graph.by_name[name].op not in ("parameter", "constant")]
            segment = Segment(moving[0], nodes[-1], nodes) if len(moving) == 1 else None
            if segment is not None and _is_one(graph, segment):
                yield segment


def _is_one(graph, segment):
    try:
        check_segment(graph, segment)
    except ModelError:
        return False
    return True


def copied(graph):
    """The same network under other names: what a second export of it looks like."""
    name = {node.name: f"other:{node.name}" for node in graph.nodes}
    nodes = tuple(
        replace(
            node,
            name=name[node.name],
            inputs=tuple(name[one] for one in node.inputs),
            parameters=tuple(replace(one, key=f"other:{one.key}") for one in node.parameters),
        )
        for node in graph.nodes
    )
    weights = {f"other:{key}": values.copy() for key, values in graph.weights.items()}
    return Graph("other", nodes, tuple(name[one] for one in graph.outputs), weights)


def moved(segment):
    return Segment(f"other:{segment.entry}", f"other:{segment.exit}", tuple(f"other:{one}" for one in segment.nodes))


@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5),
    st.sampled_from(sorted(ENDS)),
    st.data(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_a_twin_with_identical_weights_is_bit_equal(steps, end, draw):
    sketch = Sketch("NCHW")
    x = sketch.input(4, 5, 6)
    for step in steps:
        x = STEPS[step](sketch, x)
    graph = canonical(sketch.graph(ENDS[end](sketch, x)))
    found = list(segments(graph))
    assume(found)
    segment = draw.draw(st.sampled_from(found))
    twin = splice(graph, segment, copied(graph), moved(segment))
    feed = fed(graph)
    for one, two in zip(session(graph).run(None, feed), session(twin).run(None, feed), strict=True):
        assert one.tobytes() == two.tobytes()


@pytest.fixture(scope="module")
def wide():
    return weighted_graph("demo:lenet-wide")


@pytest.fixture(scope="module")
def quantised():
    return weighted_graph("demo:lenet-wide-int8")


def nodes(graph, start, stop):
    """A segment of a chain, by the places of its first and last node."""
    names = [node.name for node in graph.nodes]
    return Segment(names[start - 1], names[stop], tuple(names[start : stop + 1]))


def test_donor_weights_stand_where_the_segment_was(wide, quantised):
    twin = splice(wide, nodes(wide, 5, 6), quantised, nodes(quantised, 5, 6))
    assert [node.op for node in twin] == [node.op for node in wide]
    values = twin.weights[twin.nodes[5].parameter("kernel").key]
    assert (values == quantised.weights[quantised.nodes[5].parameter("kernel").key]).all()
    untouched = twin.nodes[2].parameter("kernel").key
    assert (twin.weights[untouched] == wide.weights[untouched]).all()
    assert set(twin.weights) == {one.key for node in twin for one in node.parameters}
    assert twin.facts[SPLICED][0]["donor"] == "lenet-wide-int8"


def test_all_of_a_network_can_be_exchanged(wide, quantised):
    pairs = [(nodes(wide, start, stop), nodes(quantised, start, stop)) for start, stop in ((2, 4), (5, 7), (8, 11))]
    twin = splice_all(wide, quantised, pairs)
    feed = random_inputs(wide, 0)
    expected, found = run(quantised, {quantised.inputs[0].name: feed["input"]}), run(twin, feed)
    assert np.array_equal(*expected.values(), *found.values())
    assert twin.outputs == wide.outputs
    assert len(twin.facts[SPLICED]) == 3


def test_segments_of_different_structure_fit_where_their_ends_do(wide):
    sketch = Sketch("NCHW")
    x = sketch.input(16, 12, 12)
    made = sketch.one("relu", sketch.conv(sketch.pool("max_pool", x, 2, 2), 32, 3))
    donor = canonical(sketch.graph(made))
    replacement = Segment("x", donor.outputs[0], tuple(node.name for node in donor if node.op != "input"))
    twin = splice(wide, nodes(wide, 5, 7), donor, replacement)
    assert [node.op for node in twin][5:8] == ["max_pool", "conv", "relu"]
    assert np.isfinite(run(twin, random_inputs(twin, 0))["logits"]).all()


def test_ends_of_other_shapes_are_refused(wide, quantised):
    with pytest.raises(ModelError, match=r"at the entry.*1×16×12×12.*1×1×28×28"):
        splice(wide, nodes(wide, 5, 7), quantised, nodes(quantised, 2, 4))


@pytest.mark.parametrize(
    ("segment", "why"),
    [
        (Segment("input", "absent", ("absent",)), "no value 'absent'"),
        (Segment("relu_0", "relu_0", ("conv_0", "relu_0")), "not made of its nodes"),
        (Segment("conv_0", "maxpool_0", ("relu_0", "conv_1", "maxpool_0")), "A second value"),
    ],
)
def test_what_is_no_segment_is_refused(wide, segment, why):
    with pytest.raises(ModelError, match=why):
        splice(wide, segment, wide, segment)


def test_a_value_that_is_used_outside_is_a_second_exit():
    graph = weighted_graph("demo:resnet-tiny")
    shortcut = next(node for node in graph if node.op == "add")
    inner = graph.by_name[shortcut.inputs[0]]
    before = graph.by_name[shortcut.inputs[1]]
    made = tuple(node.name for node in graph.nodes[graph.nodes.index(before) : graph.nodes.index(inner) + 1])
    with pytest.raises(ModelError, match="comes out of the segment"):
        check_segment(graph, Segment(before.inputs[0], inner.name, made))


def test_parameters_stay_apart_where_no_values_are_known():
    builder = GraphBuilder("two")
    x = builder.add("input", (), (1, 4), name="x")
    for name in ("first", "second"):
        x = builder.add("dense", (x,), (1, 4), name=name, parameters=[builder.parameter("kernel", (4, 4), name)])
    graph = builder.finish([x])
    first, second = Segment("x", "first", ("first",)), Segment("first", "second", ("second",))
    assert splice(graph, second, graph, first).parameters == graph.parameters == 32
