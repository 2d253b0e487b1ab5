"""A layer that packs several becomes as many layers, which compute the same."""

import numpy as np
import pytest

from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.passes.packed_layers import packed_layers, split_packed_layers
from zoolens.findings.graph.reference.interpreter import run

RNG = np.random.default_rng(0)


def packed(cuts, op="dense"):
    """A layer with six outputs, cut at these places; the parts are multiplied."""
    builder = GraphBuilder("packed", keep_weights=True)
    ones = (2, 2) if op == "conv" else ()
    kernel = {"kernel": (1, 1)} if op == "conv" else {}
    value = builder.add("input", (), (1, 4, *ones), name="x", axes="NCHW" if ones else "")
    tensors = [("kernel", (6, 4, *(1 for _ in ones))), ("bias", (6,))]
    parameters = [builder.parameter(role, shape, role, RNG.standard_normal(shape)) for role, shape in tensors]
    layer = builder.add(op, (value,), (1, 6, *ones), name=op, parameters=parameters, **kernel)
    parts = [
        builder.add("slice", (layer,), (1, stop - start, *ones), axis=1, start=start, stop=stop, name="part")
        for start, stop in cuts
    ]
    return builder.finish([builder.add("mul", (parts[0], part), (1, 3, *ones)) for part in parts[1:]])


@pytest.mark.parametrize("op", ["dense", "conv"])
def test_a_layer_that_is_cut_as_a_whole(op):
    graph = packed([(0, 3), (3, 6)], op)
    split = split_packed_layers(graph)
    assert [node.op for node in split.nodes] == ["input", op, op, "mul"]
    x = {"x": RNG.standard_normal(graph.inputs[0].shape)}
    for one, other in zip(run(graph, x).values(), run(split, x).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_gaps_and_overlaps_leave_it_as_it_is():
    for cuts in ([(0, 3), (2, 5)], [(1, 4), (3, 6)], [(0, 3), (0, 3)]):
        graph = packed(cuts)
        assert split_packed_layers(graph) is graph


@pytest.mark.parametrize(
    ("shape", "perm", "axis", "cuts"),
    [
        ((1, 5, 2, 3, 2), (3, 0, 2, 1, 4), 0, [(0, 1), (1, 2), (2, 3)]),  # beside each other for each of two heads
        ((1, 5, 3, 2, 2), (2, 0, 3, 1, 4), 0, [(0, 1), (1, 2), (2, 3)]),
        ((1, 5, 2, 6), (0, 2, 1, 3), 3, [(0, 2), (2, 4), (4, 6)]),
        ((1, 5, 2, 6), None, 3, [(0, 3), (3, 6)]),
        ((1, 5, 12), (0, 2, 1), 1, [(0, 4), (4, 12)]),
    ],
)
def test_parts_that_are_cut_after_an_arrangement(shape, perm, axis, cuts):
    """As attention is packed by heads."""
    builder = GraphBuilder("packed", keep_weights=True)
    value = builder.add("input", (), (1, 5, 4), name="x")
    tensors = [("kernel", (12, 4)), ("bias", (12,))]
    parameters = [builder.parameter(role, of, role, RNG.standard_normal(of)) for role, of in tensors]
    value = builder.add("dense", (value,), (1, 5, 12), parameters=parameters)
    if shape != (1, 5, 12):
        value = builder.add("reshape", (value,), shape)
    turned = tuple(shape[place] for place in perm) if perm else shape
    if perm:
        value = builder.add("transpose", (value,), turned, perm=perm)
    parts = []
    for start, stop in cuts:
        extents = (*turned[:axis], stop - start, *turned[axis + 1 :])
        parts.append(builder.add("slice", (value,), extents, axis=axis, start=start, stop=stop))
    graph = builder.finish([builder.add("relu", (part,), builder.shapes[part]) for part in parts])
    assert packed_layers(graph) == 1
    split = split_packed_layers(graph)
    assert [node.op for node in split.nodes].count("dense") == len(cuts)
    assert "slice" not in [node.op for node in split.nodes]
    assert packed_layers(split) == 0
    x = {"x": RNG.standard_normal((1, 5, 4))}
    for one, other in zip(run(graph, x).values(), run(split, x).values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
