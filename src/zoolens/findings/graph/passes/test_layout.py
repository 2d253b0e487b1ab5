from __future__ import annotations

import numpy as np

from zoolens.findings.graph.passes.axis_labels import canonical_order, labels
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.layout import moves, unify_layout
from zoolens.findings.graph.passes.proof import prove


def ops(graph):
    return [node.op for node in graph]


def test_labels_spread_both_ways(drawing):
    sketch = drawing("NHWC")
    x = sketch.builder.add("input", (), (1, 3, 8, 8), name="x")  # its layout is not said
    y = sketch.one("relu", sketch.transpose(x, 0, 2, 3, 1))
    z = sketch.conv(y, 4)
    w = sketch.one("sigmoid", sketch.transpose(z, 0, 3, 1, 2))
    found = labels(sketch.graph(w))
    assert found == {x: "NCHW", "transpose": "NHWC", y: "NHWC", z: "NHWC", "transpose#2": "NCHW", w: "NCHW"}


def test_transposes_between_layouts_vanish(drawing):
    sketch = drawing("NCHW")
    x = sketch.one("relu", sketch.other_layout(sketch.input(3, 8, 8)))
    graph = sketch.graph(sketch.other_layout(sketch.conv(x, 4)))
    assert ops(unify_layout(graph)) == ["input", "relu", "conv"]
    prove(graph, stepwise=True)


def test_a_transpose_that_swaps_places_stays(drawing):
    sketch = drawing("NCHW")
    x = sketch.conv(sketch.input(3, 8, 6), 4)
    graph = sketch.graph(sketch.conv(sketch.transpose(x, 0, 1, 3, 2), 2))
    assert "transpose" in ops(canonical(graph))
    prove(graph, stepwise=True)


def test_axis_attributes_follow(drawing):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 6, 8), 4)
    x = sketch.builder.add("slice", (x,), (1, 6, 8, 3), axis=3, start=1, stop=4)
    x = sketch.builder.add("softmax", (sketch.concat(x, x),), (1, 6, 8, 6), axis=3)
    x = sketch.builder.add("roll", (x,), (1, 6, 8, 6), axes=(2, 1), shifts=(1, 3))
    x = sketch.builder.add("affine", (x,), (1, 6, 8, 6), parameters=[sketch.tensor("scale", 8)], axis=2)
    x = sketch.builder.add("mean", (x,), (1, 8, 6), axes=(1,))
    found = {node.op: node for node in canonical(sketch.graph(x))}
    assert found["slice"].get("axis") == found["concat"].get("axis") == found["softmax"].get("axis") == 1
    assert (found["roll"].get("axes"), found["roll"].get("shifts")) == ((2, 3), (3, 1))
    assert found["affine"].get("axis") == 3
    assert found["mean"].get("axes") == (2,)
    assert found["mean"].shape == (1, 6, 8)
    prove(sketch.graph(x), stepwise=True)


def test_flatten_remembers_its_order_until_a_dense_layer_takes_it(drawing):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 4, 5), 4)
    flat = sketch.flat(x)
    graph = sketch.graph(flat, sketch.dense(flat, 7))
    orders = [node.get("order") for node in canonical(graph) if node.op == "flatten"]
    assert sorted(orders, key=str) == ["NHWC", None]
    prove(graph, stepwise=True)


def test_dense_on_the_places_of_a_map_is_a_convolution(drawing):
    sketch = drawing("NCHW")
    x = sketch.other_layout(sketch.conv(sketch.input(3, 4, 5), 4))
    norm = sketch.builder.add(
        "layer_norm", (x,), sketch.shape(x), parameters=[sketch.tensor("scale", 4)], axes=(3,), epsilon=1e-6
    )
    graph = sketch.graph(sketch.other_layout(sketch.dense(norm, 6)))
    assert ops(canonical(graph)) == ["input", "conv", "layer_norm", "conv"]
    prove(graph, stepwise=True)


def test_short_operands_are_aligned_before_axes_move(drawing):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 4, 4), 4)
    x = sketch.two("mul", sketch.learned(4), x)
    x = sketch.two("add", x, sketch.learned(4, 1, 4))  # along height and channels: stays a sum
    graph = sketch.graph(x)
    assert ops(canonical(graph)).count("add") == 1
    prove(graph, stepwise=True)


def test_maps_and_tokens(drawing):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 4, 5), 6)
    tokens = sketch.dense(sketch.reshape(x, 1, 20, 6), 8)
    back = sketch.conv(sketch.reshape(tokens, 1, 4, 5, 8), 2)
    theirs = sketch.graph(back)
    sketch = drawing("NCHW")
    x = sketch.conv(sketch.input(3, 4, 5), 6)
    tokens = sketch.dense(sketch.transpose(sketch.reshape(x, 1, 6, 20), 0, 2, 1), 8)
    ours = sketch.graph(sketch.conv(sketch.reshape(sketch.transpose(tokens, 0, 2, 1), 1, 8, 4, 5), 2))
    assert ops(canonical(theirs)) == ops(canonical(ours))
    for graph in (ours, theirs):
        prove(graph, stepwise=True)


def test_orders():
    assert canonical_order("NHWC") == (0, 3, 1, 2)
    assert not moves((1, 1, 1, 8), (0, 3, 1, 2))
    assert moves((1, 2, 1, 8), (0, 3, 1, 2))
    assert np.zeros((1, 2, 1, 8)).transpose((0, 3, 1, 2)).shape == (1, 8, 2, 1)
