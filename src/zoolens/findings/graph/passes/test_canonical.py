from __future__ import annotations

from collections import Counter

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.equality import same_structure, structure_hash
from zoolens.findings.graph.ir.model import Graph, Node
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.proof import prove
from zoolens.findings.graph.passes.without_norms import norm_blind


def torch_style(sketch):
    """Channels first, pads in the layers, norms and activations as layers of their own."""
    x = sketch.input(3, 16, 16)
    x = sketch.one("relu6", sketch.norm(sketch.conv(x, 8, 3, 2, (0, 0, 1, 1))))
    short = sketch.norm(sketch.conv(x, 8))
    y = sketch.one("relu", sketch.norm(sketch.conv(x, 8, 3, 1, (1, 1, 1, 1), groups=8)))
    gate = sketch.one("relu", sketch.conv(sketch.mean(y, keep=True), 4, bias=True))
    gate = sketch.one("hard_sigmoid", sketch.conv(gate, 8, bias=True))
    y = sketch.two("mul", y, gate)
    x = sketch.two("add", short, y)
    x = sketch.concat(x, sketch.one("hard_swish", sketch.conv(x, 4)), sketch.conv(x, 4))
    x = sketch.one("relu", x)
    x = sketch.pool("max_pool", x, 3, 2, (1, 1, 1, 1))
    pooled = sketch.builder.add("adaptive_avg_pool", (x,), (1, 16, 1, 1), axes="NCHW", size=(1, 1))
    return sketch.graph(sketch.dense(sketch.flat(sketch.one("dropout", pooled, rate=0.2)), 10))


def tensorflow_style(sketch):
    """Channels last, pad nodes, norms and activations in arithmetic, vectors as maps, a branch in the other layout."""
    x = sketch.input(3, 16, 16)
    x = sketch.norm_written_out(sketch.conv(sketch.pad(x, 0, 0, 1, 1), 8, 3, 2))
    x = sketch.one("minimum", sketch.one("relu", x), scalar=6.0)
    y = sketch.other_layout(sketch.pad(x, 1, 1, 1, 1))
    y = sketch.other_layout(sketch.norm(sketch.conv(y, 8, 3, groups=8)))
    y = sketch.one("maximum", y, scalar=0.0)
    gate = sketch.reshape(sketch.mean(y), 1, 1, 1, 8)
    gate = sketch.one("relu", sketch.conv(gate, 4, bias=True))
    gate = sketch.one("add", sketch.conv(gate, 8, bias=True), scalar=3.0)
    gate = sketch.one("div", sketch.one("clip", gate, low=0.0, high=6.0), scalar=6.0)
    y = sketch.two("mul", gate, y)
    x = sketch.two("add", y, sketch.norm(sketch.conv(x, 8)))
    side = sketch.conv(x, 4)
    inner = sketch.one("relu6", sketch.one("add", side, scalar=3.0))
    side = sketch.one("mul", sketch.two("mul", side, inner), scalar=1 / 6)
    x = sketch.concat(sketch.concat(x, side), sketch.conv(x, 4))
    x = sketch.pool("max_pool", sketch.pad(sketch.one("relu", x), 1, 1, 1, 1), 3, 2)
    x = sketch.conv(sketch.pool("avg_pool", sketch.one("identity", x), 4, 4), 10)
    return sketch.graph(sketch.reshape(x, 1, 10))


def test_one_network_in_two_styles_is_one_graph(drawing):
    ours, theirs = torch_style(drawing("NCHW")), tensorflow_style(drawing("NHWC"))
    a, b = canonical(ours), canonical(theirs)
    assert [node.op for node in a] == [node.op for node in b]
    assert same_structure(a, b)
    assert structure_hash(a) == structure_hash(b)
    for graph in (ours, theirs):
        assert prove(graph, stepwise=True).relative < 1e-9


def test_what_canonical_promises(drawing):
    ops = Counter(node.op for node in canonical(tensorflow_style(drawing("NHWC"))))
    assert not set(ops) & {"transpose", "pad", "identity", "batch_norm", "parameter", "avg_pool", "mean", "clip"}
    assert ops["conv"] == 5
    assert ops["dense"] == 3
    assert ops["reshape"] == 1  # from the gate's vector to the map it multiplies
    nodes = canonical(tensorflow_style(drawing("NHWC"))).nodes
    first = next(node for node in nodes if node.op == "conv")
    assert first.get("norm") == "batch"
    assert first.get("pads") == (0, 0, 1, 1)
    assert first.shape == (1, 8, 8, 8)
    assert {one.role for one in first.parameters} >= {"norm_scale", "norm_shift", "norm_mean", "norm_variance"}


def test_canonical_of_canonical_is_itself(drawing):
    once = canonical(torch_style(drawing("NCHW")))
    assert canonical(once) == once


def test_norms_can_be_ignored(drawing):
    def network(sketch, *, folded):
        x = sketch.conv(sketch.input(3, 8, 8), 4, 3, bias=folded)
        x = sketch.one("relu", x if folded else sketch.norm(x))
        return sketch.graph(sketch.conv(x, 4, bias=not folded))

    plain, folded = (canonical(network(drawing(), folded=folded)) for folded in (False, True))
    assert not same_structure(plain, folded)
    assert same_structure(norm_blind(plain), norm_blind(folded))
    assert {one.role for node in norm_blind(plain) for one in node.parameters} == {"kernel"}


def test_an_error_names_the_pass():
    graph = Graph("broken", (Node("x", "input", (), (1, 2)), Node("y", "transpose", ("x",), (2, 1))), ("y",))
    with pytest.raises(ModelError, match="pass 'noise' cannot rewrite broken"):
        canonical(graph)


def test_unknown_operators_stay_and_are_counted(drawing):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 8, 8), 4)
    strange = sketch.builder.unknown("Strange", (x,), sketch.shape(x))
    graph = canonical(sketch.graph(sketch.conv(strange, 2)))
    assert [node.get("source_op") for node in graph.unknown] == ["Strange"]
    assert graph.unknown[0].shape == (1, 4, 8, 8)
