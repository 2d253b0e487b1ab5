"""A graph at another size equals the graph that its source makes at that size."""

from __future__ import annotations

import pytest

from zoolens.base.errors import ModelError
from zoolens.findings.graph.ir.builder import GraphBuilder
from zoolens.findings.graph.ir.model import Graph, Parameter
from zoolens.findings.graph.ir.sliding_windows import ceil_pads, same_pads
from zoolens.findings.graph.signatures.image_size import resized


def _conv(builder: GraphBuilder, given: str, width: int, shape, pads, stride=2) -> str:
    kernel = Parameter("kernel", (width, builder.shapes[given][1], 3, 3), f"k{len(builder.nodes)}")
    return builder.add("conv", (given,), shape, parameters=(kernel,), kernel=(3, 3), stride=(stride,) * 2, pads=pads)


def _network(size: int, style: str, *, flat: bool = False) -> Graph:
    """conv, pool, add of two slices, global pool, dense; padded in one of three styles."""
    builder = GraphBuilder("net")
    x = builder.add("input", (), (1, 3, size, size), name="x")
    window = ((3, 3), (2, 2), (1, 1))
    pads = same_pads((size, size), *window) if style == "same" else (1, 1, 1, 1)
    half = (size + sum(pads[::2]) - 3) // 2 + 1
    x = _conv(builder, x, 8, (1, 8, half, half), pads)
    pool = {"same": same_pads, "ceil": lambda *given: ceil_pads(*given, (0,) * 4)}.get(style, lambda *_: (0,) * 4)
    pads = pool((half, half), *window)
    quarter = (half + sum(pads[::2]) - 3) // 2 + 1
    x = builder.add("max_pool", (x,), (1, 8, quarter, quarter), kernel=(3, 3), stride=(2, 2), pads=pads)
    x = builder.add("slice", (x,), (1, 8, quarter - 1, quarter), axis=2, start=1, stop=quarter)
    tokens = builder.add("reshape", (x,), (1, 8, (quarter - 1) * quarter))
    if flat:
        x = builder.add("flatten", (x,), (1, 8 * (quarter - 1) * quarter))
        kernel = Parameter("kernel", (5, builder.shapes[x][1]), "fc")
    else:
        x = builder.add("mean", (tokens,), (1, 8), axes=(2,))
        kernel = Parameter("kernel", (5, 8), "fc")
    return builder.finish([builder.add("dense", (x,), (1, 5), parameters=(kernel,), name="fc")])


@pytest.mark.parametrize("style", ["same", "ceil", "floor"])
@pytest.mark.parametrize("size", [33, 48, 61])
def test_resizing_is_building_at_that_size(style, size):
    assert resized(_network(32, style), (size, size)).nodes == _network(size, style).nodes


def test_a_dense_layer_after_a_flatten_binds():
    with pytest.raises(ModelError, match=r"net is bound to 32×32 by 'fc' \(dense\).*448 numbers"):
        resized(_network(32, "same", flat=True), (64, 64))


def test_a_reshape_that_splits_a_spatial_axis_binds():
    builder = GraphBuilder("windows")
    x = builder.add("input", (), (1, 3, 14, 14), name="x")
    x = builder.add("reshape", (x,), (1, 3, 2, 7, 2, 7), name="split")
    graph = builder.finish([x])
    with pytest.raises(ModelError, match=r"bound to 14×14 by 'split'.*splits 14"):
        resized(graph, (28, 28))


def test_an_unknown_operator_that_changes_the_shape_binds():
    builder = GraphBuilder("odd")
    x = builder.add("input", (), (1, 3, 8, 8), name="x")
    graph = builder.finish([builder.unknown("Odd", (x,), (1, 3, 2, 2))])
    with pytest.raises(ModelError, match="not known"):
        resized(graph, (16, 16))


def test_without_an_image_there_is_nothing_to_resize():
    builder = GraphBuilder("tokens")
    with pytest.raises(ModelError, match="no image"):
        resized(builder.finish([builder.add("input", (), (1, 7), name="ids")]), (8, 8))
