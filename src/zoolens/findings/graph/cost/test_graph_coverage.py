"""What a network's coverage says of operators that are not understood."""

import pytest

from zoolens.findings.graph.cost.cost import cost
from zoolens.findings.graph.cost.graph_coverage import graph_coverage, pair_coverage
from zoolens.findings.graph.ir.builder import GraphBuilder


def network(*unknown, **attributes):
    """A dense layer, with operators behind it that nobody knows."""
    builder = GraphBuilder("net")
    value = builder.add("input", (), (1, 4))
    value = builder.add("dense", (value,), (1, 8), parameters=[builder.parameter("kernel", (8, 4), "k", None)])
    for name in unknown:
        value = builder.add("unknown", (value,), (1, 8), source_op=name, **attributes)
    return builder.finish([value])


def test_a_network_that_is_understood_is_covered_whole():
    coverage = graph_coverage(network())
    assert coverage.whole
    assert coverage.text == "Understood: 1 of 1 layers, 32 of 32 parameters, 32 of 32 MACs."


def test_an_operator_that_nobody_knows_is_a_gap_and_leaves_the_total_open():
    coverage = graph_coverage(network("com.acme:Swirl", "com.acme:Swirl"), "B")
    assert [(gap.what, gap.count) for gap in coverage.gaps] == [("operator com.acme:Swirl in B", 2)]
    assert coverage.text.startswith("Understood: 1 of 3 layers, 32 of 32 parameters, 32 MACs of a total")
    assert "without com.acme:Swirl" in coverage.remedies[0]


@pytest.mark.parametrize(("macs", "total"), [(0, 32), (100, 132)])
def test_macs_that_an_importer_can_tell_are_counted_though_the_operator_is_not_understood(macs, total):
    spent = cost(network("TopK", macs=macs))
    assert (spent.macs, spent.macs_whole, spent.whole) == (total, True, False)
    assert not spent.coverage.whole


def test_parameters_inside_a_loop_are_of_an_unknown_number():
    spent = cost(network("Loop"))
    assert not spent.parameters_whole
    assert spent.coverage.tallies[1].total is None


def test_the_gaps_of_a_pair_name_their_side():
    coverage = pair_coverage(network(), network("com.acme:Swirl"), ("a.onnx", "b.onnx"))
    assert [gap.what for gap in coverage.gaps] == ["operator com.acme:Swirl in b.onnx"]
    assert coverage.tallies[0].text == "2 of 3 layers"
