import pytest

from zoolens.findings.graph.ir.equality import same_structure
from zoolens.findings.graph.passes.canonical import canonical
from zoolens.findings.graph.passes.proof import prove


def cut(sketch, x, axis, start, stop):
    shape = list(sketch.shape(x))
    shape[axis] = stop - start
    return sketch.builder.add("slice", (x,), shape, axis=axis, start=start, stop=stop)


def rolled(sketch, x, axis, by):
    """As exporters write a roll that their operators do not have: the end, then the begin."""
    extent = sketch.shape(x)[axis]
    parts = cut(sketch, x, axis, by, extent), cut(sketch, x, axis, 0, by)
    return sketch.builder.add("concat", parts, sketch.shape(x), axis=axis)


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_two_parts_put_together_anew_are_a_roll(drawing, axes):
    height, width = axes.index("H"), axes.index("W")
    written, named = drawing(axes), drawing(axes)
    x = written.conv(written.input(3, 7, 9), 4)
    out = written.conv(rolled(written, rolled(written, x, height, 3), width, 7), 2, k=3)
    y = named.conv(named.input(3, 7, 9), 4)
    y = named.builder.add("roll", (y,), named.shape(y), axes=(height, width), shifts=(-3, 2))
    graph, other = written.graph(out), named.graph(named.conv(y, 2, k=3))
    assert same_structure(canonical(graph), canonical(other))
    prove(graph, stepwise=True)


def test_parts_that_overlap_or_leave_something_out_are_no_roll(drawing):
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 7, 9), 4)
    parts = cut(sketch, x, 2, 4, 7), cut(sketch, x, 2, 0, 3)
    graph = sketch.graph(sketch.builder.add("concat", parts, (1, 4, 6, 9), axis=2))
    assert "roll" not in {node.op for node in canonical(graph)}
    prove(graph, stepwise=True)


def test_a_gather_of_places_in_a_row_is_a_slice(drawing):
    sketch = drawing()
    x = sketch.reshape(sketch.conv(sketch.input(3, 4, 4), 6), 1, 6, 16)
    one = sketch.builder.add("gather", (x,), (1, 16), axis=1, indices=2)
    three = sketch.builder.add("gather", (x,), (1, 3, 16), axis=1, indices=(1, 2, 3))
    apart = sketch.builder.add("gather", (x,), (1, 2, 16), axis=1, indices=(1, 3))
    graph = sketch.graph(one, three, apart)
    found = canonical(graph)
    assert sorted(node.op for node in found if node.op in ("slice", "gather")) == ["gather", "slice", "slice"]
    prove(graph, stepwise=True)


def test_a_gather_of_every_nth_place_turns_axes(drawing):
    """As torch's exporters write windows of pixels that do not overlap."""
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 6, 4), 2)
    rows = tuple(tuple(range(first, 6, 3)) for first in range(3))
    other = ((0, 2), (1, 3), (4, 5))
    graph = sketch.graph(
        sketch.builder.add("gather", (x,), (1, 2, 3, 2, 4), axis=2, indices=rows),
        sketch.builder.add("gather", (x,), (1, 2, 3, 2, 4), axis=2, indices=other),
    )
    assert [node.op for node in canonical(graph) if node.op in ("gather", "transpose")] == ["transpose", "gather"]
    prove(graph, stepwise=True)


def test_attention_with_a_bias_and_a_mask_of_each_window_is_one_node(drawing):
    """As Swin writes it: a bias for all windows, then, spread over one more axis, a mask for each."""
    sketch = drawing()
    x = sketch.reshape(sketch.conv(sketch.input(3, 4, 8), 8), 4, 2, 8, 4)  # 4 windows, 2 heads, 8 tokens
    scores = sketch.builder.add("matmul", (x, sketch.transpose(x, 0, 1, 3, 2)), (4, 2, 8, 8))
    scores = sketch.two("add", scores, sketch.learned(1, 2, 8, 8))
    scores = sketch.two("add", sketch.reshape(scores, 1, 4, 2, 8, 8), sketch.learned(1, 4, 1, 8, 8))
    weights = sketch.one("softmax", sketch.reshape(scores, 4, 2, 8, 8), axis=3)
    graph = sketch.graph(sketch.builder.add("matmul", (weights, x), (4, 2, 8, 4)))
    found = canonical(graph)
    assert [node.op for node in found if node.op in ("softmax", "matmul", "attention")] == ["attention"]
    prove(graph, stepwise=True)


def test_attention_in_windows_over_several_axes_has_its_heads(drawing):
    """As Twins writes it: one axis for the windows, the next for the heads."""
    sketch = drawing()
    x = sketch.conv(sketch.input(3, 4, 8), 8)
    apart, joined = sketch.reshape(x, 1, 4, 2, 8, 4), sketch.reshape(x, 4, 2, 8, 4)
    windows = sketch.builder.add("attention", (apart,) * 3, (1, 4, 2, 8, 4), heads=1)
    heads = sketch.builder.add("attention", (joined,) * 3, (4, 2, 8, 4), heads=2)
    for graph in (sketch.graph(windows), sketch.graph(heads)):
        (found,) = [node for node in canonical(graph) if node.op == "attention"]
        assert (found.shape, found.get("heads")) == ((4, 2, 8, 4), 2)
        prove(graph, stepwise=True)
