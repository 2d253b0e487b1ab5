from dataclasses import replace

from zoolens.base.numerics.deviation import Deviation
from zoolens.findings.divergence.alignment import NodePair
from zoolens.findings.divergence.inspection import InspectedLayer
from zoolens.findings.divergence.result import LayerFacts
from zoolens.findings.divergence.trunk import growth_in_files, trunk_of
from zoolens.findings.graph.ir.builder import GraphBuilder


def residual(blocks, *, past=False):
    """Blocks of a relu beside a shortcut; `past`: the last sum is passed by a connection from the input."""
    builder = GraphBuilder("residual", keep_weights=False)
    given = states = builder.add("input", (), (1, 4), name="x")
    for block in range(blocks):
        inner = builder.add("relu", (states,), (1, 4), name=f"relu{block}")
        side = builder.add("add", (inner, inner), (1, 4), name=f"inner{block}")
        states = builder.add("add", (states, side), (1, 4), name=f"sum{block}")
    end = builder.add("mul", (states, given if past else states), (1, 4), name="end")
    return builder.finish([end])


def test_the_trunk_is_what_every_path_passes():
    assert trunk_of(residual(4)) == {f"sum{block}" for block in range(4)}
    assert not trunk_of(residual(4, past=True))
    assert not trunk_of(residual(3)), "too few blocks to be told one by one"


def test_growth_is_told_from_the_first_layer_that_differs():
    def fact(name, error, **more):
        layer = InspectedLayer(NodePair(name, name), None, 1e-5, None, None, Deviation(error), 1e-5)
        return LayerFacts(name, layer, **more)

    quiet = [fact("a", 1e-6), fact("b", 0.0)]
    assert not list(growth_in_files(quiet))
    grown = [*quiet, *(fact(f"sum{place}", place * 1e-2, in_trunk=True) for place in range(10))]
    first, along = growth_in_files(grown)
    assert "first differ at sum1" in first
    assert "Of the values that a side shows" in first
    assert along.startswith("Along the 10 sums through which everything passes, it is 0 at sum0, ")
    assert along.count(" at ") == 6
    unknown = [replace(each, layer=replace(each.layer, files=None)) for each in grown]
    assert not list(growth_in_files(unknown))
