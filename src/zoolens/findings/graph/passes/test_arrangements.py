from __future__ import annotations

import pytest

from zoolens.findings.graph.ir.equality import same_structure
from zoolens.findings.graph.passes.arrangements import ArrangementStep, reshaped, steps, turned, unchanged
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.proof import prove


def spelled(one):
    return [(step.op, step.shape) for step in steps(one)]


def test_one_normal_form_for_every_spelling():
    there = reshaped(turned(unchanged((1, 6, 4, 5)), (0, 2, 3, 1)), (1, 20, 6))
    also = turned(reshaped(unchanged((1, 6, 4, 5)), (1, 6, 20)), (0, 2, 1))
    assert steps(there) == steps(also)
    assert spelled(there) == [("reshape", (1, 6, 20)), ("transpose", (1, 20, 6))]


def test_there_and_back_is_nothing():
    windows = reshaped(turned(reshaped(unchanged((1, 4, 6, 3)), (1, 2, 2, 3, 2, 3)), (0, 1, 3, 2, 4, 5)), (6, 4, 3))
    back = turned(reshaped(windows, (1, 2, 3, 2, 2, 3)), (0, 1, 3, 2, 4, 5))
    assert steps(reshaped(back, (1, 4, 6, 3))) == ()
    assert steps(windows.inverse) != ()


def test_an_axis_can_be_cut_anew_once_it_is_whole():
    once = reshaped(unchanged((1, 56)), (1, 8, 7))
    assert spelled(reshaped(once, (1, 7, 8))) == [("reshape", (1, 7, 8))]
    assert reshaped(turned(once, (0, 2, 1)), (1, 8, 7)) is None  # cuts through both factors


def test_axes_of_one_only_need_a_reshape():
    assert spelled(turned(unchanged((1, 7, 1, 5)), (1, 0, 2, 3))) == [("reshape", (7, 1, 1, 5))]


def norm(sketch, x, c):
    tensors = [sketch.tensor("scale", c), sketch.tensor("shift", c)]
    axes = (len(sketch.shape(x)) - 1,)
    return sketch.builder.add("layer_norm", (x,), sketch.shape(x), parameters=tensors, axes=axes, epsilon=1e-5)


def mlp(sketch, x, c):
    return sketch.two("add", sketch.dense(sketch.one("gelu", sketch.dense(norm(sketch, x, c), 2 * c)), c), x)


def windows(sketch, x, c):
    cut = sketch.transpose(sketch.reshape(x, 1, 2, 2, 3, 2, c), 0, 1, 3, 2, 4, 5)
    return sketch.reshape(cut, 6, 4, c)


def joined(sketch, x, c):
    return sketch.reshape(sketch.transpose(sketch.reshape(x, 1, 2, 3, 2, 2, c), 0, 1, 3, 2, 4, 5), 1, 4, 6, c)


@pytest.mark.parametrize("spelling", ["tokens", "windows"])
def test_layers_on_every_place_alike_are_applied_to_the_map(drawing, spelling):
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 4, 6), 8)
    ours = sketch.graph(sketch.mean(mlp(sketch, x, 8)))
    sketch = drawing("NHWC")
    x = sketch.conv(sketch.input(3, 4, 6), 8)
    if spelling == "tokens":
        y = sketch.reshape(mlp(sketch, sketch.reshape(x, 1, 24, 8), 8), 1, 4, 6, 8)
    else:
        y = joined(sketch, mlp(sketch, windows(sketch, x, 8), 8), 8)
    theirs = sketch.graph(sketch.mean(y))
    assert same_structure(canonical(ours), canonical(theirs))
    assert prove(theirs, stepwise=True).relative < 1e-9


def test_patches_are_merged_by_slices_or_by_arranging(drawing):
    def network(sketch, merged):
        x = sketch.conv(sketch.input(3, 4, 6), 5)
        return sketch.graph(sketch.mean(sketch.dense(norm(sketch, merged(sketch, x), 20), 7)))

    def by_slices(sketch, x):
        def every_second(x, axis, start):
            shape = [extent // 2 if i == axis else extent for i, extent in enumerate(sketch.shape(x))]
            stop = sketch.shape(x)[axis]
            return sketch.builder.add("slice", (x,), shape, axis=axis, start=start, stop=stop, step=2)

        return sketch.concat(*(every_second(every_second(x, 1, i), 2, j) for j in (0, 1) for i in (0, 1)))

    def by_arranging(sketch, x):
        return sketch.reshape(sketch.transpose(sketch.reshape(x, 1, 2, 2, 3, 2, 5), 0, 1, 3, 4, 2, 5), 1, 2, 3, 20)

    ours, theirs = (network(drawing("NHWC"), merged) for merged in (by_slices, by_arranging))
    assert same_structure(canonical(ours), canonical(theirs))
    assert "concat" not in {node.op for node in canonical(ours)}
    for graph in (ours, theirs):
        assert prove(graph, stepwise=True).relative < 1e-9


def heads(sketch, x):
    return sketch.transpose(sketch.reshape(x, 1, 6, 2, 4), 0, 2, 1, 3)


def attended(sketch, q, k, v, scale):
    """softmax(q · (k·scale)ᵀ) · v with batch and heads in one axis, as a product of many matrices needs it."""
    k = sketch.transpose(sketch.reshape(sketch.one("mul", k, scalar=scale), 2, 6, 4), 0, 2, 1)
    scores = sketch.reshape(sketch.builder.add("matmul", (sketch.reshape(q, 2, 6, 4), k), (2, 6, 6)), 1, 2, 6, 6)
    weights = sketch.reshape(sketch.one("softmax", scores, axis=3), 2, 6, 6)
    found = sketch.builder.add("matmul", (weights, sketch.reshape(v, 2, 6, 4)), (2, 6, 4))
    return sketch.reshape(found, 1, 2, 6, 4)


def test_attention_is_one_whatever_its_heads_were_joined_with(drawing):
    def parts(sketch):
        x = sketch.builder.add("input", (), (1, 6, 8), name="x")
        whole = sketch.dense(x, 24)
        return [
            heads(sketch, sketch.builder.add("slice", (whole,), (1, 6, 8), axis=2, start=start, stop=start + 8))
            for start in (0, 8, 16)
        ]

    def rest(sketch, y, *shape):
        return sketch.graph(
            sketch.reshape(sketch.dense(sketch.reshape(sketch.transpose(y, 0, 2, 1, 3), *shape), 5), 1, 6, 5)
        )

    sketch = drawing()
    q, k, v = parts(sketch)
    ours = rest(sketch, sketch.builder.add("attention", (q, k, v), (1, 2, 6, 4), heads=2), 1, 6, 8)
    sketch = drawing()
    theirs = rest(sketch, attended(sketch, *parts(sketch), 0.5), 6, 8)
    assert same_structure(canonical(ours), canonical(theirs))
    assert prove(theirs, stepwise=True).relative < 1e-9
    sketch = drawing()
    unusual = canonical(rest(sketch, attended(sketch, *parts(sketch), 0.25), 6, 8))
    assert [node.get("scale") for node in unusual if node.op == "attention"] == [0.25]


def test_a_part_is_cut_out_before_heads_are_split(drawing):
    """(N, T, 3, heads, width) → (3, N, heads, T, width) → [i] is what slices of the channels are."""
    sketch = drawing()
    x = sketch.builder.add("input", (), (1, 6, 24), name="x")
    turned_ = sketch.transpose(sketch.reshape(x, 1, 6, 3, 2, 4), 2, 0, 3, 1, 4)
    part = sketch.builder.add("slice", (turned_,), (1, 1, 2, 6, 4), axis=0, start=1, stop=2)
    graph = sketch.graph(sketch.reshape(part, 1, 2, 6, 4))
    found = canonical(graph)
    assert [node.op for node in found] == ["input", "slice", "reshape", "transpose"]
    assert (found.nodes[1].get("axis"), found.nodes[1].get("start"), found.nodes[1].get("stop")) == (2, 8, 16)
    prove(graph, stepwise=True)


@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_places_of_a_map_that_are_put_back_are_a_map_again(drawing, axes, tokens):
    """After attention in windows nothing says so but the arrangement; a dense layer is then a 1×1 convolution."""
    sketch = drawing(axes)
    x = sketch.conv(sketch.input(3, 4, 6), 5)
    x = sketch.other_layout(x) if axes == "NCHW" else x
    cut = sketch.transpose(sketch.reshape(x, 1, 2, 2, 3, 2, 5), 0, 1, 3, 2, 4, 5)
    windows = sketch.reshape(cut, 6, 4, 5)
    scores = sketch.builder.add("matmul", (windows, sketch.transpose(windows, 0, 2, 1)), (6, 4, 4))
    mixed = sketch.builder.add("matmul", (sketch.one("softmax", scores, axis=2), windows), (6, 4, 5))
    back = sketch.transpose(sketch.reshape(mixed, 1, 2, 3, 2, 2, 5), 0, 1, 3, 2, 4, 5)
    back = sketch.reshape(back, 1, 24, 5) if tokens else sketch.reshape(back, 1, 4, 6, 5)
    graph = sketch.graph(sketch.one("relu", sketch.dense(back, 7)))
    found = canonical(graph)
    assert [node.op for node in found if node.op in ("conv", "dense")] == ["conv", "conv"]
    prove(graph, stepwise=True)


def test_axes_of_one_are_turned_with_the_others():
    """One head is an axis of one: splitting it off before or after turning the others is the same, in two steps."""
    before = turned(reshaped(unchanged((1, 32, 2, 2)), (1, 1, 32, 4)), (0, 1, 3, 2))
    after = reshaped(turned(reshaped(unchanged((1, 32, 2, 2)), (1, 32, 4)), (0, 2, 1)), (1, 1, 4, 32))
    assert spelled(before) == spelled(after) == [("reshape", (1, 1, 32, 4)), ("transpose", (1, 1, 4, 32))]
    back = reshaped(turned(reshaped(unchanged((1, 1, 4, 32)), (1, 4, 32)), (0, 2, 1)), (1, 32, 2, 2))
    assert spelled(back) == [("transpose", (1, 1, 32, 4)), ("reshape", (1, 32, 2, 2))]
    turn = reshaped(turned(reshaped(unchanged((1, 4, 1, 32)), (4, 32)), (1, 0)), (32, 1, 1, 4))
    assert steps(turn) == (ArrangementStep("transpose", (32, 1, 1, 4), (3, 0, 2, 1)),)


def tokens(sketch, x, c):
    return sketch.transpose(sketch.reshape(x, 1, c, 24), 0, 2, 1)


def test_a_tensor_added_to_tokens_is_added_to_their_map(drawing):
    """What EdgeNeXt adds by position is computed on the map; an exporter stores it as tokens."""

    def network(stored):
        sketch = drawing()
        x = sketch.conv(sketch.input(3, 4, 6), 8)
        by_place = sketch.learned(1, 24, 8) if stored else tokens(sketch, sketch.learned(1, 8, 4, 6), 8)
        return sketch.graph(sketch.dense(sketch.two("add", tokens(sketch, x, 8), by_place), 5))

    assert same_structure(canonical(network(stored=True)), canonical(network(stored=False)))
    prove(network(stored=True), stepwise=True)


def test_a_gelu_that_is_spelled_out_on_tokens_is_one_on_their_map(drawing):
    """As torch's older exporter writes PVT: x / √2, erf, + 1, · x, · 0.5."""

    def network(spelled_out):
        sketch = drawing()
        x = tokens(sketch, sketch.conv(sketch.input(3, 4, 6), 8), 8)
        if spelled_out:
            grown = sketch.one("add", sketch.one("erf", sketch.one("div", x, scalar=2**0.5)), scalar=1.0)
            x = sketch.one("mul", sketch.two("mul", x, grown), scalar=0.5)
        else:
            x = sketch.one("gelu", x)
        return sketch.graph(sketch.dense(x, 5))

    assert same_structure(canonical(network(spelled_out=True)), canonical(network(spelled_out=False)))
    prove(network(spelled_out=True), stepwise=True)
