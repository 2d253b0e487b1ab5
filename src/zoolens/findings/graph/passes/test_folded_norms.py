from dataclasses import replace

import numpy as np

from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.folded_norms import folded_norms
from zoolens.findings.graph.passes.proof import prove
from zoolens.findings.graph.passes.stored_values import stored_values
from zoolens.findings.graph.reference.interpreter import run


def answers(graph, feed):
    return run(graph, feed)[graph.outputs[0]]


def test_folded_norms_compute_the_same(drawing):
    sketch = drawing("NHWC")
    x = sketch.norm(sketch.input(4, 6, 6))  # before a layer: it becomes a scale and a shift
    x = sketch.one("relu", sketch.norm(sketch.conv(x, 8, k=3, bias=True)))
    x = sketch.norm(sketch.conv(x, 8, k=3, groups=8))
    graph = canonical(sketch.graph(sketch.dense(sketch.mean(x), 5)))
    folded = folded_norms(graph, {"conv", "batch_norm"})
    assert {node.op for node in folded} & {"batch_norm", "affine"} == {"affine"}
    assert all(node.get("norm") is None and node.parameter("bias") for node in folded if node.op == "conv")
    feed = {"x": np.random.default_rng(1).standard_normal((1, 4, 6, 6))}
    np.testing.assert_allclose(answers(folded, feed), answers(graph, feed), rtol=1e-9)


def test_kernels_that_are_stored_in_another_shape_are_folded_too(drawing):
    sketch = drawing()
    graph = canonical(sketch.graph(sketch.norm(sketch.conv(sketch.input(3, 4, 4), 6, k=3))))
    [kernel] = [node.parameter("kernel") for node in graph if node.op == "conv"]
    feed = {"x": np.random.default_rng(1).standard_normal((1, 3, 4, 4))}
    for shape in (kernel.size,), (1, *kernel.shape), (2, 3, *kernel.shape[1:]):
        stored = replace(graph, weights={**graph.weights, kernel.key: graph.weights[kernel.key].reshape(shape)})
        folded = folded_norms(stored, {"conv"})
        np.testing.assert_allclose(answers(folded, feed), answers(graph, feed), rtol=1e-9)


def test_what_weights_alone_decide_is_stored_as_one_tensor(drawing):
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 4, 4), 6)
    table, places = sketch.learned(5, 6), tuple(np.arange(96).reshape(6, 16) % 5)
    indices = sketch.builder.add(
        "constant", (), (4, 4), value=tuple(tuple(map(int, row)) for row in places[0].reshape(4, 4))
    )
    bias = sketch.builder.add("gather", (table, indices), (4, 4, 6), axis=0)
    graph = canonical(sketch.graph(sketch.two("add", x, sketch.transpose(bias, 2, 0, 1))))
    stored = stored_values(graph)
    assert [node.op for node in stored] == ["input", "conv", "parameter", "add"]
    assert stored.nodes[2].shape[-3:] == (6, 4, 4)


def test_a_scale_behind_a_folded_layer_goes_with_it(drawing):
    """As layer scale does behind a convolution with its norm: once the norm is folded, nothing keeps them apart."""
    sketch = drawing()
    x = sketch.norm(sketch.conv(sketch.input(3, 4, 4), 6))
    x = sketch.builder.add("affine", (x,), sketch.shape(x), parameters=[sketch.tensor("scale", 6)], axis=1)
    graph = canonical(sketch.graph(sketch.conv(x, 2)))
    folded = folded_norms(graph, {"conv"})
    assert [node.op for node in folded] == ["input", "conv", "conv"]
    feed = {"x": np.random.default_rng(1).standard_normal((1, 3, 4, 4))}
    np.testing.assert_allclose(answers(folded, feed), answers(graph, feed), rtol=1e-9)


def test_a_group_norm_spelled_as_an_instance_norm(drawing):
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 4, 4), 6)
    split = sketch.reshape(x, 1, 3, 32)
    normed = sketch.builder.add("instance_norm", (split,), (1, 3, 32), axes="NCW", epsilon=1e-5)
    whole = sketch.reshape(normed, *sketch.shape(x))
    for role in ("scale", "shift"):
        whole = sketch.builder.add("affine", (whole,), sketch.shape(x), parameters=[sketch.tensor(role, 6)], axis=1)
    graph = sketch.graph(sketch.conv(whole, 2))
    found = canonical(graph)
    assert [node.op for node in found] == ["input", "conv", "group_norm", "conv"]
    assert (found.nodes[2].get("groups"), [one.role for one in found.nodes[2].parameters]) == (3, ["scale", "shift"])
    prove(graph, stepwise=True)
