"""Tensors of a runtime are found in the graph by their numbers."""

from dataclasses import replace

import numpy as np

from zoolens.findings.divergence.evaluation import Grid, exact_value, grids_of, with_grids
from zoolens.findings.divergence.points import Observed, in_order, observable
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.reference.interpreter import node_values
from zoolens.findings.graph.structures.weighted_graph import canonical_with_facts
from zoolens.inventory.runtimes.observing import CapturePoint


def raw_graph():
    """Channels last: a convolution, its norm, a ReLU; the norm is merged into the convolution."""
    generator = np.random.default_rng(0)
    builder = GraphBuilder("tiny", keep_weights=True)
    x = builder.add("input", (), (1, 6, 6, 2), name="x", source="x", axes="NHWC")
    kernel = builder.parameter("kernel", (4, 2, 3, 3), "k", generator.standard_normal((4, 2, 3, 3)).astype(np.float32))
    conv = builder.add(
        "conv", (x,), (1, 4, 4, 4), name="conv", source="conv", axes="NHWC", parameters=(kernel,), kernel=(3, 3)
    )
    norm = [
        builder.parameter(role, (4,), role, generator.uniform(0.5, 1.5, 4).astype(np.float32))
        for role in ("scale", "shift", "mean", "variance")
    ]
    normed = builder.add(
        "batch_norm", (conv,), (1, 4, 4, 4), name="bn", source="bn", axes="NHWC", parameters=norm, epsilon=1e-3
    )
    relu = builder.add("relu", (normed,), (1, 4, 4, 4), name="relu", source="relu", axes="NHWC")
    graph = builder.finish((relu,))
    return replace(graph, facts={**graph.facts, "tensors": {name: name for name in ("conv", "bn", "relu")}})


def test_a_merged_norm_is_found_under_the_name_it_has_in_the_graph():
    raw = raw_graph()
    graph = canonical_with_facts(raw)
    assert [node.name for node in graph.nodes] == ["x", "conv", "relu"]  # the name stays, the value is the norm's
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 6))
    points = [CapturePoint(name, tensor=name, kept=True) for name in ("conv", "bn", "relu")]
    found = observable(raw, graph, points, {"x": x}).points
    assert {node: held.point.name for node, held in found.items()} == {"conv": "bn", "relu": "relu"}
    fed = {"x": x.transpose(0, 2, 3, 1)}
    values = {node.name: value for node, value in node_values(raw, fed)}
    np.testing.assert_allclose(found["conv"].value(values["bn"]), exact_value(graph, {"x": x}, "conv"), rtol=1e-5)


def test_grids_of_tensors_become_those_of_values():
    raw = raw_graph()
    graph = canonical_with_facts(raw)
    grid = Grid.of(0.25, -128, "int8")
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 6))
    found = observable(raw, graph, [CapturePoint("relu", tensor="relu")], {"x": x}, {"relu": grid})
    assert found.grids == {"relu": grid}
    stored = np.full((1, 4, 4, 4), -124, np.int8)
    np.testing.assert_array_equal(found.points["relu"].value(stored), np.full((1, 4, 4, 4), 1.0))
    last = exact_value(with_grids(graph, found.grids), {"x": x}, "relu")
    np.testing.assert_allclose(last / 0.25, np.round(last / 0.25))
    assert grids_of(with_grids(with_grids(graph, found.grids), {})) == {}


def test_tensors_of_another_file_are_aligned_by_order_shape_and_value():
    raw = raw_graph()
    graph = canonical_with_facts(raw)
    x = np.random.default_rng(1).standard_normal((1, 2, 6, 6))
    values = {node.name: value.astype(np.float32) for node, value in node_values(raw, {"x": x.transpose(0, 2, 3, 1)})}
    shown = {"first": values["conv"], "second": values["bn"], "scalar": np.float32(1), "third": values["relu"]}
    found = in_order(graph, [CapturePoint(name) for name in shown], shown, {"x": x})
    assert {node: held.point.name for node, held in found.items()} == {"conv": "second", "relu": "third"}
    np.testing.assert_allclose(found["relu"].value(values["relu"]), exact_value(graph, {"x": x}, "relu"), atol=1e-5)


def test_a_tensor_with_the_steps_before_the_batch_is_taken_whole():
    """torch computes attention on steps × batch × width; only a batch of several samples is cut to its first."""
    values = np.arange(42, dtype=np.float32).reshape(7, 1, 6)
    steps_first = Observed(CapturePoint("h", "h"), "h", (7, 1, 6), (1, 0, 2), (1, 7, 6))
    np.testing.assert_array_equal(steps_first.value(values), values.transpose(1, 0, 2))
    several = Observed(CapturePoint("h", "h"), "h", (1, 7, 6), (0, 1, 2), (1, 7, 6))
    np.testing.assert_array_equal(several.value(np.stack([values[:, 0]] * 3)), values.transpose(1, 0, 2))
