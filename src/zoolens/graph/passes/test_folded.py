import numpy as np

from zoolens.graph.passes.canonical import canonical
from zoolens.graph.passes.folded import folded_norms
from zoolens.graph.passes.stored import stored_values
from zoolens.graph.reference import run


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
